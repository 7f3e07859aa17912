package endtoend

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// shell is a shell to which commands are typed.
type shell struct {
	t       *testing.T
	in      io.Writer
	lines   chan string // of its standard output
	mu      sync.Mutex
	trouble bytes.Buffer // its standard error, for a failure
}

// Write takes what is said on standard error.
func (s *shell) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble.Write(text)
}

// open starts a shell, and ends it and all that it started with the test.
func open(t *testing.T, dir string, env ...string) *shell {
	t.Helper()
	cmd := exec.Command("sh") //nolint:noctx // its whole group is killed below
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "LC_ALL=C"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s := &shell{t: t, lines: make(chan string, 1000)}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in, cmd.Stdout, cmd.Stderr = in, said, s
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = said.Close()
	go func() {
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
		close(s.lines)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		for range s.lines { // until all that it started have ended
		}
		if t.Failed() {
			t.Log(s.trouble.String())
		}
	})
	return s
}

// run types a command, and returns what it prints until it ends, or until a line has a text.
func (s *shell) run(command, until string) string {
	s.t.Helper()
	const end = "the status is "
	if _, err := fmt.Fprintf(s.in, "%s\necho \"%s$?\"\n", command, end); err != nil {
		s.t.Fatal(err)
	}
	var printed strings.Builder
	timeout := time.After(time.Minute)
	for {
		select {
		case line, ok := <-s.lines:
			switch status, ended := strings.CutPrefix(line, end); {
			case !ok, ended && status != "0":
				s.t.Fatalf("%s: ended with %q\n%s", command, status, &printed)
			case ended, until != "" && strings.Contains(line, until):
				printed.WriteString(line)
				return printed.String()
			}
			printed.WriteString(line + "\n")
		case <-timeout:
			s.t.Fatalf("%s: has not ended in a minute\n%s", command, &printed)
		}
	}
}

// commandsOf returns the lines of the one block of commands in a page that begins with a line.
func commandsOf(t *testing.T, page, first string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile("(?s)```sh\n(.*?)\n```").FindAllStringSubmatch(string(text), -1) {
		if lines := strings.Split(found[1], "\n"); strings.HasPrefix(lines[0], first) {
			return lines
		}
	}
	t.Fatalf("%s has no commands that begin with %s", page, first)
	return nil
}

// The commands that the first pages show for use work as they stand there, typed at once one after
// the other. Only addresses differ, and where Go would build the program it is there already.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	feed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<feed xmlns="http://www.w3.org/2005/Atom"><id>f</id><title>f</title><entry><id>tag:1</id><title>a release</title><updated>2026-11-01T00:00:00Z</updated></entry></feed>`)
	}))
	t.Cleanup(feed.Close)
	binary := build(t)
	begin := func(t *testing.T) (dir string, sh *shell) {
		dir = t.TempDir()
		if err := os.Symlink(binary, filepath.Join(dir, "rounds")); err != nil {
			t.Fatal(err)
		}
		addr := freeAddress(t)
		return dir, open(t, dir, "HOME="+dir, "XDG_STATE_HOME=", "ROUNDS_API_ADDR="+addr, "ROUNDS_API_URL=http://"+addr, "ROUNDS_ALLOW_NETWORKS=127.0.0.1")
	}
	for _, page := range []string{"../../README.md", "../../deployments/guide/zh-CN/README.md"} {
		t.Run("on a laptop", func(t *testing.T) {
			_, sh := begin(t)
			lines := commandsOf(t, page, "go build ./cmd/rounds")
			for _, line := range lines[1:] {
				line = strings.ReplaceAll(line, "https://github.com/golang/go/releases.atom", feed.URL)
				switch {
				case strings.HasPrefix(line, "./rounds messages tail"):
					// Whoever types by hand has it found before.
					for !strings.Contains(sh.run("./rounds account why news", ""), "found (1)") {
					}
					command, _, _ := strings.Cut(line, " #") // behind a comment nothing runs
					sh.run(command+" & tail=$!", "a release")
					sh.run("kill $tail", "")
				case strings.HasPrefix(line, "./rounds account why"):
					if got := sh.run(line, ""); !strings.Contains(got, "news") {
						t.Errorf("%s: %s", line, got)
					}
				default:
					sh.run(line, "")
				}
			}
		})
		t.Run("in production", func(t *testing.T) {
			dir, sh := begin(t)
			record := fmt.Sprintf(`{"id":"news","kind":"feed","config":{"url":%q},"cadence":"every 1m"}`+"\n", feed.URL)
			if err := os.WriteFile(filepath.Join(dir, "accounts.ndjson"), []byte(record), 0o600); err != nil {
				t.Fatal(err)
			}
			replaced := strings.NewReplacer("redis://127.0.0.1:6379", redistest.Start(t).URL(), "127.0.0.1:8081", freeAddress(t), "127.0.0.1:8082", freeAddress(t))
			got := ""
			for _, line := range commandsOf(t, page, "export ROUNDS_REDIS_URL=") {
				got = sh.run(replaced.Replace(line), "")
			}
			if !regexp.MustCompile(`(?m)^accounts +1: `).MatchString(got) {
				t.Errorf("the last command prints %s", got)
			}
		})
	}
}
