package command

import (
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
)

func TestCompletionOfFlags(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=u", "--label", "team=press", "--label", "tier=1")
	s.must("account", "add", "b", "--kind", "feed", "--set", "url=u", "--label", "team=sales")
	for args, want := range map[string]string{
		"account list --kind ":             "feed graph http imap telegram wecom-kf weixin :4",
		"account add x --kind f":           "feed graph http imap telegram wecom-kf weixin :4", // the shell removes the candidates that do not match
		"account set --priority ":          "urgent normal low :4",
		"account export --label ":          "team=press team=sales tier=1 :4",
		"account list --label team=s":      "team=sales :4",
		"check --kind ":                    "feed graph http imap telegram wecom-kf weixin :4",
		"parked revive --kind ":            "feed graph http imap telegram wecom-kf weixin :4",
		"messages tail --group ":           ":4",
		"messages tail --from ":            "start now :4",
		"account pause --state ":           "active paused failing never_succeeded late parked scheduled waiting claimed :4",
		"account add --from ":              "backfill now :4",
		"serve --roles ":                   "api poller monitor delivery :6",
		"serve --roles api,monitor,":       "api,monitor,poller api,monitor,delivery :6",
		"serve --log-level ":               "debug info warn error :4",
		"serve --webhooks-from ":           "start now :4",
		"account import accounts --from n": "backfill now :4",
	} {
		got := strings.Fields(s.must(append([]string{"__complete"}, strings.Split(args, " ")...)...))
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

func TestListIsSorted(t *testing.T) {
	s := startAPI(t)
	if got := s.must("account", "list"); got != "no accounts\n" {
		t.Errorf("got %q", got)
	}
	if got := s.must("account", "list", "--json"); got != "" {
		t.Errorf("got %q", got)
	}
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, id := range ids {
		s.must("account", "add", id, "--kind", "feed", "--set", "url=u")
	}
	var got []string
	for line := range strings.Lines(s.must("account", "list")) {
		got = append(got, line[:1])
	}
	if strings.Join(got, "") != "I"+strings.Join(ids, "") {
		t.Errorf("got %q", got)
	}
	got = nil
	for line := range strings.Lines(s.must("account", "list", "--json")) {
		got = append(got, line[len(`{"id":"`):][:1])
	}
	if strings.Join(got, "") != strings.Join(ids, "") {
		t.Errorf("got %q", got)
	}
	if got := s.must("account", "list", "--prefix", "x"); got != "no accounts match the flags\n" {
		t.Errorf("got %q", got)
	}
	if got := s.must("account", "list", "--limit", "3"); strings.Count(got, "\n") != 4 {
		t.Errorf("got %q", got)
	}
}

func TestGroupsRemoveAsks(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=u")
	s.find("a", circulate.Message{ID: "1"}, circulate.Message{ID: "2"})
	for _, name := range []string{"crm", "read"} {
		from := map[string]string{"crm": circulate.StreamStart, "read": circulate.StreamEnd}[name]
		for shard := range s.ring.Shards() {
			if _, err := s.ring.Streams().EnsureGroup(t.Context(), shard, name, from); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := s.rounds("groups", "rm", "crm", "read")
	if err == nil || exitCode(err) != 2 || !strings.Contains(err.Error(), "crm has 2 messages that it has not read and 0 that it has not acknowledged; it cannot be undone, and nobody can be asked: use --yes") {
		t.Errorf("%v", err)
	}
	at := func(answer string) (string, string, error) {
		var out, errs strings.Builder
		env := testEnvironment(map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken})
		env.stdin, env.stdout, env.stderr = strings.NewReader(answer), &out, &errs
		env.isTerminal = func(any) bool { return true }
		err := run(t.Context(), []string{"groups", "rm", "crm"}, env)
		return out.String(), errs.String(), err
	}
	if out, asked, err := at("\n"); err == nil || err.Error() != "nothing was removed" || out != "" || !strings.HasSuffix(asked, "not handled? [y/N] ") {
		t.Errorf("%q, %q, %v", out, asked, err)
	}
	if got := s.must("groups", "list"); !strings.Contains(got, "crm") || !strings.Contains(got, "read") {
		t.Errorf("got %s", got)
	}
	if out, _, err := at("y\n"); err != nil || out != "crm removed\n" {
		t.Errorf("%q, %v", out, err)
	}
	if got := s.must("groups", "rm", "read"); got != "read removed\n" { // the group has no pending messages
		t.Errorf("got %q", got)
	}
}

func TestImportHints(t *testing.T) {
	s := startAPI(t)
	printed, err := s.roundsWith(t.Context(), "a,b\na,u\n", "account", "import", "-")
	if err == nil || !strings.HasPrefix(err.Error(), "nothing was imported: line 1: not a record a line: this looks like CSV. ") || printed.out != "" {
		t.Errorf("%+v, %v", printed, err)
	}
	line := `{"id":"a","kind":"feed","config":{"url":"u"}}` + "\n"
	printed, err = s.roundsWith(t.Context(), line+"\n"+line, "account", "import", "-")
	want := "line 3, a: has the id of line 1; the later one counts\n2 lines: 1 created, 0 updated, 1 unchanged, 0 failed; 1 have the id of an earlier line\n"
	if err != nil || printed.out != want {
		t.Errorf("%+v, %v", printed, err)
	}
}

func TestExportWithState(t *testing.T) {
	from, to := startAPI(t), startAPI(t)
	for _, id := range []string{"a", "b"} {
		from.must("account", "add", id, "--kind", "feed", "--set", "url=u")
	}
	from.must("account", "pause", "a")
	plain, err := from.rounds("account", "export")
	if err != nil || strings.Contains(plain.out, "state") || !strings.Contains(plain.err, "--with-state writes them") {
		t.Errorf("%+v, %v", plain, err)
	}
	whole, err := from.rounds("account", "export", "--with-state")
	if err != nil || !strings.Contains(whole.out, `"state":{"parked":"paused","parked_since":"2`) || whole.err != "" {
		t.Errorf("%+v, %v", whole, err)
	}
	printed, err := to.roundsWith(t.Context(), whole.out, "account", "import", "-")
	if err != nil || printed.out != "2 lines: 2 created, 0 updated, 0 unchanged, 0 failed\n" {
		t.Errorf("%+v, %v", printed, err)
	}
	if a, b := getAccount(to, "a"), getAccount(to, "b"); a.State.Reason != "paused" || b.State.Reason != "" {
		t.Errorf("%+v, %+v", a.State, b.State)
	}
}
