package commit

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

func TestOfATree(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.go", "package a\n")
	write("measured.json", "{}\n")
	run("init", "-q")
	run("add", ".")
	run("commit", "-q", "-m", "First")
	clean, err := Of(t.Context(), dir)
	if err != nil || len(clean) != short {
		t.Fatalf("%q, %v", clean, err)
	}
	write("measured.json", "{\"figures\":[]}\n") // what a run writes does not change what it measures
	if got, err := Of(t.Context(), dir); err != nil || got != clean {
		t.Errorf("%q, %v; want %q", got, err, clean)
	}
	write("a.go", "package b\n")
	if got, err := Of(t.Context(), dir); err != nil || got != clean+dirty {
		t.Errorf("%q, %v; want %q", got, err, clean+dirty)
	}
}

func TestOfABuild(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: strings.Repeat("ab", 20)}, {Key: "vcs.modified", Value: "true"}}}
	if got := ofBuild(info); got != "abababababab"+dirty {
		t.Errorf("%q", got)
	}
	if got := ofBuild(&debug.BuildInfo{}); got != "" {
		t.Errorf("%q of a build that does not know", got)
	}
}
