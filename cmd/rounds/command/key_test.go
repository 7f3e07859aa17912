package command

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestKey(t *testing.T) {
	s := startAPI(t)
	if got := s.must("key", "list"); got != "no keys\n" {
		t.Errorf("none: %q", got)
	}
	made, err := s.rounds("key", "create", "press", "--role", "editor", "--label", "team=press", "--label", "env=", "--expires", "90d")
	text := strings.TrimSpace(made.out)
	if err != nil || !regexp.MustCompile(`^rounds_[0-9A-Za-z]{49}\n$`).MatchString(made.out) {
		t.Fatalf("create: %+v, %v", made, err)
	}
	if want := "key press: editor, only accounts with env=,team=press, until "; !strings.HasPrefix(made.err, want) || strings.Contains(made.err, text) {
		t.Errorf("create says %q", made.err)
	}
	as := func(args ...string) (output, error) {
		return runWith(t.Context(), map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": text}, "", args...)
	}
	if got, err := as("whoami"); err != nil || got.out != "press, by a key: editor, only accounts with env=,team=press\n" { // where everything is, is nothing for it
		t.Errorf("whoami: %+v, %v", got, err)
	}
	if got := s.must("whoami"); got != "token, by ROUNDS_API_TOKEN: admin, all accounts\nat "+s.url+": rounds dev\n" {
		t.Errorf("whoami with the token: %q", got)
	}
	if _, err := as("key", "list"); err == nil || !strings.Contains(err.Error(), "the role admin is needed") {
		t.Errorf("an editor lists keys: %v", err)
	}
	if _, err := as("account", "add", "a", "--kind", "feed", "--set", "url=u"); err == nil || !strings.Contains(err.Error(), "labels.team") {
		t.Errorf("an account without the label: %v", err)
	}
	if _, err := as("account", "add", "a", "--kind", "feed", "--set", "url=u", "--label", "team=press", "--label", "env="); err != nil {
		t.Errorf("an account with the labels: %v", err)
	}
	s.must("account", "add", "b", "--kind", "feed", "--set", "url=u")
	if got, err := as("account", "list"); err != nil || !strings.Contains(got.out, "a ") || strings.Contains(got.out, "\nb ") {
		t.Errorf("list: %+v, %v", got, err)
	}
	if got, err := as("stats"); err != nil || !strings.Contains(got.out, "only") || !strings.Contains(got.out, "accounts with env=,team=press") || strings.Contains(got.out, "replica is running") {
		t.Errorf("stats: %+v, %v", got, err)
	}
	if _, err := as("account", "show", "b"); err == nil || !strings.Contains(err.Error(), "no account has this id") {
		t.Errorf("another's: %v", err)
	}
	s.must("key", "create", "other", "--role", "viewer")
	list := regexp.MustCompile(`[-0-9]{10} [:0-9]{8}`).ReplaceAllString(s.must("key", "list"), "TIME")
	const want = "NAME ROLE LABELS CREATED BY EXPIRES LAST USED\n" +
		"other viewer - TIME token never never\n" +
		"press editor env=,team=press TIME token TIME TIME\n"
	if got := regexp.MustCompile(` +`).ReplaceAllString(list, " "); got != want {
		t.Errorf("list:\n%s", got)
	}
	var k api.Key
	if got := strings.SplitN(s.must("key", "list", "--json"), "\n", 2)[0]; json.Unmarshal([]byte(got), &k) != nil || k.Name != "other" {
		t.Errorf("as JSON: %s", got)
	}
	if got := s.must("key", "revoke", "press", "other"); got != "revoked press\nrevoked other\n" {
		t.Errorf("revoke: %q", got)
	}
	if _, err := as("whoami"); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("revoked: %v", err)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--role is missing: ", []string{"key", "create", "x"}},
		{"role", []string{"key", "create", "x", "--role", "root"}},
		{"expires_in: must be a number of days", []string{"key", "create", "x", "--role", "viewer", "--expires", "soon"}},
		{"must be NAME=VALUE", []string{"key", "create", "x", "--role", "viewer", "--label", "team"}},
		{"each name once", []string{"key", "create", "x", "--role", "viewer", "--label", "a=b", "--label", "a=c"}},
		{"name: must be", []string{"key", "create", "two words", "--role", "viewer"}},
		{"no key has this name", []string{"key", "revoke", "press"}},
		{"has no command", []string{"key", "drop"}},
	} {
		if _, err := s.rounds(c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
	if got := s.must("__complete", "key", "create", "x", "--role", ""); !strings.HasPrefix(got, "viewer\nsender\noperator\neditor\nadmin\n") {
		t.Errorf("completion: %q", got)
	}
}

// If a service demands a key, its first key is written to Redis directly.
func TestKeyInRedis(t *testing.T) {
	server := redistest.Start(t)
	variables := map[string]string{"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_NAMESPACE": "first"}
	made, err := runWith(t.Context(), variables, "", "key", "create", "me", "--role", "admin", "--in-redis", "--json")
	var k api.NewKey
	if err != nil || json.Unmarshal([]byte(made.out), &k) != nil || k.Name != "me" || k.By != "redis" || !key.Looks(k.Text) {
		t.Fatalf("%+v, %v", made, err)
	}
	kept, err := trail.At(redistest.Connect(t, server), "first", trail.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if page, err := kept.Look(t.Context(), trail.Query{Limit: 1}); err != nil || len(page.Entries) != 1 || page.Entries[0].Action != "create-key" ||
		page.Entries[0].Subject != "key me" || page.Entries[0].By != service.SystemUser() || page.Entries[0].Via != "system" {
		t.Errorf("the trail says %+v, %v", page, err)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"another key is named me", []string{"me", "--role", "admin"}},
		{"--role: must be one of", []string{"x", "--role", "root"}},
		{"--expires: must be", []string{"x", "--role", "admin", "--expires", "soon"}},
		{"name: must be", []string{"two words", "--role", "admin"}},
	} {
		if _, err := runWith(t.Context(), variables, "", append([]string{"key", "create", "--in-redis"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
	if _, err := runWith(t.Context(), nil, "", "key", "create", "x", "--role", "admin", "--in-redis"); err == nil || !strings.Contains(err.Error(), "ROUNDS_REDIS_URL") {
		t.Errorf("no Redis: %v", err)
	}
}
