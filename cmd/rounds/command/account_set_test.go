package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAccountSet(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=u", "--set", "in.x=1", "--label", "team=a", "--label", "tier=1", "--every", "90s", "--retry-budget", "3", "--on-unknown", "retry")
	if out := s.must("account", "set", "a", "--every", "5s", "--label", "team=press", "--unlabel", "tier", "--set", "url=v", "--set", "in.y=2", "--unset", "in.x", "--priority", "low"); out != "a saved, revision 2\n" {
		t.Errorf("got %q", out)
	}
	a := getAccount(s, "a")
	if string(a.Config) != `{"in":{"y":2},"url":"v"}` || a.Cadence != "every 5s" || a.Priority != "low" || a.Budget != 3 || a.Unknown != "retry" || len(a.Labels) != 1 || a.Labels["team"] != "press" {
		t.Errorf("%+v, %s", a, a.Config)
	}
	s.must("account", "set", "a", "--cadence", "", "--priority", "", "--retry-budget", "0", "--on-unknown", "")
	if a := getAccount(s, "a"); a.Cadence != "" || a.Priority != "" || a.Budget != 0 || a.Unknown != "" || a.Revision != 3 {
		t.Errorf("%+v", a)
	}
	s.must("account", "add", "b", "--kind", "feed", "--set", "url=u")
	if out := s.must("account", "set", "a", "b", "--label", "x="); out != "a saved, revision 4\nb saved, revision 2\n" {
		t.Errorf("got %q", out)
	}
	// The output says that a field which is not there cannot be removed.
	for _, c := range []struct{ args, want string }{
		{"--unset NOSUCH --unset in.z", "a unchanged: its config has no field NOSUCH, in.z\n"},
		{"--unset in --unset NOSUCH", "a saved, revision 5: its config has no field NOSUCH\n"},
	} {
		if out := s.must(append([]string{"account", "set", "a"}, strings.Fields(c.args)...)...); out != c.want {
			t.Errorf("%s: got %q", c.args, out)
		}
	}
	for _, c := range []struct {
		args string
		want string
		code int
	}{
		{"none --unset x", "none: no account has this id", 1},
		{"a", "nothing to change", 2},
		{"a --unset url", "config.url", 1},
		{"a --set url --label team --unset a..b", `--set "url" must be key=value`, 1},
		{"a --label x=1 --unlabel x", "--unlabel", 1},
		{"a --every 5s --cadence x", "none of the others", 1},
		{"none --every 5s", "none: no account has this id", 1},
		{"a --every never", "cadence: ", 1},
	} {
		_, err := s.rounds(append([]string{"account", "set"}, strings.Fields(c.args)...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) || exitCode(err) != c.code {
			t.Errorf("%s: %v, code %d", c.args, err, exitCode(err))
		}
	}
	if out := s.must("account", "get", "a"); !strings.Contains(out, "revision") || !strings.Contains(out, "created") || !strings.Contains(out, "updated") {
		t.Errorf("got %s", out)
	}
}

// editing runs account edit, at a terminal or not. Its editor is a shell script. It also
// returns the files that are left in the directory for temporary files.
func (s *apiServer) editing(script, answers string, atTerminal bool) (output, []string, error) {
	s.t.Helper()
	dir := s.t.TempDir()
	s.t.Setenv("TMPDIR", dir)
	var out, errs strings.Builder
	env := testEnvironment(map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken, "VISUAL": "", "EDITOR": script})
	env.stdin, env.stdout, env.stderr = strings.NewReader(answers), &out, &errs
	env.isTerminal = func(any) bool { return atTerminal }
	err := run(s.t.Context(), []string{"account", "edit", "a"}, env)
	left, globErr := filepath.Glob(filepath.Join(dir, "*"))
	if globErr != nil {
		s.t.Fatal(globErr)
	}
	return output{out.String(), errs.String()}, left, err
}

func TestAccountEdit(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=u?x&y", "--label", "team=a")

	got, left, err := s.editing("sed -i s/team/crew/", "", false)
	if err != nil || got.out != "a saved, revision 2\n" || len(left) != 0 {
		t.Errorf("%+v, %v, %q", got, err, left)
	}
	if a := getAccount(s, "a"); a.Labels["crew"] != "a" || string(a.Config) != `{"url":"u?x&y"}` {
		t.Errorf("%+v", a)
	}
	if got, left, err = s.editing("true", "", false); err != nil || got.out != "a unchanged\n" || len(left) != 0 {
		t.Errorf("%+v, %v, %q", got, err, left)
	}
	kept := func(err error, left []string, want ...string) {
		t.Helper()
		if err == nil || len(left) != 1 {
			t.Fatalf("%v, %q", err, left)
		}
		for _, text := range append(want, left[0]) {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q lacks %q", err, text)
			}
		}
		if a := getAccount(s, "a"); a.Revision != 2 {
			t.Errorf("revision %d was saved", a.Revision)
		}
	}
	// Without a terminal nobody can be asked, so the edited text stays in its file.
	_, left, err = s.editing("sed -i s/url/uri/", "", false)
	kept(err, left, "config.url: must not be empty")
	_, left, err = s.editing("sed -i /kind/s/,//", "", false)
	kept(err, left, "line 4", "not JSON")
	_, left, err = s.editing("false", "", false)
	kept(err, left, "editor")
	_, left, err = s.editing("sed -i s/url/uri/", "n\n", true)
	kept(err, left, "config.url: must not be empty")
	if text, readErr := os.ReadFile(left[0]); readErr != nil || !strings.Contains(string(text), `"uri"`) {
		t.Errorf("%s, %v", text, readErr)
	}

	// The second edit corrects the fault.
	got, left, err = s.editing("sed -i -e s/url/uri/ -e t -e s/uri/url/ -e s/crew/band/", "\n", true)
	if err != nil || !strings.Contains(got.err, "config.url: must not be empty\n") || !strings.Contains(got.err, "\nEdit it again? [Y/n] ") || len(left) != 0 {
		t.Errorf("%+v, %v, %q", got, err, left)
	}
	if a := getAccount(s, "a"); a.Revision != 3 {
		t.Errorf("%+v", a)
	}

	// Another caller changes the account first.
	patch := fmt.Sprintf(`curl -sf -X PATCH -H "Content-Type: application/merge-patch+json" -H "Authorization: Bearer %s" -d '{"cadence":"every 9m"}' %s/v1/accounts/a >&2; sed -i s/band/choir/`, testToken, s.url)
	got, left, err = s.editing(patch, "", false)
	if err == nil || !strings.Contains(err.Error(), "somebody else") || len(left) != 1 || !strings.Contains(err.Error(), left[0]) {
		t.Errorf("%+v, %v, %q", got, err, left)
	}
	if a := getAccount(s, "a"); a.Cadence != "every 9m" || a.Labels["band"] != "a" {
		t.Errorf("%+v", a)
	}
}

func TestAddFrom(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "now", "--kind", "feed", "--set", "url=u", "--from", "now")
	s.must("account", "add", "all", "--kind", "feed", "--set", "url=u")
	if out := s.must("account", "why", "now"); !strings.Contains(out, "from now") {
		t.Errorf("got %s", out)
	}
	if out := s.must("account", "why", "all"); strings.Contains(out, "from now") {
		t.Errorf("got %s", out)
	}
	if _, err := s.rounds("account", "add", "x", "--kind", "feed", "--set", "url=u", "--from", "then"); err == nil || !strings.Contains(err.Error(), "--from must be") {
		t.Error(err)
	}
	if _, err := s.roundsWith(t.Context(), `{"id":"i","kind":"feed","config":{"url":"u"}}`, "account", "import", "-", "--from", "now"); err != nil {
		t.Error(err)
	}
	if out := s.must("account", "why", "i"); !strings.Contains(out, "from now") {
		t.Errorf("got %s", out)
	}
}

// An editor that waits for keys is not started where nobody can press any.
func TestEditWithoutATerminal(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=u")
	for _, variables := range []map[string]string{{}, {"EDITOR": "/usr/bin/vim -u NONE"}, {"VISUAL": "nano"}} {
		variables["ROUNDS_API_URL"], variables["ROUNDS_API_TOKEN"] = s.url, testToken
		_, err := runWith(t.Context(), variables, "", "account", "edit", "a")
		if exitCode(err) != 2 || !strings.Contains(err.Error(), "use rounds account set") {
			t.Errorf("%v: %v", variables, err)
		}
	}
}
