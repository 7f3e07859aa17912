package command

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/processes"
)

func TestEveryCommandIsExplained(t *testing.T) {
	root := newRoot(testEnvironment(nil))
	seen := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		seen++
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: Short is %q", cmd.CommandPath(), cmd.Short)
		}
		if !strings.HasPrefix(cmd.Example, "  ") || !strings.Contains(cmd.Example, cmd.CommandPath()) && cmd.Parent() != nil {
			t.Errorf("%s: Example is %q", cmd.CommandPath(), cmd.Example)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	if seen < 20 {
		t.Errorf("only %d commands", seen)
	}
}

// A config that an example of the help sets is one that its kind takes.
func TestConfigsOfExamplesAreTaken(t *testing.T) {
	checkers, err := service.NewCheckers(settings.Poller{}, service.Options{})
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
	seen := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			words := word.FindAllString(strings.TrimSpace(line), -1)
			kind, url, sets := "", "", []string(nil)
			for i, w := range words[:max(0, len(words)-1)] {
				next := strings.Trim(words[i+1], `'`)
				switch {
				case w == "--kind":
					kind = next
				case w == "--set":
					sets = append(sets, next)
				case w == "verify":
					kind, url = "http", next
				}
			}
			if kind == "" || len(sets) == 0 || strings.Contains(line, "--config") {
				continue
			}
			if url != "" {
				sets = append(sets, "url="+url)
			}
			seen++
			config, err := buildConfig(testEnvironment(nil), "", sets)
			if err == nil {
				err = checkers.Validate(kind, config)
			}
			if err != nil && !errors.Is(err, fetch.ErrPrivate) {
				t.Errorf("%s: %v", strings.TrimSpace(line), err)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(testEnvironment(nil)))
	if seen < 5 {
		t.Errorf("only %d examples set a config", seen)
	}
}

func TestCommandsWithoutAnAPI(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "Usage:"},
		{[]string{"account"}, "Available Commands:"},
		{[]string{"version"}, ", commit "}, {[]string{"version", "--json"}, "\n  \"version\": \""},
		{[]string{"settings"}, "ROUNDS_CONCURRENCY"},
		{[]string{"settings", "--markdown"}, "| `ROUNDS_CONCURRENCY` | `256` |"},
		{[]string{"completion", "bash"}, "bash completion"},
		{[]string{"serve", "--help"}, "--check-timeout duration"},
		{[]string{"stats", "--help"}, "newly            failing accounts that began to fail within the last hour"},
	} {
		printed, err := runWith(t.Context(), nil, "", c.args...)
		if err != nil || !strings.Contains(printed.out, c.want) || printed.err != "" {
			t.Errorf("%q: got %q, %v", c.args, printed, err)
		}
	}
	for _, args := range [][]string{{"serv"}, {"account", "lst"}, {"account", "get"}, {"stats", "now"}, {"stats", "--interval", "0s"}, {"messages", "tail", "--from", "then"}} {
		if _, err := runWith(t.Context(), nil, "", args...); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"stats"}, {"account", "list"}, {"account", "export"}, {"account", "import", "-"}, {"messages", "tail"}} {
		_, err := runWith(t.Context(), nil, "", append(args, "--api-url", url)...)
		want := "cannot reach the API at " + url + ": is `rounds serve` running? set ROUNDS_API_URL"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", args, err)
		}
	}
	if _, err := runWith(t.Context(), nil, "", "health", "--url", url); err == nil || !strings.HasPrefix(err.Error(), "not ready: ") {
		t.Errorf("health: got %v", err)
	}
}

func TestWithoutTheToken(t *testing.T) {
	s := startAPI(t)
	_, err := runWith(t.Context(), map[string]string{"ROUNDS_API_URL": s.url}, "", "stats")
	if err == nil || !strings.Contains(err.Error(), "(401 Unauthorized): set ROUNDS_API_TOKEN") {
		t.Errorf("got %v", err)
	}
}

func TestMessagesTail(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "news", "--kind", "feed", "--set", "url=u")
	s.find("news",
		circulate.Message{ID: "1", Type: "item", Time: time.Unix(1700000000, 0), Data: []byte(`{"title":"<first>\u001b[31m"}`)},
		circulate.Message{ID: "2 b", Data: []byte(`"` + strings.Repeat("é", 300) + `"`)})
	lines := strings.SplitAfter(s.must("messages", "tail", "--from", "start", "--limit", "2"), "\n")
	first := time.Unix(1700000000, 0).Format(time.DateTime) + "  news  item  1  " + `{"title":"<first>\u001b[31m"}` + "\n"
	second := `-  news  ""  "2 b"  "` + strings.Repeat("é", dataWidth-1) + "…\n"
	if len(lines) != 3 || lines[0] != first || lines[1] != second {
		t.Errorf("got %q, want %q and %q", lines, first, second)
	}
	for _, args := range [][]string{{"--account", "news"}, {"--kind", "feed"}, {"--account", "other", "--account", "news"}, {"--type", "item"}} {
		if got := s.must(append([]string{"messages", "tail", "--from", "start", "--limit", "1"}, args...)...); got != first {
			t.Errorf("%q: got %q", args, got)
		}
	}
	s.must("account", "add", "last", "--kind", "feed", "--set", "url=u")
	s.find("last", circulate.Message{ID: "3", Type: "other", Data: []byte(`1`)})
	if got := s.must("messages", "tail", "--from", "start", "--limit", "1", "--account", "last", "--type", "other"); !strings.Contains(got, "  last  other  3  1") {
		t.Errorf("got %q", got)
	}
	if _, err := s.rounds("messages", "tail", "--group", "g", "--account", "last"); exitCode(err) != 2 {
		t.Errorf("of a group: %v", err)
	}
	var m struct{ Account, ID string }
	raw := s.must("messages", "tail", "--from", "start", "--limit", "1", "--json")
	if err := json.Unmarshal([]byte(raw), &m); err != nil || m.Account != "news" || m.ID != "1" {
		t.Errorf("got %s, %v", raw, err)
	}
}

// An interrupt ends a tail without an error.
func TestMessagesTailEndsWithItsContext(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "news", "--kind", "feed", "--set", "url=u")
	s.find("news", circulate.Message{ID: "1"})
	ctx, cancel := context.WithCancel(t.Context())
	env := testEnvironment(map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken})
	// The interrupt comes with the first output.
	env.stdout = writerFunc(func(p []byte) (int, error) {
		cancel()
		return len(p), nil
	})
	env.stderr = env.stdout
	if err := run(ctx, []string{"messages", "tail", "--from", "start"}, env); err != nil {
		t.Errorf("got %v", err)
	}
}

// A tail that shows nothing says why: what cannot exist is refused, and after a while it
// tells which accounts fail.
func TestMessagesTailSaysWhyNothingComes(t *testing.T) {
	s := startAPI(t, func(o *api.Options) { o.Kinds = []strict.Kind{{Name: "feed"}, {Name: "imap"}} })
	s.must("account", "add", "news", "--kind", "feed", "--set", "url=u")
	for _, args := range [][]string{{"messages", "tail", "--from", "start"}, {"account", "list"}, {"account", "pause"}} {
		if _, err := s.rounds(append(args, "--kind", "fed")...); err == nil || err.Error() != `--kind: there is no kind "fed": the kinds are feed, imap` {
			t.Errorf("%q: %v", args, err)
		}
	}
	if got := s.must("account", "list", "--kind", "imap"); strings.Count(got, "\n") != 1 {
		t.Errorf("of a kind that no account has: %q", got)
	}
	quiet := time.Millisecond
	said := func(args ...string) (lines []string) {
		ctx, cancel := context.WithCancel(t.Context())
		env := testEnvironment(map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken})
		env.quiet, env.stdout = quiet, &strings.Builder{}
		env.stderr = writerFunc(func(p []byte) (int, error) {
			if lines = append(lines, string(p)); strings.HasPrefix(string(p), "nothing yet") {
				cancel()
			}
			return len(p), nil
		})
		if err := run(ctx, append([]string{"messages", "tail"}, args...), env); err != nil {
			t.Errorf("%q: %v", args, err)
		}
		return lines
	}
	if got := said("--account", "nosuch", "--from", "start"); !slices.Equal(got, []string{"no account is named nosuch\n", "nothing yet; none of these accounts is registered\n"}) {
		t.Errorf("%q", got)
	}
	s.check("news", circulate.Return{Failures: 1, Mark: accounts.NewCodes().Mark("transient"), Error: "http_500: the server fails"})
	for _, args := range [][]string{nil, {"--group", "q"}} {
		if got := said(args...); !slices.Equal(got, []string{"nothing yet; news fails: see rounds account why news\n"}) {
			t.Errorf("%q: %q", args, got)
		}
	}
	// Only accounts that could have the wanted messages are named.
	s.must("account", "add", "mine", "--kind", "feed", "--set", "url=u")
	const none, fails = "nothing yet; none of these accounts fails\n", "nothing yet; news fails: see rounds account why news\n"
	for args, want := range map[string]string{"--account mine": none, "--account mine --account news": fails, "--kind feed": fails, "--kind imap": none} {
		if got := said(strings.Fields(args)...); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	s.find("mine", circulate.Message{ID: "1", Type: "item", Data: []byte("{}")})
	for got := []string(nil); !slices.Equal(got, []string{"nothing yet of the type itm; messages of other types came: item\n"}); quiet *= 2 {
		if got = said("--account", "mine", "--kind", "feed", "--type", "itm", "--from", "start"); quiet > 10*time.Second {
			t.Fatalf("%q", got)
		}
	}
	quiet = time.Millisecond
	s.must("account", "rm", "mine")
	s.must("account", "rm", "news")
	if got := said(); !slices.Equal(got, []string{"nothing yet; no account is registered: see rounds account add --help\n"}) {
		t.Errorf("%q", got)
	}
}

func TestStatsSayWhereEverythingIsKept(t *testing.T) {
	for want, data := range map[string]*api.Data{
		"kept in   the memory of the serving process: everything is lost when it ends\n": {Store: "embedded", Forgets: true},
		"kept in   /home/me/.local/state/rounds, by the serving process\n":               {Store: "embedded, kept in /home/me/.local/state/rounds", Dir: "/home/me/.local/state/rounds"},
		"kept in   redis 10.0.0.1:6379\nconcern   redis n: set it to noeviction\n": {Store: "10.0.0.1:6379",
			Concerns: []api.RedisConcern{{Node: "n", Concern: "eviction", Text: "redis n: set it to noeviction"}}},
	} {
		var out strings.Builder
		if err := printStats(&out, shownStats{Stats: api.Stats{Data: data}}); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s%v", want, &out, err)
		}
	}
}

// Values that are not known yet must not look like good ones.
func TestStatsBeforeAnythingWasCounted(t *testing.T) {
	var out strings.Builder
	if err := printStats(&out, shownStats{Stats: api.Stats{Accounts: api.Places{Registered: 3}}}); err != nil || !strings.Contains(out.String(), "failing   not counted yet") {
		t.Errorf("%v\n%s", err, out.String())
	}
	out.Reset()
	if err := printStats(&out, shownStats{}); err != nil || strings.Contains(out.String(), "failing") {
		t.Errorf("of no accounts: %v\n%s", err, out.String())
	}
}

func TestStats(t *testing.T) {
	s := startAPI(t)
	if got := s.must("stats"); !strings.Contains(got, "accounts  0: 0 scheduled") || !strings.Contains(got, "no replica is running") ||
		!strings.Contains(got, "LEVEL  SINCE  WRONG NOW\nbad    -      no replica is alive: no account is checked\nbad    -      no monitor is alive") {
		t.Errorf("got\n%s", got)
	}
	s.must("account", "add", "news", "--kind", "feed", "--set", "url=u")
	report, err := json.Marshal(accounts.Report{Host: "host1", Concurrency: 256, InFlight: 3, ChecksPerSecond: 12.34, LatenessP99: 90.4})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ring.Heartbeat(t.Context(), circulate.NewReplica(), report, time.Minute); err != nil {
		t.Fatal(err)
	}
	stale := []byte(`{"at":"2026-11-20T08:00:00Z","scanned":1000,"seconds_p50":2.5,"seconds_p99":61,"seconds_max":90,"stalest":"news",
		"failing":{"accounts":300,"newly":280,"never_succeeded":20,"behind":12,"missed_slots_p99":0,"missed_slots_max":7,"most_missed":"old",
			"kinds":[{"kind":"feed","accounts":300,"newly":280,"never_succeeded":20,"behind":11},{"kind":"http","accounts":0,"newly":0,"never_succeeded":0,"behind":1}]}}`)
	if err := s.ring.KeepStaleness(t.Context(), stale); err != nil {
		t.Fatal(err)
	}
	for name, settings := range map[string]string{"one": `{"ROUNDS_X":"1"}`, "two": `{"ROUNDS_X":"1"}`, "three": `{"ROUNDS_X":"2"}`} {
		about := `{"version":"v1.2.3","host":"host2","since":"2026-11-20T08:00:00Z","settings":` + settings + `}`
		if _, err := s.ring.Roster().Attend(t.Context(), circulate.Process{Name: name, Roles: "api,monitor"}, []byte(about)); err != nil {
			t.Fatal(err)
		}
	}
	got := s.must("stats")
	for _, want := range []string{"accounts   1: ", "shards     4\n", "backup     none that this service knows of", "staleness  p50 2.5s, p99 1m1s, most 1m30s (news), of 1000 accounts at 2026-11-", "host1", "alive", "3/256", "12.3", "1m30s",
		"failing    300 accounts, 280 newly; 20 never succeeded\n           feed: 300 failing, 280 newly; 20 never succeeded\n",
		"one      api,monitor  host2  v1.2.3   2026-11-", "settings that differ\nthree  ROUNDS_X  2  mostly 1\n",
		"behind     12 accounts missed three slots of the cadence or more (a slot is a minute at least); most missed: 7 slots (old)\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	var stats struct {
		Accounts struct{ Registered int }
		Failing  struct{ Accounts, Newly int }
	}
	if raw := s.must("stats", "--json"); json.Unmarshal([]byte(raw), &stats) != nil || stats.Accounts.Registered != 1 || stats.Failing.Accounts != 300 || stats.Failing.Newly != 280 {
		t.Errorf("got %s", raw)
	}
	ctx, cancel := context.WithCancel(t.Context())
	env := testEnvironment(map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken})
	var shown strings.Builder
	env.stdout = writerFunc(func(p []byte) (int, error) {
		shown.Write(p)
		if strings.Count(shown.String(), "accounts   1") == 3 {
			cancel()
		}
		return len(p), nil
	})
	if err := run(ctx, []string{"stats", "--watch", "--interval", "1ms"}, env); err != nil || strings.Count(shown.String(), "host1") < 2 {
		t.Errorf("watch: %v, shown\n%s", err, shown.String())
	}
}

// An outage does not end a watch. It shows the last figures, and why there are none since.
func TestStatsWatchGoesOnAfterAnOutage(t *testing.T) {
	s := startAPI(t)
	to, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	there := httputil.NewSingleHostReverseProxy(to)
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/stats" {
			asked++
		}
		if asked == 2 || asked == 3 {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"detail":"Redis cannot be reached"}`)
			return
		}
		there.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	const why = "Redis cannot be reached (503 Service Unavailable); trying again\n"
	for _, screen := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		env := testEnvironment(map[string]string{"ROUNDS_API_URL": server.URL, "ROUNDS_API_TOKEN": testToken})
		env.isTerminal = func(any) bool { return screen }
		asked = 0
		var shown, errs strings.Builder
		env.stderr = &errs
		env.stdout = writerFunc(func(p []byte) (int, error) {
			shown.Write(p)
			if got := shown.String(); asked == 4 && strings.LastIndex(got, "accounts  0") > strings.LastIndex(got, why) {
				cancel()
			}
			return len(p), nil
		})
		if err := run(ctx, []string{"stats", "--watch", "--interval", "1ms"}, env); err != nil {
			t.Errorf("screen %t: %v", screen, err)
		}
		onScreen, beside := 2, ""
		if !screen {
			onScreen, beside = 0, "rounds: "+why
		}
		if got := shown.String(); strings.Count(got, why) != onScreen || strings.Count(got, "there are none since: ") != onScreen || strings.Count(got, "accounts  0") != 2+onScreen || errs.String() != beside {
			t.Errorf("screen %t: %s\n%s", screen, got, errs.String())
		}
	}
	asked = 1
	if _, err := runWith(t.Context(), map[string]string{"ROUNDS_API_URL": server.URL, "ROUNDS_API_TOKEN": testToken}, "", "stats", "--watch"); err == nil {
		t.Error("a service that does not serve at the start is watched")
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestHealth(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte("Redis cannot\nbe reached"))
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, variables := range map[string]map[string]string{
		"API":       {"ROUNDS_API_ADDR": "127.0.0.1:" + port},
		"all":       {"ROUNDS_API_ADDR": ":" + port, "ROUNDS_API_TOKEN": "0123456789abcdef"},
		"wild card": {"ROUNDS_API_ADDR": "[::]:" + port, "ROUNDS_API_TOKEN": "0123456789abcdef"},
		"ops":       {"ROUNDS_ROLES": "poller", "ROUNDS_OPS_ADDR": "0.0.0.0:" + port},
		"API URL":   {"ROUNDS_API_URL": server.URL + "/", "ROUNDS_OPS_ADDR": "127.0.0.1:1", "ROUNDS_CONCURRENCY": "lots"},
		"a file":    {"ROUNDS_SETTINGS_FILE": settingsFile(t, "ROUNDS_API_URL="+server.URL+"\n")},
	} {
		if _, err := runWith(t.Context(), variables, "", "health"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := runWith(t.Context(), map[string]string{"ROUNDS_ROLES": "poller"}, "", "health"); err == nil || !strings.Contains(err.Error(), "set ROUNDS_OPS_ADDR") {
		t.Errorf("got %v", err)
	}
	status = http.StatusServiceUnavailable
	_, err = runWith(t.Context(), nil, "", "health", "--url", server.URL+"/")
	if err == nil || err.Error() != `not ready: 503 Service Unavailable: Redis cannot\nbe reached` {
		t.Errorf("got %v", err)
	}
}

// settingsFile writes a settings file with a text and returns its path.
func settingsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A process reads its settings again on the command reload and on SIGHUP. It handles the
// signal before anything else.
func TestServeReloads(t *testing.T) {
	addr := freeLoopback(t)
	path := settingsFile(t, "ROUNDS_LIMITS=feed rate=2/s\n")
	variables := map[string]string{"ROUNDS_SETTINGS_FILE": path, "ROUNDS_API_ADDR": addr, "ROUNDS_API_URL": "http://" + addr, "ROUNDS_LOG_FORMAT": "json"}
	p := startProgram(t, variables, "serve")
	p.log.Await(t, "ring open")
	processes.AwaitStatus(t, "http://"+addr+"/readyz", http.StatusOK)
	reload := func(text string) (string, error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		without := maps.Clone(variables) // the reload command does not get the service's settings file
		delete(without, "ROUNDS_SETTINGS_FILE")
		got, err := runWith(t.Context(), without, "", "reload")
		return got.out, err
	}
	if got, err := reload("ROUNDS_LIMITS=feed rate=2/s\n"); err != nil || got != "nothing has changed\n" {
		t.Errorf("%q, %v", got, err)
	}
	want := "changed: ROUNDS_LIMITS, ROUNDS_LOG_LEVEL\ntakes effect after a restart: ROUNDS_CONCURRENCY\n"
	if got, err := reload("ROUNDS_LIMITS=feed rate=5/s\nROUNDS_LOG_LEVEL=debug\nROUNDS_CONCURRENCY=7\n"); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := reload("ROUNDS_LIMITS=feed rate=x\nROUNDS_CONCURENCY=7\n"); err == nil || !strings.Contains(err.Error(), "nothing has changed (422") ||
		!strings.Contains(err.Error(), "\n  ROUNDS_SETTINGS_FILE is") || !strings.Contains(err.Error(), "ROUNDS_LIMITS is \"feed rate=x\"") {
		t.Errorf("got %v", err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func TestCompletionOfIDs(t *testing.T) {
	s := startAPI(t)
	for _, id := range []string{"news-1", "news-2", "other"} {
		s.must("account", "add", id, "--kind", "feed", "--set", "url=u")
	}
	got := s.must("__complete", "account", "pause", "news-1", "ne")
	if got != "news-2\n:4\n" {
		t.Errorf("got %q", got)
	}
}

// A service that finds its address taken names the one that has it, and its data directory.
func TestServeSaysWhoHasTheAddress(t *testing.T) {
	for _, token := range []string{"", "a-token-of-this-test"} {
		addr, dir := freeLoopback(t), t.TempDir()
		variables := map[string]string{"ROUNDS_API_ADDR": addr, "ROUNDS_API_URL": "http://" + addr, "ROUNDS_DATA_DIR": dir, "ROUNDS_API_TOKEN": token}
		p := startProgram(t, variables, "serve")
		processes.AwaitStatus(t, "http://"+addr+"/readyz", http.StatusOK)
		if got, err := runWith(t.Context(), variables, "", "whoami"); err != nil || !strings.Contains(got.out, "at http://"+addr+": rounds ") || !strings.Contains(got.out, dir) {
			t.Errorf("whoami: %q, %v", got.out, err)
		}
		if got, err := runWith(t.Context(), variables, "", "stats"); err != nil || !strings.Contains(got.out, "http://"+addr) {
			t.Errorf("stats: %q, %v", got.out, err)
		}
		for other, want := range map[string]string{token: dir, "another-token-of-it": "another rounds seems to be there"} {
			if token == "" {
				want = dir
			}
			second := maps.Clone(variables)
			second["ROUNDS_DATA_DIR"], second["ROUNDS_API_TOKEN"] = t.TempDir(), other
			if _, err := runWith(t.Context(), second, "", "serve"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "ROUNDS_API_ADDR") {
				t.Errorf("token %q: got %v, want %s", other, err, want)
			}
		}
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	go func() { // accepts, and says nothing
		for {
			conn, err := taken.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	_, err = runWith(t.Context(), map[string]string{"ROUNDS_API_ADDR": taken.Addr().String(), "ROUNDS_DATA_DIR": t.TempDir()}, "", "serve")
	if err == nil || strings.Contains(err.Error(), "rounds ") || !strings.Contains(err.Error(), "choose another with ROUNDS_API_ADDR, and ROUNDS_API_URL for the commands") {
		t.Errorf("another program: %v", err)
	}
	_, err = runWith(t.Context(), map[string]string{"ROUNDS_API_ADDR": freeLoopback(t), "ROUNDS_OPS_ADDR": taken.Addr().String(), "ROUNDS_DATA_DIR": t.TempDir()}, "", "serve")
	if err == nil || strings.Contains(err.Error(), "ROUNDS_API_ADDR") || !strings.Contains(err.Error(), "choose another with ROUNDS_OPS_ADDR") {
		t.Errorf("the operators' address: %v", err)
	}
}

func TestServeRefusesAMisspeltRedis(t *testing.T) {
	_, err := runWith(t.Context(), map[string]string{"ROUNDS_REDIS_URI": "redis://10.0.0.1:6379"}, "", "serve")
	if err == nil || !strings.Contains(err.Error(), "ROUNDS_REDIS_URI: no setting has this name (is it ROUNDS_REDIS_URL?)") {
		t.Errorf("got %v", err)
	}
}

// The doctor looks at a service whose Redis is inside its process through the API, and at
// one whose API is away as well. Its exit code tells whether there is a fault.
func TestDoctorOfAServiceWithoutRedis(t *testing.T) {
	addr := freeLoopback(t)
	variables := map[string]string{"ROUNDS_API_ADDR": addr, "ROUNDS_API_URL": "http://" + addr, "ROUNDS_DATA_DIR": t.TempDir(), "ROUNDS_LOG_FORMAT": "json", "ROUNDS_SECRET_CRM": "hunter2hunter2", "ROUNDS_ALLOW_NETWORKS": addr}
	doctor := func(args ...string) (output, error) {
		return runWith(t.Context(), variables, "", append([]string{"doctor"}, args...)...)
	}
	printed, err := doctor()
	if err == nil || exitCode(err) != 1 || err.Error() != "1 fault" || !strings.Contains(printed.out, "start the service (rounds serve)") || !strings.Contains(printed.out, "skipped  law") {
		t.Errorf("before the start: %q, %v", printed, err)
	}
	p := startProgram(t, variables, "serve")
	processes.AwaitStatus(t, "http://"+addr+"/readyz", http.StatusOK)
	if _, err := runWith(t.Context(), variables, "", "account", "add", "a", "--kind", "http", "--set", "url=http://"+addr+"/x", "--set", `headers={"X-Key":{"secret":"CRM"}}`, "--every", "1h"); err != nil {
		t.Fatal(err)
	}
	printed, err = doctor("--audit")
	for _, want := range []string{"ok       data", "embedded, kept in", "ok       replicas", "an audit of 1 account just now", "1 secret of 1 account can be read", addr + " was reached", "\nNothing to do.\n"} {
		if err != nil || !strings.Contains(printed.out, want) || strings.Contains(printed.out, "hunter2") {
			t.Errorf("%v, want %q in\n%s", err, want, printed.out)
		}
	}
	printed, err = doctor("--json")
	var report struct {
		Checks []struct{ Part, Status, Text string }
		Todo   []string
	}
	if err != nil || json.Unmarshal([]byte(printed.out), &report) != nil || len(report.Checks) < 9 || report.Todo == nil || len(report.Todo) != 0 {
		t.Errorf("%v, %s", err, printed.out)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// A kind's fields are listed for somebody who has none of the pages at hand.
func TestKinds(t *testing.T) {
	feed := strict.Kind{Name: "feed", Fields: []strict.Field{
		{Name: "url", Type: strict.URL, Required: true, Example: "https://example.com/feed.xml", Help: strict.Words{EN: "The feed's address."}},
		{Name: "login", Type: strict.Login, Example: map[string]any{"user": "me"}, Help: strict.Words{EN: "Who asks."}},
	}}
	s := startAPI(t, func(o *api.Options) { o.Kinds = []strict.Kind{feed, {Name: "own"}} })
	if got := s.must("kinds"); got != "KIND  POLLERS  FIELDS\nfeed  0        url [login]\nown   0        (JSON)\n" {
		t.Errorf("got\n%s", got)
	}
	want := "FIELD  REQUIRED  FOR EXAMPLE                   WHAT IT IS\n" +
		"url    yes       https://example.com/feed.xml  The feed's address.\n" +
		"login  no        {\"user\":\"me\"}                 Who asks.\n"
	if got := s.must("kinds", "feed"); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := s.must("kinds", "own"); got != "own declares no fields: its config is JSON\n" {
		t.Errorf("got %q", got)
	}
	if _, err := s.rounds("kinds", "fed"); err == nil || err.Error() != `there is no kind "fed": the kinds are feed, own` {
		t.Errorf("got %v", err)
	}
	var one api.Kind
	if got := s.must("kinds", "feed", "--json"); json.Unmarshal([]byte(got), &one) != nil || len(one.Fields) != 2 {
		t.Errorf("got %s", got)
	}
}
