package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// buries lets a group read everything and handle nothing. All messages become dead letters.
func (s *apiServer) buries(name string) {
	s.t.Helper()
	ctx := s.t.Context()
	for shard := range s.ring.Shards() {
		if _, err := s.ring.Streams().EnsureGroup(ctx, shard, name, circulate.StreamStart); err != nil {
			s.t.Fatal(err)
		}
		lease, _, err := group.Of(s.ring).Member(name, "reader0000", time.Minute).Lease(ctx, shard)
		if err != nil || lease == nil {
			s.t.Fatal(lease, err)
		}
		batch, err := group.Of(s.ring).Read(ctx, lease, group.MaxRead, 1<<20, false)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, m := range batch.Messages {
			if _, err := group.Of(s.ring).Bury(ctx, lease, group.Pending{Position: m.Position, Deliveries: 8}, "answered\n400"); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// finds registers an account that has found messages, numbered from 0.
func (s *apiServer) finds(id string, n int) {
	s.t.Helper()
	s.must("account", "add", id, "--kind", "feed", "--set", "url=u")
	messages := make([]circulate.Message, n)
	for i := range messages {
		messages[i] = circulate.Message{ID: fmt.Sprint(i)}
	}
	s.find(id, messages...)
}

func TestTailOfAGroup(t *testing.T) {
	s := startAPI(t)
	s.finds("a", 5)
	s.finds("b", 5)
	if got := s.must("messages", "tail", "--group", "crm", "--from", "start", "--limit", "4"); strings.Count(got, "\n") != 4 {
		t.Errorf("four:\n%s", got)
	}
	var g api.Group
	if got := s.must("groups", "list", "--json"); json.Unmarshal([]byte(got), &g) != nil || g.Name != "crm" || g.Pending != 0 || g.Lag < 6 || len(g.Consumers) != 0 {
		t.Errorf("after four: %s", got)
	}

	// A message that could not be printed is not acknowledged.
	env := testEnvironment(map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken})
	printed := 0
	env.stdout = writerFunc(func(p []byte) (int, error) {
		if printed++; printed > 2 {
			return 0, fmt.Errorf("no space left")
		}
		return len(p), nil
	})
	env.stderr = env.stdout
	if err := run(t.Context(), []string{"messages", "tail", "--group", "crm"}, env); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v", err)
	}
	// An interrupt is not an error. Printed messages are acknowledged.
	ctx, cancel := context.WithCancel(t.Context())
	rest := 0
	env.stdout = writerFunc(func(p []byte) (int, error) {
		if rest++; rest == 3 {
			cancel()
		}
		return len(p), nil
	})
	if err := run(ctx, []string{"messages", "tail", "--group", "crm", "--json"}, env); err != nil || rest != 3 {
		t.Errorf("%d printed, %v", rest, err)
	}
	if got := s.must("messages", "tail", "--group", "crm", "--limit", "1"); strings.Count(got, "\n") != 1 {
		t.Errorf("the last:\n%s", got)
	}
	got := s.must("groups", "list")
	if !strings.HasPrefix(got, "GROUP ") || !strings.Contains(got, "\ncrm    0       0s      0        0s      none       -\n") {
		t.Errorf("list:\n%s", got)
	}
	// A consumer whose handler fails says why.
	failing := group.Of(s.ring).Member("crm", "reader0000", time.Minute)
	if _, err := failing.Join(t.Context(), group.Condition{Deferred: "no such table: ledger\nx"}); err != nil {
		t.Fatal(err)
	}
	if got := s.must("groups", "list"); !strings.Contains(got, "  reader0000  -       no such table: ledger\\nx\n") {
		t.Errorf("list:\n%s", got)
	}
	if err := failing.Quit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := group.Of(s.ring).TellEvents(t.Context(), "crm", true); err != nil {
		t.Fatal(err)
	}
	if got := s.must("groups", "list"); !strings.Contains(got, "CONSUMERS  EVENTS  ERROR\n") || !strings.Contains(got, "  none       yes\n") {
		t.Errorf("list:\n%s", got)
	}
	s.must("groups", "rm", "crm")
	if _, err := s.rounds("groups", "rm", "crm"); err == nil || !strings.Contains(err.Error(), "crm: there is no such consumer group (404") {
		t.Errorf("got %v", err)
	}
}

// A lost reply loses no message, because the read is repeated.
func TestTailOfAGroupThroughLostReplies(t *testing.T) {
	s := startAPI(t)
	s.finds("a", 150)
	proxied := serveProxy(t, s.url, func(n int) bool { return n%2 == 0 })
	printed, err := runWith(t.Context(), map[string]string{"ROUNDS_API_URL": proxied, "ROUNDS_API_TOKEN": testToken}, "",
		"messages", "tail", "--group", "crm", "--from", "start", "--limit", "150", "--json")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(printed.out) {
		seen[line] = true
	}
	if strings.Count(printed.out, "\n") != 150 || len(seen) != 150 || !strings.Contains(printed.err, "trying again in") {
		t.Errorf("%d lines, %d messages: %s", strings.Count(printed.out, "\n"), len(seen), printed.err)
	}
}

func TestAllDeadLettersOfAGroupAreDropped(t *testing.T) {
	s := startAPI(t)
	s.finds("a", 3)
	s.buries("crm")
	if got := s.must("dead", "drop", "--all", "--group", "crm", "-y"); got != "3 dropped, 0 not found\n" {
		t.Errorf("drop: %q", got)
	}
	if got := s.must("dead", "list"); strings.Count(got, "\n") != 1 {
		t.Errorf("left:\n%s", got)
	}
}

func TestDeadLetters(t *testing.T) {
	s := startAPI(t)
	s.finds("a", 3)
	s.finds("b/c", 2)
	s.buries("crm")
	got := s.must("dead", "list")
	if !strings.HasPrefix(got, "ID ") || strings.Count(got, "\n") != 6 || strings.Count(got, `answered\n400`) != 5 || !strings.Contains(got, " b/c ") {
		t.Errorf("list:\n%s", got)
	}
	if got := s.must("dead", "list", "--group", "other"); strings.Count(got, "\n") != 1 {
		t.Errorf("of another group:\n%s", got)
	}
	if got := s.must("dead", "list", "--limit", "2"); strings.Count(got, "\n") != 3 {
		t.Errorf("two:\n%s", got)
	}
	var letters []api.DeadLetter
	for line := range strings.Lines(s.must("dead", "ls", "--json", "--group", "crm")) {
		var l api.DeadLetter
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		letters = append(letters, l)
	}
	if len(letters) != 5 || letters[0].Group != "crm" || letters[0].DeadID == "" {
		t.Fatalf("as JSON: %+v", letters)
	}
	if got := s.must("dead", "replay", letters[0].DeadID, "0:1-1"); got != "1 replayed, 1 not found, 0 left because their group is not there\n" {
		t.Errorf("replay: %q", got)
	}
	if got := s.must("dead", "drop", letters[0].DeadID, letters[1].DeadID); got != "1 dropped, 1 not found\n" {
		t.Errorf("drop: %q", got)
	}
	if got := s.must("dead", "drop", "--all", "--group", "other", "--yes"); got != "0 dropped, 0 not found\n" {
		t.Errorf("drop all of another group: %q", got)
	}
	var done api.Replayed
	if got := s.must("dead", "replay", "--all", "--group", "crm", "--json"); json.Unmarshal([]byte(got), &done) != nil || done.Replayed != 3 {
		t.Errorf("all: %s", got)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"replay"}, "name dead letters by their ids"},
		{[]string{"replay", "0:1-1", "--all", "--group", "crm"}, "cannot be combined with ids"},
		{[]string{"replay", "--all"}, "--all needs --group"},
		{[]string{"replay", "--group", "crm"}, "--group needs --all"},
		{[]string{"replay", "x"}, "ids[0]: must be an id from a list"},
		{[]string{"drop"}, "name dead letters by their ids"},
		{[]string{"drop", "--all"}, "--all needs --group"},
		{[]string{"drop", "--group", "crm"}, "--group needs --all, which drops"},
		{[]string{"drop", "--all", "--group", "crm"}, "--yes"},
	} {
		if _, err := s.rounds(append([]string{"dead"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.args, err, c.want)
		}
	}
}

func TestWebhookCommands(t *testing.T) {
	s := startAPI(t)
	s.buries("webhook.crm")
	for _, name := range []string{"crm", "gone"} {
		if _, err := s.ring.Endpoints().Disable(t.Context(), name, "answered 410 Gone"); err != nil {
			t.Fatal(err)
		}
	}
	got := s.must("webhooks", "list")
	if strings.Count(got, "\n") != 3 || strings.Count(got, "disabled since 2") != 2 || strings.Count(got, ": answered 410 Gone") != 2 {
		t.Errorf("list:\n%s", got)
	}
	s.must("webhooks", "enable", "crm", "gone")
	if got := s.must("webhooks", "ls"); strings.Count(got, "\n") != 2 || !strings.Contains(got, "\ncrm ") || !strings.Contains(got, " enabled\n") {
		t.Errorf("after:\n%s", got)
	}
	var w api.Webhook
	if got := s.must("webhooks", "list", "--json"); json.Unmarshal([]byte(got), &w) != nil || w.Name != "crm" || w.Disabled || w.Group == nil {
		t.Errorf("as JSON: %s", got)
	}
	report := document.Report{
		Endpoint: "crm", Status: 400, Outcome: "rejected", Breaker: "open", Until: time.Now().Add(time.Minute), Most: 34, Accounts: 2, Messages: 5,
		Waiting: []document.Waiting{{Account: "a", Position: "1-1", Failed: 3, Behind: 2, Next: time.Now(), Why: "webhook crm: answered 400"}, {Account: "b", Position: "1-2", Next: time.Now()}},
	}
	if err := document.Of(s.ring).Endpoints().Report(t.Context(), "process001", []document.Report{report}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"list"}, " 400          5        3/34     "},
		{[]string{"list"}, "open until 2"},
		{[]string{"show", "crm"}, "crm is enabled; last status 400, breaker open; waiting: 5 messages of 2 accounts\nACCOUNT "},
		{[]string{"show", "crm"}, "2       webhook crm: answered 400\n"},
		{[]string{"show", "crm", "--json"}, `"waiting":[{"account":"a"`},
		{[]string{"retry", "crm"}, "tried now: the messages of 2 accounts, by 1 process;"},
		{[]string{"retry", "crm", "--account", "a"}, "tried now: the messages of 1 account, by"},
		{[]string{"skip", "crm", "--account", "a"}, "0 skipped, 1 taken meanwhile; messages of 0 accounts more"},
		{[]string{"skip", "crm", "--yes"}, "0 skipped, 2 taken meanwhile"},
		{[]string{"skip", "crm", "--yes", "--json"}, `"gone":2`},
	} {
		if got := s.must(append([]string{"webhooks"}, c.args...)...); !strings.Contains(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.args, got, c.want)
		}
	}
	if got := s.must("__complete", "webhooks", "retry", "c"); !strings.HasPrefix(got, "crm\n") {
		t.Errorf("completed: %q", got)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"skip", "crm"}, "2 messages, the first of each account, will become dead letters. Nobody can be asked: use --yes"},
		{[]string{"retry", "crm", "--account", "z"}, "crm: no message of the account waits at the endpoint (404"},
		{[]string{"show", "none"}, "none: there is no such webhook endpoint (404"},
		{[]string{"retry"}, "is missing: rounds "},
	} {
		if _, err := s.rounds(append([]string{"webhooks"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.args, err, c.want)
		}
	}
	if _, err := s.rounds("webhooks", "enable", "none"); err == nil || !strings.Contains(err.Error(), "none: there is no such webhook endpoint (404") {
		t.Errorf("got %v", err)
	}
}

// serveProxy forwards requests. If lose reports true for a request, the connection is cut
// instead of the reply. Requests count from 1.
func serveProxy(t *testing.T, target string, lose func(n int) bool) string {
	t.Helper()
	address, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int32
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(address) },
		ModifyResponse: func(*http.Response) error {
			if lose(int(n.Add(1))) {
				return errEnough
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}

// A question about one group is in the singular.
func TestOneOfAKindIsSaidAsOne(t *testing.T) {
	s := startAPI(t)
	s.finds("a", 1)
	if _, err := s.ring.Streams().EnsureGroup(t.Context(), s.ring.ShardOf("a"), "crm", circulate.StreamStart); err != nil {
		t.Fatal(err)
	}
	for question, names := range map[string][]string{
		"\nRemove this group with all that it has not handled? [y/N] ":      {"crm"},
		"\nRemove these groups with all that they have not handled? [y/N] ": {"crm", "other"},
	} {
		var errs strings.Builder
		env := testEnvironment(map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken})
		env.stdin, env.stdout, env.stderr = strings.NewReader("n\n"), &strings.Builder{}, &errs
		env.isTerminal = func(any) bool { return true }
		if err := run(t.Context(), append([]string{"groups", "rm"}, names...), env); err == nil || !strings.Contains(errs.String(), question) {
			t.Errorf("%q: %q, %v", names, errs.String(), err)
		}
	}
	if got, err := s.roundsWith(t.Context(), `{"id":"b","kind":"feed","config":{"url":"u"}}`, "account", "import", "-"); err != nil || got.out != "1 line: 1 created, 0 updated, 0 unchanged, 0 failed\n" {
		t.Errorf("%+v, %v", got, err)
	}
	var shown strings.Builder
	printFailing(&shown, accounts.Failing{Accounts: 1, Newly: 1, Behind: 1, MissedMax: 1, MostMissed: "a"}, "", "")
	if want := "failing\t1 account, 1 newly; 0 never succeeded\nbehind\t1 account missed three slots of the cadence or more (a slot is a minute at least); most missed: 1 slot (a)\n"; shown.String() != want {
		t.Errorf("%q, want %q", shown.String(), want)
	}
}
