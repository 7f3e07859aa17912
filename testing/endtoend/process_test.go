package endtoend

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/ports"
	"github.com/rounds-dev/rounds/testing/processes"
)

// binary is the program, which is built once for all tests. It is empty before.
var binary struct {
	sync.Mutex
	dir, path string
}

// build makes the binary, if no test has made it yet.
func build(t *testing.T) string {
	t.Helper()
	binary.Lock()
	defer binary.Unlock()
	if binary.path != "" {
		return binary.path
	}
	dir, err := os.MkdirTemp("", "endtoend")
	if err != nil {
		t.Fatal(err)
	}
	binary.dir = dir
	if binary.path, err = processes.Build(dir); err != nil {
		t.Fatal(err)
	}
	return binary.path
}

// removeBinary removes what build made.
func removeBinary() {
	if binary.dir != "" {
		_ = os.RemoveAll(binary.dir)
	}
}

// process is one running program.
type process struct{ *processes.Process }

// start starts the binary and ends it with the test. If the test failed, it shows the end
// of the program's output.
func start(t *testing.T, name, path string, settings []string, args ...string) *process {
	t.Helper()
	p, err := processes.Start(name, path, settings, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			lines := strings.Split(p.Log(), "\n")
			t.Logf("%s said, at the end:\n%s", name, strings.Join(lines[max(0, len(lines)-25):], "\n"))
		}
	})
	return &process{p}
}

// kill does kill -9.
func (p *process) kill() { p.Kill() }

// terminate sends SIGTERM and expects a clean end. The hangup before it only has settings
// read again.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.HangUp(); err != nil {
		t.Error(err)
	}
	eventually(t, 20*time.Second, p.Name+" reads its settings again", func() bool { return p.LogCount("settings were read again") > 0 })
	if err := p.Terminate(40 * time.Second); err != nil {
		t.Error(err)
	}
}

// replica returns the name that a poller has chosen.
func (p *process) replica(t *testing.T) string {
	t.Helper()
	var name string
	eventually(t, 20*time.Second, p.Name+" polls", func() bool {
		name = p.Replica()
		return name != ""
	})
	return name
}

// eventually asks until a condition holds.
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
	addr, err := ports.Address()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// status returns that of a GET, or 0 if nobody answers.
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

// ask makes a request and returns the status and the body.
func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	answer, text := exchange(t, method, url, "", body)
	return answer.StatusCode, text
}

// exchange makes a request, under a bearer token unless that is empty, and returns the answer and its
// body, which is closed.
func exchange(t *testing.T, method, url, token, body string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}
