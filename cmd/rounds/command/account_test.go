package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func getAccount(s *apiServer, id string) api.Account {
	s.t.Helper()
	var a api.Account
	if err := json.Unmarshal([]byte(s.must("account", "get", "--json", "--", id)), &a); err != nil {
		s.t.Fatal(err)
	}
	return a
}

func TestAccountAdd(t *testing.T) {
	s := startAPI(t)
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(`{"url": "https://a.example", "big": 12345678901234567890}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args           []string
		config, labels string
		cadence        string
	}{
		{[]string{"--set", "url=https://a.example/?x=1"}, `{"url":"https://a.example/?x=1"}`, "", "every 1m"},
		{[]string{"--set", "url=u", "--set", "n=007", "--set", "m=7.50", "--set", "b=true", "--set", "w=null", "--set", `q="5"`, "--set", "l=[1, 2]", "--set", "e="},
			`{"b":true,"e":"","l":[1,2],"m":7.50,"n":"007","q":"5","url":"u","w":"null"}`, "", "every 1m"},
		{[]string{"--set", "url=u", "--set", "auth.user=me", "--set", `auth.password={"secret":"CRM"}`, "--every", "90s"},
			`{"auth":{"password":{"secret":"CRM"},"user":"me"},"url":"u"}`, "", "every 90s"},
		{[]string{"--config", "@" + file, "--set", "url=other", "--cadence", "every 2m", "--label", "team=a=b", "--label", "x=", "--every-not"}, "", "", ""},
		{[]string{"--config", "@" + file, "--set", "url=other", "--cadence", "every 2m", "--label", "team=a=b", "--label", "x="},
			`{"big":12345678901234567890,"url":"other"}`, "team=a=b x=", "every 2m"},
		{[]string{"--config", `{"url":"u"}`, "--every", "0"}, `{"url":"u"}`, "", "every 0"},
	} {
		id := "ü/" + strings.Join(c.args, "")[:12] + c.config[:min(9, len(c.config))] + c.cadence
		printed, err := s.rounds(append([]string{"account", "add", id, "--kind", "feed"}, c.args...)...)
		if c.config == "" {
			if err == nil {
				t.Errorf("%q: no error", c.args)
			}
			continue
		}
		if err != nil || printed.out != id+" added\n" {
			t.Errorf("%q: got %q, %v", c.args, printed, err)
			continue
		}
		a := getAccount(s, id)
		if string(a.Config) != c.config || a.Cadence != c.cadence && a.Cadence != "" || a.Kind != "feed" || a.ID != id {
			t.Errorf("%q: got %+v, %s", c.args, a, a.Config)
		}
		var labels []string
		for _, name := range []string{"team", "x"} {
			if value, ok := a.Labels[name]; ok {
				labels = append(labels, name+"="+value)
			}
		}
		if strings.Join(labels, " ") != c.labels {
			t.Errorf("%q: labels %v", c.args, a.Labels)
		}
	}
}

func TestAccountAddRefused(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "there", "--kind", "feed", "--set", "url=u")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"a"}, []string{"--kind is missing: which checker checks it, such as feed or http"}},
		{[]string{"a", "--kind", "feed", "--every", "1m", "--cadence", "every 1m"}, []string{"every", "cadence"}},
		{[]string{"a", "--kind", "feed", "--every", "soon"}, []string{"(422 Unprocessable Entity)\n", "\n  cadence: ", "\n  config.url: must not be empty\n", "\n  config: is of no use"}},
		{[]string{"a", "--kind", "feed", "--set", "url", "--set", "a=1", "--set", "a.b=1", "--set", "c..d=1", "--label", "l"},
			[]string{`--set "url" must be key=value` + "\n", "--set a.b: a is already set and is not an object\n", "--set c..d: has an empty part", `--label "l" must be name=value`}},
		{[]string{"a", "--kind", "feed", "--set", "url=u", "--priority", "high", "--cadence", "at 2001-01-01T00:00:00Z"},
			[]string{"\n  priority: must be \"urgent\"", "\n  cadence: \"at 2001-01-01T00:00:00Z\" is past: it is now 2"}},
		{[]string{"a", "--kind", "feed", "--config", "{"}, []string{"--config is not JSON"}},
		{[]string{"a", "--kind", "feed", "--config", "@/nowhere/file"}, []string{"--config: open /nowhere/file"}},
		{[]string{"a", "--kind", "feed", "--config", "[]", "--set", "url=u"}, []string{"--config must be an object"}},
		{[]string{"there", "--kind", "feed", "--set", "url=w"}, []string{"(409 Conflict): --replace replaces", "account set"}},
	} {
		_, err := s.rounds(append([]string{"account", "add"}, c.args...)...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %q", c.args, err, want)
			}
		}
	}
	// An account that has this record already needs nothing done.
	same := []string{"account", "add", "there", "--kind", "feed", "--set", "url=u", "--set", "b=[1.0]", "--set", "a=1", "--label", "l=v", "--retry-budget", "3"}
	s.must(append(same, "--replace")...)
	if got := s.must(append(same, "--priority", "normal")...); got != "there is already registered with this record\n" {
		t.Errorf("again: %q", got)
	}
	if _, err := s.rounds(append(same, "--every", "1m")...); client.Status(err) != http.StatusConflict {
		t.Errorf("with a cadence that it does not name: %v", err)
	}
	if got := s.must("account", "list"); !strings.Contains(got, "every 1m (default)") {
		t.Errorf("list: %q", got)
	}
	if got := s.must("account", "get", "there"); !strings.Contains(got, "cadence   every 1m (default)\n") {
		t.Errorf("get: %q", got)
	}
	if got := s.must("account", "add", "there", "--kind", "feed", "--set", "url=v", "--replace"); got != "there saved\n" {
		t.Errorf("got %q", got)
	}
}

func TestAccountLife(t *testing.T) {
	s := startAPI(t)
	ids := []string{"a/b", "..", ".", "ü c?d#e%41", "-x", "plain"}
	for _, id := range ids {
		s.must("account", "add", "--kind", "feed", "--set", "url=u", "--label", "l=v", "--", id)
	}
	if got := s.must(append([]string{"account", "pause", "--"}, ids...)...); got != strings.Join(ids, " paused\n")+" paused\n" {
		t.Errorf("pause: got %q", got)
	}
	for _, id := range ids {
		if a := getAccount(s, id); a.ID != id || a.State.Place != "parked" || a.State.Reason != "paused" {
			t.Errorf("%s: got %+v", id, a)
		}
	}
	got := s.must("account", "get", "plain")
	for _, want := range []string{"id        plain\n", "priority  normal\n", "state     parked since 2", ": paused\n", "label     l=v\n", "config    {\n", `            "url": "u"`} {
		if !strings.Contains(got, want) {
			t.Errorf("get: no %q in\n%s", want, got)
		}
	}
	if list := s.must("account", "list", "--state", "parked", "--limit", "5"); strings.Count(list, "\n") != 6 || !strings.HasPrefix(list, "ID ") {
		t.Errorf("list: got\n%s", list)
	}
	if list := s.must("account", "list", "--state", "scheduled", "--json"); list != "" {
		t.Errorf("list: got\n%s", list)
	}
	if _, err := s.rounds("account", "nudge", "plain"); err == nil || !strings.Contains(err.Error(), "409") {
		t.Errorf("nudge of a parked account: %v", err)
	}
	s.must("account", "resume", "plain")
	if got := s.must("account", "nudge", "plain", "--within", "5s", "--hint", `{"token":"t"}`, "--hint-lives", "10m"); got != "plain nudged\n" {
		t.Errorf("nudge: got %q", got)
	}
	if _, err := s.rounds("account", "nudge", "plain", "--hint", "{"); err == nil || !strings.Contains(err.Error(), "--hint is not JSON") {
		t.Errorf("nudge: got %v", err)
	}
	printed, err := s.rounds("account", "rm", "plain", "none", "a/b")
	if printed.out != "plain removed\na/b removed\n" || err == nil || !strings.HasPrefix(err.Error(), "none: ") || !strings.Contains(err.Error(), "404") {
		t.Errorf("rm: got %q, %v", printed, err)
	}
	if _, err := s.rounds("account", "get", "plain"); err == nil {
		t.Error("get after rm: no error")
	}
}

func TestAccountListGoesThroughAllPages(t *testing.T) {
	s := startAPI(t)
	records := make([]string, 2*pageSize+5)
	for i := range records {
		records[i] = `{"id":"account-` + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + `","kind":"feed","config":{"url":"u"}}`
	}
	if _, err := s.roundsWith(t.Context(), strings.Join(records, "\n"), "account", "import", "-"); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(s.must("account", "list", "--json")) {
		var a api.Account
		if err := json.Unmarshal([]byte(line), &a); err != nil || seen[a.ID] {
			t.Fatalf("%q: %v, seen %t", line, err, seen[a.ID])
		}
		seen[a.ID] = true
	}
	if len(seen) != len(records) {
		t.Errorf("%d of %d listed", len(seen), len(records))
	}
	if got := strings.Count(s.must("account", "list", "--limit", "120"), "\n"); got != 121 {
		t.Errorf("%d lines, want 120 and a header", got)
	}
}

func TestImportAndExport(t *testing.T) {
	s := startAPI(t)
	records := `{"id":"a","kind":"feed","config":{"url":"u"}}
{"id":"b","kind":"feed","config":{},"cadence":"soon"}

{"id":"c","kind":"feed","config":{"url":"<u>"},"labels":{"l":"v"}}
nonsense
`
	printed, err := s.roundsWith(t.Context(), records, "account", "import", "-")
	if err == nil || err.Error() != "2 of 4 lines were not accepted" || printed.err != "" {
		t.Errorf("got %v, %q", err, printed.err)
	}
	for _, want := range []string{"line 2, b: cadence: ", "line 2, b: config.url: must not be empty\n", "line 5: ", "4 lines: 2 created, 0 updated, 0 unchanged, 2 failed\n"} {
		if !strings.Contains(printed.out, want) {
			t.Errorf("import: no %q in\n%s", want, printed.out)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "export.ndjson")
	if got := s.must("account", "export", file); got != "2 accounts written to "+file+"\n" {
		t.Errorf("export: got %q", got)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.must("account", "export"); got != string(text) || strings.Count(got, "\n") != 2 {
		t.Errorf("export: got %q, the file has %q", got, text)
	}
	if got := s.must("account", "import", "--json", file); got != `{"summary":{"lines":2,"created":0,"updated":0,"unchanged":2,"failed":0}}`+"\n" {
		t.Errorf("import of the export: got %q", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	s.must("account", "export", os.DevNull)
	if _, err := s.rounds("account", "import", filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("import of no file: %v", err)
	}
}

// An import shows its progress at a terminal, and nowhere else.
func TestImportShowsProgressOnATerminal(t *testing.T) {
	s := startAPI(t)
	var out, errs strings.Builder
	env := testEnvironment(map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken})
	env.stdin, env.stdout, env.stderr = strings.NewReader(`{"id":"a","kind":"feed","config":{"url":"u"}}`+"\n"), &out, &errs
	env.isTerminal = func(stream any) bool { return reflect.DeepEqual(stream, &errs) }
	if err := run(t.Context(), []string{"account", "import", "-"}, env); err != nil {
		t.Fatal(err)
	}
	if got := errs.String(); !strings.HasPrefix(got, "\r\x1b[K1 lines sent") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("got %q", got)
	}
}

// A customer-service account is added as the README says. Its faults name fields, and never
// quote a value that may be a secret.
func TestAccountAddWeComKF(t *testing.T) {
	t.Parallel()
	addr := freeLoopback(t)
	variables := map[string]string{"ROUNDS_REDIS_URL": redistest.Start(t).URL(), "ROUNDS_API_ADDR": addr, "ROUNDS_API_URL": "http://" + addr}
	p := startProgram(t, variables, "serve", "--roles", "api")
	processes.AwaitStatus(t, "http://"+addr+"/readyz", 200)
	add := func(args ...string) (output, error) {
		return runWith(t.Context(), variables, "", append([]string{"account", "add", "wkAJ2GCAAASSm4", "--kind", "wecom-kf"}, args...)...)
	}
	for _, c := range []struct{ args, want []string }{
		{nil, []string{"\n  config.corp_id: missing", "\n  config.open_kfid: missing", "\n  config.secret: missing"}},
		{
			[]string{"--set", "corp_id=a b", "--set", "open_kfid=?", "--set", "secret=hidden", "--set", "voice_format=2", "--set", "base_url=gopher://x", "--set", "zebra=1"},
			[]string{"config.corp_id: must be", "config.open_kfid: must be", "config.secret: ", "config.voice_format: must be", "config.base_url: ", "config.zebra: "},
		},
	} {
		_, err := add(c.args...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("%q: got %v, want %q", c.args, err, want)
			}
		}
	}
	good := []string{"--set", "corp_id=ww1234567890abcdef", "--set", "open_kfid=wkAJ2GCAAASSm4", "--set", `secret={"secret":"KF"}`, "--every", "1m"}
	if printed, err := add(good...); err != nil || printed.out != "wkAJ2GCAAASSm4 added\n" {
		t.Errorf("got %q, %v", printed.out, err)
	}
	printed, err := runWith(t.Context(), variables, "", "account", "get", "wkAJ2GCAAASSm4", "--json")
	if err != nil || !strings.Contains(printed.out, `"corp_id":"ww1234567890abcdef"`) || !strings.Contains(printed.out, `{"secret":"KF"}`) {
		t.Errorf("got %s, %v", printed.out, err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// Of faults that differ only in numbers the first are printed, and the rest counted.
func TestSameFaultsOfAnImportArePrintedSomeTimes(t *testing.T) {
	var out strings.Builder
	lines := badLines{out: &out}
	for i := range 200_000 {
		bad := api.BadLine{Line: i + 1, ID: fmt.Sprint("acc-", i), Errors: accounts.Faults{{Field: "config.url", Reason: fmt.Sprintf("10.0.0.%d is not among those that may be reached", i%256)}}}
		if i == 100 {
			bad.Errors[0].Reason = "must begin with https://"
		}
		if err := lines.print(bad); err != nil {
			t.Fatal(err)
		}
	}
	if err := lines.printMore(); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(got) != 22 || got[0] != "line 1, acc-0: config.url: 10.0.0.0 is not among those that may be reached" || got[20] != "line 101, acc-100: config.url: must begin with https://" ||
		got[21] != "and 199979 more such as: config.url: 10.0.0.0 is not among those that may be reached" {
		t.Errorf("%d lines: %q", len(got), got)
	}
}

// A list of another program is looked at first, and then moved in; feeds go out as OPML.
func TestMovingIn(t *testing.T) {
	s := startAPI(t)
	list := `<opml version="2.0" xmlns:x="https://x.example/"><body><outline text="News"><outline text="A" xmlUrl="https://a.example/rss" x:crawler="true"/></outline></body></opml>`
	printed, err := s.roundsWith(t.Context(), list, "account", "import", "-", "--dry-run")
	want := "line 1, a.example-rss-f14074e597: not taken: crawler has no counterpart\nnothing was written: this is what an import would do\n1 line: 1 created, 0 updated, 0 unchanged, 0 failed\n"
	if err != nil || printed.out != want {
		t.Errorf("%v %q", err, printed.out)
	}
	if got := s.must("account", "export"); got != "" {
		t.Errorf("it wrote %s", got)
	}
	if printed, err := s.roundsWith(t.Context(), list, "account", "import", "-"); err != nil || !strings.HasSuffix(printed.out, "crawler has no counterpart\n1 line: 1 created, 0 updated, 0 unchanged, 0 failed\n") {
		t.Errorf("%v %q", err, printed.out)
	}
	printed, err = s.roundsWith(t.Context(), "", "account", "export", "--format", "opml")
	if err != nil || !strings.Contains(printed.out, `<outline text="News">`) || !strings.Contains(printed.out, `xmlUrl="https://a.example/rss"`) || printed.err != "left out, because they are no feeds: 0\n" {
		t.Errorf("%v %+v", err, printed)
	}
	if again, err := s.roundsWith(t.Context(), printed.out, "account", "import", "-", "--format", "opml"); err != nil || again.out != "1 line: 0 created, 0 updated, 1 unchanged, 0 failed\n" {
		t.Errorf("%v %q", err, again.out)
	}
	for _, args := range [][]string{{"export", "--format", "csv"}, {"export", "--format", "opml", "--with-state"}, {"import", "-", "--format", "excel"}} {
		if _, err := s.roundsWith(t.Context(), list, append([]string{"account"}, args...)...); err == nil {
			t.Errorf("%q is done", args)
		}
	}
}
