package endtoend

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// build makes the binary.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rounds")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/rounds-dev/rounds/cmd/rounds").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// process is one running program.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    *journal
	exited chan struct{}
	err    error
}

// journal keeps what a process writes, for many readers.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// start starts the binary with settings and arguments, and nothing of this
// process' own environment that could change it.
func start(t *testing.T, name, path string, settings []string, args ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(path, args...), log: &journal{}, exited: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, settings...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			lines := strings.Split(p.log.String(), "\n")
			t.Logf("%s said, at the end:\n%s", name, strings.Join(lines[max(0, len(lines)-25):], "\n"))
		}
	})
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// terminate sends SIGTERM and expects a clean end.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(40 * time.Second):
		t.Fatalf("%s did not end after SIGTERM", p.name)
	}
	if p.err != nil {
		t.Errorf("%s ended with %v", p.name, p.err)
	}
}

// replica finds the name that a poller has given itself.
func (p *process) replica(t *testing.T) string {
	t.Helper()
	var name string
	eventually(t, 20*time.Second, p.name+" polls", func() bool {
		for line := range strings.Lines(p.log.String()) {
			var entry struct{ Msg, Replica string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "polling" {
				name = entry.Replica
			}
		}
		return name != ""
	})
	return name
}

// eventually asks until something is so.
func eventually(t *testing.T, within time.Duration, what string, so func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		if time.Since(began) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
		<-tick.C
	}
	return time.Since(began)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// status is that of a GET, 0 where nobody answers.
func status(t *testing.T, url string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}
