package settings

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Data that outlives a process is where the operating system wants it.
func TestStateDir(t *testing.T) {
	for name, tt := range map[string]struct {
		system    string
		variables map[string]string
		want      string // empty: there is none
	}{
		"linux":                {"linux", map[string]string{"HOME": "/home/me"}, "/home/me/.local/state"},
		"linux, XDG":           {"linux", map[string]string{"HOME": "/home/me", "XDG_STATE_HOME": "/state"}, "/state"},
		"linux, relative XDG":  {"linux", map[string]string{"HOME": "/home/me", "XDG_STATE_HOME": "state"}, "/home/me/.local/state"},
		"linux, empty XDG":     {"linux", map[string]string{"HOME": "/home/me", "XDG_STATE_HOME": ""}, "/home/me/.local/state"},
		"linux, no home":       {"linux", nil, ""},
		"linux, relative home": {"linux", map[string]string{"HOME": "me"}, ""},
		"freebsd":              {"freebsd", map[string]string{"HOME": "/home/me"}, "/home/me/.local/state"},
		"macOS":                {"darwin", map[string]string{"HOME": "/Users/me", "XDG_STATE_HOME": "/state"}, "/Users/me/Library/Application Support"},
		"macOS, no home":       {"darwin", nil, ""},
		"Windows":              {"windows", map[string]string{"LocalAppData": "/C/Users/me/AppData/Local"}, "/C/Users/me/AppData/Local"},
		"Windows, no home":     {"windows", map[string]string{"HOME": "/home/me"}, ""},
	} {
		got, err := stateDir(tt.system, lookupIn(tt.variables))
		if filepath.ToSlash(got) != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestDataDir(t *testing.T) {
	home := t.TempDir()
	variables := map[string]string{"HOME": home, "LocalAppData": home, "XDG_STATE_HOME": home}
	expect := func(name, want string, given bool, args ...string) {
		t.Helper()
		s, err := read(t, variables, args...)
		if err != nil || s.Redis.DataDir != want || s.Redis.DataGiven != given || s.Redis.InDataDir() != (want != Memory && want != "") {
			t.Errorf("%s: %+v, %v; want %q", name, s.Redis, err, want)
		}
	}
	byDefault := filepath.Join(home, "rounds")
	if runtime.GOOS == "darwin" {
		byDefault = filepath.Join(home, "Library", "Application Support", "rounds")
	}
	expect("nothing said", byDefault, false)
	expect("a flag", filepath.Join(home, "x"), true, "--data", filepath.Join(home, "x"))
	here, err := filepath.Abs("x")
	if err != nil {
		t.Fatal(err)
	}
	expect("a relative path", here, true, "--data=x")
	expect("memory", Memory, true, "--data=memory")
	expect("a Redis", "", false, "--redis-url=redis://127.0.0.1:6379")
	if _, err := read(t, variables, "--data=~/x"); err == nil || !strings.Contains(err.Error(), "write it out") {
		t.Errorf("a home that nobody expands: %v", err)
	}
	variables["ROUNDS_DATA_DIR"] = filepath.Join(home, "y")
	expect("a variable", filepath.Join(home, "y"), true)
	expect("a flag in place of the variable", Memory, true, "--data=memory")
	variables["ROUNDS_REDIS_URL"] = "redis://127.0.0.1:6379"
	expect("a flag in place of a Redis", Memory, true, "--data=memory")
	if s, err := read(t, variables, "--data=memory"); err != nil || s.Redis.URL != "" {
		t.Errorf("a flag in place of a Redis: %+v, %v", s.Redis, err)
	}
	if _, err := read(t, variables, "--data=x", "--redis-url=redis://127.0.0.1:6379"); err == nil || !strings.Contains(err.Error(), "(given as --data)") {
		t.Errorf("both flags: %v", err)
	}
}
