package monitor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/monitor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	alice = "alice00000"
	bob   = "bob0000000"
	carol = "carol00000"
)

// world is a ring on the embedded server, in fake time.
type world struct {
	*testing.T
	embedded *connect.Embedded
	server   *faulty
	ring     *circulate.Ring
	registry *prometheus.Registry
}

func inFakeTime(t *testing.T, shards int, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, embedded: connect.NewEmbedded(), registry: prometheus.NewRegistry()}
		w.server = &faulty{Server: w.embedded}
		ring, err := circulate.Open(t.Context(), w.server, circulate.Options{Shards: shards, Log: testLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		w.ring = ring
		defer func() {
			if err := w.embedded.Close(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}()
		test(w)
	})
}

func (w *world) monitor(config monitor.Config) *monitor.Monitor {
	w.Helper()
	m, err := monitor.New(w.ring, config, monitor.Options{Log: testLog(w.T), Metrics: monitor.NewMetrics(w.registry)})
	if err != nil {
		w.Fatal(err)
	}
	return m
}

// register brings accounts in, due at once.
func (w *world) register(ids ...string) {
	w.Helper()
	for _, id := range ids {
		outcomes, err := w.ring.Register(w.Context(), w.ring.ShardOf(id), []circulate.Registration{{ID: id, Record: []byte("{}")}})
		if err != nil || outcomes[0] != circulate.Created {
			w.Fatalf("register %q: %q, %v", id, outcomes, err)
		}
	}
}

// claim claims up to n accounts of a shard.
func (w *world) claim(shard int, replica string, n int) []circulate.Claim {
	w.Helper()
	b, err := w.ring.Claim(w.Context(), shard, replica, n, 0)
	if err != nil {
		w.Fatal(err)
	}
	return b.Claims
}

func (w *world) beat(replicas ...string) {
	w.Helper()
	for _, r := range replicas {
		if _, err := w.ring.Heartbeat(w.Context(), r, nil, time.Minute); err != nil {
			w.Fatal(err)
		}
	}
}

// pass lets time pass while replicas beat every second.
func (w *world) pass(d time.Duration, replicas ...string) {
	w.Helper()
	for end := time.Now().Add(d); ; {
		w.beat(replicas...)
		left := time.Until(end)
		if left <= 0 {
			return
		}
		time.Sleep(min(left, time.Second))
	}
}

// sweep sweeps and expects how many were requeued for which reason.
func (w *world) sweep(m *monitor.Monitor, stale, orphaned int) monitor.Swept {
	w.Helper()
	s, err := m.Sweep(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	if s.Stale != stale || s.Orphaned != orphaned {
		w.Errorf("swept %+v, want %d stale and %d orphaned", s, stale, orphaned)
	}
	return s
}

func (w *world) look(id string) circulate.View {
	w.Helper()
	views, err := w.ring.Look(w.Context(), w.ring.ShardOf(id), []string{id})
	if err != nil || len(views) != 1 {
		w.Fatalf("look at %q: %v, %v", id, views, err)
	}
	return views[0]
}

func (w *world) placed(want circulate.Place, ids ...string) {
	w.Helper()
	for _, id := range ids {
		if got := w.look(id).Place; got != want {
			w.Errorf("%q is %s, want %s", id, got, want)
		}
	}
}

func (w *world) do(name string, args ...any) any {
	w.Helper()
	conn, err := w.embedded.Conn(w.Context(), "")
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	reply, err := conn.Do(name, args...)
	if err != nil {
		w.Fatalf("%s %v: %v", name, args, err)
	}
	return reply
}

// expectLaw expects each of so many accounts in exactly one place under its
// current ticket, whatever the ring itself says of it.
func expectLaw(t *testing.T, server circulate.Server, ring *circulate.Ring, accounts int) {
	t.Helper()
	conn, err := server.Conn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	strings := func(name string, args ...any) []string {
		t.Helper()
		texts, err := redis.Strings(conn.Do(name, args...))
		if err != nil {
			t.Fatal(err)
		}
		return texts
	}
	seen := 0
	for shard := range ring.Shards() {
		in, current := make(map[string][]string), make(map[string]string)
		pairs := strings("HGETALL", key(ring, shard, "tickets"))
		for i := 0; i < len(pairs); i += 2 {
			current[pairs[i]] = pairs[i+1][:14]
		}
		for _, place := range []string{"schedule", "parked"} {
			for _, id := range strings("ZRANGE", key(ring, shard, place), 0, -1) {
				in[id] = append(in[id], place)
			}
		}
		for _, place := range []string{"message_queue", "message_queue:urgent", "message_queue:low", "processing_list"} {
			for _, text := range strings("LRANGE", key(ring, shard, place), 0, -1) {
				if e, err := circulate.ParseEntry(text); err == nil && current[e.ID] == fmt.Sprintf("%014d", e.Ticket) {
					in[e.ID] = append(in[e.ID], place)
				}
			}
		}
		seen += len(current)
		for id := range current {
			if len(in[id]) != 1 {
				t.Errorf("%q is in %v", id, in[id])
			}
		}
	}
	if seen != accounts {
		t.Errorf("%d accounts, want %d", seen, accounts)
	}
}

func key(ring *circulate.Ring, shard int, name string) string {
	return fmt.Sprintf("{%s:%0*d}:%s", ring.Namespace(), len(fmt.Sprint(ring.Shards()-1)), shard, name)
}

// faulty is a server that the test comes in between.
type faulty struct {
	circulate.Server

	mu      sync.Mutex
	refuse  func(key string) error // of connections
	sending func(name string)      // before a command is sent
	receive func() (cut bool)      // after a reply is received
}

func (f *faulty) set(change func(f *faulty)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

var errCut = errors.New("connection cut")

func (f *faulty) Conn(ctx context.Context, key string) (redis.Conn, error) {
	f.mu.Lock()
	refuse := f.refuse
	f.mu.Unlock()
	if refuse != nil {
		if err := refuse(key); err != nil {
			return nil, err
		}
	}
	conn, err := f.Server.Conn(ctx, key)
	if err != nil {
		return nil, err
	}
	return &faultyConn{conn, f}, nil
}

type faultyConn struct {
	redis.Conn
	faulty *faulty
}

func (c *faultyConn) Send(name string, args ...any) error {
	c.faulty.mu.Lock()
	sending := c.faulty.sending
	c.faulty.mu.Unlock()
	if sending != nil {
		sending(name)
	}
	return c.Conn.Send(name, args...)
}

func (c *faultyConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := redis.ReceiveWithTimeout(c.Conn, timeout)
	c.faulty.mu.Lock()
	receive := c.faulty.receive
	c.faulty.mu.Unlock()
	if receive != nil && receive() {
		return nil, errCut
	}
	return reply, err
}

func (c *faultyConn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	return redis.DoWithTimeout(c.Conn, timeout, name, args...)
}

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}
