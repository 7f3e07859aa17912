package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	fake "github.com/alicebob/miniredis/v2/server"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// lookupIn returns a Lookup of these variables alone.
func lookupIn(variables map[string]string) settings.Lookup {
	return func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
}

// read reads settings as the program of the service does.
func read(variables map[string]string) (settings.Settings, error) {
	return readWith(variables, Options{})
}

// readWith is read with more options.
func readWith(variables map[string]string, o Options) (settings.Settings, error) {
	o.Lookup = lookupIn(variables)
	return settings.Read(o.Lookup, nil, func(s settings.Settings) error { return Validate(s, o) })
}

// running is a service in the background. Its log is JSON.
type running struct {
	log  processes.Output
	stop func() error // ends the service and returns the result of Run
	wait func() error // waits until the service ends by itself and returns the result of Run
}

func start(t *testing.T, variables map[string]string) *running {
	t.Helper()
	return startWith(t, variables, Options{})
}

// startWith is start with more options.
func startWith(t *testing.T, variables map[string]string, o Options) *running {
	t.Helper()
	s, err := readWith(variables, o)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		o.Lookup, o.Log = lookupIn(variables), slog.New(slog.NewJSONHandler(&r.log, nil))
		done <- Run(ctx, s, o)
	}()
	r.wait = sync.OnceValue(func() error { return <-done })
	r.stop = func() error {
		cancel()
		return r.wait()
	}
	t.Cleanup(func() { _ = r.stop() })
	return r
}

// base waits until the API or the operators' routes are served, and returns their URL.
func (r *running) base(t *testing.T, what string) string {
	t.Helper()
	r.log.Await(t, `"for":"`+what+`"`)
	for line := range strings.Lines(r.log.String()) {
		var listening struct{ Msg, Addr, For string }
		if json.Unmarshal([]byte(line), &listening) == nil && listening.Msg == "listening" && listening.For == what {
			return "http://" + listening.Addr
		}
	}
	t.Fatal("it listens, but does not say where")
	return ""
}

// TestServeWithoutRedisUntilThereIsOne starts the service before Redis. The service works
// through an outage of Redis and ends cleanly.
func TestServeWithoutRedisUntilThereIsOne(t *testing.T) {
	server := redistest.Start(t, redistest.WithAOF())
	server.Kill()
	third, closeThird, err := upstream.Serve(upstream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeThird()
	p := start(t, map[string]string{
		"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true",
	})
	base := p.base(t, "api")
	processes.AwaitStatus(t, base+"/readyz", http.StatusServiceUnavailable)
	processes.AwaitStatus(t, base+"/healthz", http.StatusOK)
	processes.AwaitStatus(t, base+"/v1/accounts", http.StatusServiceUnavailable)

	server.Restart(t)
	processes.AwaitStatus(t, base+"/readyz", http.StatusOK)
	calls := client.New(base, "")
	defer calls.Close()
	for _, kind := range []string{"feed", "http"} {
		route := map[string]string{"feed": "feed", "http": "connector"}[kind]
		third.Post(kind)
		if _, err := calls.Add(t.Context(), accounts.Account{ID: kind, Kind: kind, Cadence: "every 1s",
			Config: fmt.Appendf(nil, `{"url":%q}`, third.URL(route, kind))}, ""); err != nil {
			t.Fatal(err)
		}
	}
	wanted := map[string]bool{"feed-1": true, "http-1": true, "feed-2": true, "http-2": true}
	errEnough := errors.New("enough")
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
		}, func(error, time.Duration) {}); !errors.Is(err, errEnough) {
			t.Fatalf("messages: %v, seen %v", err, seen)
		}
	}
	awaitMessages(calls, 2)

	server.Kill()
	processes.AwaitStatus(t, base+"/readyz", http.StatusServiceUnavailable)
	third.Post("feed")
	third.Post("http")
	server.Restart(t)
	processes.AwaitStatus(t, base+"/readyz", http.StatusOK)
	awaitMessages(calls, 4)
	if n := strings.Count(p.log.String(), "redis does not serve"); n != 2 {
		t.Errorf("the two absences of Redis were told %d times:\n%s", n, p.log.String())
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if status, _ := processes.Get(t, base+"/healthz", ""); status != 0 {
		t.Errorf("it still answers %d", status)
	}
}

// A server that is too old is refused, and nothing is written there.
func TestServeRefusesAServerThatIsTooOld(t *testing.T) {
	asked := make(chan string, 100)
	old, err := fake.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(old.Close)
	for name, reply := range map[string]func(*fake.Peer){
		"CLIENT": (*fake.Peer).WriteOK,
		"INFO":   func(c *fake.Peer) { c.WriteBulk("# Server\r\nredis_version:6.0.16\r\nredis_mode:standalone\r\n") },
		"HMGET":  (*fake.Peer).WriteNull,
		"HSETNX": (*fake.Peer).WriteOK,
	} {
		if err := old.Register(name, func(c *fake.Peer, name string, _ []string) { asked <- name; reply(c) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, role := range []string{"api", "poller", "monitor"} {
		p := start(t, map[string]string{"ROUNDS_REDIS_URL": "redis://" + old.Addr().String(), "ROUNDS_ROLES": role, "ROUNDS_API_ADDR": "127.0.0.1:0"})
		if err := p.wait(); err == nil || !strings.Contains(err.Error(), "is Redis 6.0.16, and rounds needs Redis 6.2 or newer") {
			t.Errorf("%s: %v", role, err)
		}
	}
	close(asked)
	for name := range asked {
		if name != "CLIENT" && name != "INFO" {
			t.Errorf("it was asked to do %s", name)
		}
	}
}

// A replica may become the master: a process waits for that and says why.
func TestServeWaitsUntilAReplicaIsTheMaster(t *testing.T) {
	master := redistest.Start(t)
	replica := redistest.Start(t, redistest.WithArgs("--replicaof", "127.0.0.1", strconv.Itoa(master.Port)))
	p := start(t, map[string]string{"ROUNDS_REDIS_URL": replica.URL(), "ROUNDS_ROLES": "monitor"})
	p.log.Await(t, "is a replica of 127.0.0.1:"+strconv.Itoa(master.Port))
	conn, err := replica.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Do("REPLICAOF", "NO", "ONE"); err != nil {
		t.Fatal(err)
	}
	p.log.Await(t, "sweeping")
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func TestServeRefusesToJoinAnotherShape(t *testing.T) {
	server := redistest.Start(t)
	variables := map[string]string{"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_ROLES": "monitor", "ROUNDS_SHARDS": "8"}
	p := start(t, variables)
	p.log.Await(t, "sweeping")
	other := start(t, map[string]string{"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_ROLES": "monitor", "ROUNDS_SHARDS": "16"})
	if err := other.wait(); err == nil || !strings.Contains(err.Error(), "has 8 shards, the settings say 16: leave ROUNDS_SHARDS out, or set it to 8; `rounds reshard --to 16` changes") {
		t.Errorf("joined with other shards: %v", err)
	}
}
