package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// watchedOutput is what a running program writes, and tells of each writing.
type watchedOutput struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{}
}

func newWatchedOutput() *watchedOutput { return &watchedOutput{wrote: make(chan struct{}, 1)} }

func (o *watchedOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *watchedOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until the output contains a text.
func (o *watchedOutput) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !strings.Contains(o.String(), text) {
		select {
		case <-o.wrote:
		case <-deadline:
			t.Fatalf("%q was not written within 30 s:\n%s", text, o.String())
		}
	}
}

// program is run in the background.
type program struct {
	out, log *watchedOutput
	stop     func() error // ends it and gives what it ended with
	wait     func() error // gives what it ended with by itself
}

func startProgram(t *testing.T, variables map[string]string, args ...string) *program {
	t.Helper()
	p := &program{out: newWatchedOutput(), log: newWatchedOutput()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, args, environment{
			lookup: func(name string) (string, bool) { value, ok := variables[name]; return value, ok },
			stdin:  strings.NewReader(""), stdout: p.out, stderr: p.log,
		})
	}()
	p.wait = sync.OnceValue(func() error { return <-done })
	p.stop = func() error {
		cancel()
		return p.wait()
	}
	t.Cleanup(func() { _ = p.stop() })
	return p
}

// base is the URL under which the program serves, as soon as it logs it as JSON.
func (p *program) base(t *testing.T) string {
	t.Helper()
	p.log.await(t, `"msg":"listening"`)
	var listening struct{ Addr string }
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, `"listening"`) {
			if err := json.Unmarshal([]byte(line), &listening); err != nil {
				t.Fatal(err)
			}
		}
	}
	return "http://" + listening.Addr
}

func TestDemoShowsMessages(t *testing.T) {
	p := startProgram(t, nil, "demo")
	for _, text := range []string{"/docs", "feed-1/1", "connector-1/1", "feed-2/2"} {
		p.out.await(t, text)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// get answers a GET's status; 0 where nobody listens.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body)
}

func awaitStatus(t *testing.T, url string, want int) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		status, body := get(t, url)
		if status == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s answers %d, want %d: %s", url, status, want, body)
		}
	}
}

// TestServeWithoutRedisUntilThereIsOne starts before Redis does, does its job
// through an outage, and ends cleanly.
func TestServeWithoutRedisUntilThereIsOne(t *testing.T) {
	server := redistest.Start(t, redistest.WithAOF())
	server.Kill()
	third, closeThird, err := upstream.Serve(upstream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeThird()
	p := startProgram(t, map[string]string{
		"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_API_ADDR": freeLoopback(t), "ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true", "ROUNDS_LOG_FORMAT": "json",
	}, "serve")
	base := p.base(t)
	awaitStatus(t, base+"/readyz", http.StatusServiceUnavailable)
	awaitStatus(t, base+"/healthz", http.StatusOK)
	awaitStatus(t, base+"/v1/accounts", http.StatusServiceUnavailable)

	server.Restart(t)
	awaitStatus(t, base+"/readyz", http.StatusOK)
	calls := client.New(base, "")
	defer calls.Close()
	for _, kind := range []string{"feed", "http"} {
		route := map[string]string{"feed": "feed", "http": "connector"}[kind]
		third.Post(kind)
		if _, err := calls.Add(t.Context(), accounts.Account{ID: kind, Kind: kind, Cadence: "every 1s",
			Config: fmt.Appendf(nil, `{"url":%q}`, third.URL(route, kind))}); err != nil {
			t.Fatal(err)
		}
	}
	wanted := map[string]bool{"feed-1": true, "http-1": true, "feed-2": true, "http-2": true}
	awaitMessages := func(calls *client.Client, until int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		seen := map[string]bool{}
		if err := calls.Tail(ctx, client.FromStart, func(m api.Message) error {
			if !wanted[m.ID] || seen[m.ID] {
				return fmt.Errorf("message %q is strange or came twice", m.ID)
			}
			if seen[m.ID] = true; len(seen) == until {
				return errEnough
			}
			return nil
		}, func(error, time.Duration) {}); err != errEnough {
			t.Fatalf("messages: %v, seen %v", err, seen)
		}
	}
	awaitMessages(calls, 2)

	server.Kill()
	awaitStatus(t, base+"/readyz", http.StatusServiceUnavailable)
	third.Post("feed")
	third.Post("http")
	server.Restart(t)
	awaitStatus(t, base+"/readyz", http.StatusOK)
	awaitMessages(calls, 4)
	if n := strings.Count(p.log.String(), "redis does not serve"); n != 2 {
		t.Errorf("the two absences of Redis were told %d times:\n%s", n, p.log.String())
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if status, _ := get(t, base+"/healthz"); status != 0 {
		t.Errorf("it still answers %d", status)
	}
}

func TestServeRefusesToJoinAnotherShape(t *testing.T) {
	server := redistest.Start(t)
	variables := map[string]string{"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_ROLES": "monitor", "ROUNDS_SHARDS": "8"}
	p := startProgram(t, variables, "serve")
	p.log.await(t, "sweeping")
	other := startProgram(t, map[string]string{"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_ROLES": "monitor", "ROUNDS_SHARDS": "16"}, "serve")
	if err := other.wait(); err == nil || !strings.Contains(err.Error(), "has 8 shards, the settings say 16") {
		t.Errorf("joined with other shards: %v", err)
	}
}

func freeLoopback(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
