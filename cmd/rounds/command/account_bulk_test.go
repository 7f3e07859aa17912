package command

import (
	"strings"
	"testing"
)

func TestBulkCommands(t *testing.T) {
	s := startAPI(t)
	for _, a := range [][]string{{"a-1", "news"}, {"a-2", "sport"}, {"b-1", "news"}} {
		s.must("account", "add", a[0], "--kind", "feed", "--set", "url=u", "--label", "team="+a[1])
	}
	for _, c := range []struct{ args, want string }{
		{"pause --label team=news --dry-run", "2 would be paused, 0 unchanged; 2 of 3 accounts were selected\n"},
		{"pause --label team=news", "2 paused, 0 unchanged; 2 of 3 accounts were selected\n"},
		{"pause --label team=news --prefix a- --json", `{"summary":{"seen":3,"matched":1,"changed":0,"unchanged":1,"failed":0,"unknown":0}}` + "\n"},
		{"list --state paused --prefix b --json", `"id":"b-1"`},
		{"export --state active --kind feed --kind other", `{"id":"a-2",`},
		{"pause --prefix b --dry-run", "; 1 of 3 accounts was selected\n"},
		{"resume --all", "2 resumed, 1 unchanged; 3 of 3 accounts were selected\n"},
		{"rm --prefix a- --prefix c --dry-run", "2 would be removed, 0 unchanged; 2 of 3 accounts were selected\n"},
		{"rm --prefix a- --yes", "2 removed, 0 unchanged; 2 of 3 accounts were selected\n"},
		{"rm --all -y --json", `{"summary":{"seen":1,"matched":1,"changed":1,"unchanged":0,"failed":0,"unknown":0}}` + "\n"},
	} {
		got := s.must(append([]string{"account"}, strings.Fields(c.args)...)...)
		if !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: got %q, want %q", c.args, got, c.want)
		}
	}
}

func TestBulkCommandsRefused(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=u")
	for args, want := range map[string]string{
		"rm":                                     "name accounts, or select them with flags such as --kind or --label; --all means every account",
		"pause --json":                           "name accounts, or select them",
		"rm a --kind feed":                       "cannot be combined with names",
		"rm a --dry-run":                         "cannot be combined with names",
		"rm --all --kind feed --yes":             "--all: must not be true",
		"rm --all":                               "nobody can be asked: use --yes",
		"pause --state asleep --label x --kind=": `--state: must be one of active, paused`,
		"list --label x":                         `--label: must be NAME=VALUE, is "x"`,
		"export --state x":                       `--state: must be one of`,
	} {
		printed, err := s.rounds(append([]string{"account"}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(err.Error(), want) || printed.out != "" {
			t.Errorf("%s: got %q, %v", args, printed, err)
		}
	}
	if got := s.must("account", "list", "--json"); strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
}

// At a terminal, the command asks before it removes accounts, and says how many.
func TestRemoveAsks(t *testing.T) {
	s := startAPI(t)
	for _, id := range []string{"a", "b"} {
		s.must("account", "add", id, "--kind", "feed", "--set", "url=u")
	}
	for _, c := range []struct{ answer, want string }{
		{"", "nothing was removed"}, {"n\n", "nothing was removed"}, {"Yes\n", ""},
	} {
		var out, errs strings.Builder
		env := testEnvironment(map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken})
		env.stdin, env.stdout, env.stderr = strings.NewReader(c.answer), &out, &errs
		env.isTerminal = func(any) bool { return true }
		err := run(t.Context(), []string{"account", "rm", "--kind", "feed"}, env)
		if !strings.Contains(errs.String(), ": 2 accounts will be removed for good. Go on? [y/N] ") {
			t.Errorf("%q: asked %q", c.answer, errs.String())
		}
		switch {
		case c.want != "" && (err == nil || err.Error() != c.want || out.Len() > 0):
			t.Errorf("%q: got %q, %v", c.answer, out.String(), err)
		case c.want == "" && (err != nil || !strings.HasPrefix(out.String(), "2 removed, ")):
			t.Errorf("%q: got %q, %v", c.answer, out.String(), err)
		}
	}
}

func TestAccountResumeSaysFromWhere(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=u")
	s.must("account", "pause", "a")
	for _, wrong := range [][]string{{"a", "--from", "then"}, {"--all", "--from", "now"}} {
		if _, err := s.rounds(append([]string{"account", "resume"}, wrong...)...); err == nil || !strings.Contains(err.Error(), "--from") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if got := s.must("account", "resume", "a", "--from", "now"); got != "a resumed\n" {
		t.Errorf("got %q", got)
	}
	if got := s.must("account", "why", "a"); !strings.Contains(got, "begun         from now: what came before 2") {
		t.Errorf("got\n%s", got)
	}
	s.must("account", "pause", "a")
	s.must("account", "resume", "a", "--from", "backfill")
	if got := s.must("account", "why", "a"); strings.Contains(got, "passed over") {
		t.Errorf("got\n%s", got)
	}
}
