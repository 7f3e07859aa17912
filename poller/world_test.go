package poller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/poller"
)

// world is a ring on the embedded server, in fake time.
type world struct {
	*testing.T
	server  *connect.Embedded
	faulty  *faulty
	ring    *circulate.Ring
	checker *scripted
	metrics *prometheus.Registry
}

// inFakeTime runs a test in a bubble, in which an hour takes no time.
func inFakeTime(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, server: connect.NewEmbedded(), checker: &scripted{seen: make(map[string][]call)}, metrics: prometheus.NewRegistry()}
		w.faulty = &faulty{Server: w.server}
		ring, err := circulate.Open(t.Context(), w.faulty, circulate.Options{Shards: 2, Log: testLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		w.ring = ring
		defer func() {
			if err := w.server.Close(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}()
		test(w)
	})
}

// register brings accounts of kind "scripted" in, due at once.
func (w *world) register(cadence string, ids ...string) {
	w.Helper()
	for _, id := range ids {
		w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"scripted","cadence":%q}`, id, cadence))
	}
}

func (w *world) registerRecord(id, record string) {
	w.Helper()
	w.registerOne(circulate.Registration{ID: id, Record: []byte(record)})
}

// registerDue brings an account in whose first check is due at a time.
func (w *world) registerDue(id, cadence string, due time.Time) {
	w.Helper()
	w.registerOne(circulate.Registration{ID: id, Record: fmt.Appendf(nil, `{"id":%q,"kind":"scripted","cadence":%q}`, id, cadence), Due: due})
}

func (w *world) registerOne(item circulate.Registration) {
	w.Helper()
	id := item.ID
	outcomes, err := w.ring.Register(context.Background(), w.ring.ShardOf(id), []circulate.Registration{item})
	if err != nil || outcomes[0] != circulate.Created {
		w.Fatalf("register %q: %v, %v", id, outcomes, err)
	}
}

// start runs a pool until the function it returns is called, which waits for it.
func (w *world) start(config poller.Config) (stop func()) {
	w.Helper()
	checkers, err := poller.NewCheckers(w.checker)
	if err != nil {
		w.Fatal(err)
	}
	pool, err := poller.New(w.ring, checkers, config, poller.Options{Log: testLog(w.T), Metrics: poller.NewMetrics(w.metrics)})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- pool.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	}
}

func (w *world) look(id string) circulate.View {
	w.Helper()
	views, err := w.ring.Look(context.Background(), w.ring.ShardOf(id), []string{id})
	if err != nil || len(views) != 1 {
		w.Fatalf("look at %q: %v, %v", id, views, err)
	}
	return views[0]
}

// found gives the messages of an account in the stream, in order.
func (w *world) found(account string) []string {
	w.Helper()
	found, err := w.ring.Messages(context.Background(), w.ring.ShardOf(account), circulate.StreamStart, 10_000)
	if err != nil {
		w.Fatal(err)
	}
	var ids []string
	for _, m := range found {
		if m.Account == account {
			ids = append(ids, m.Message.ID)
		}
	}
	return ids
}

// counted is a metric's sum over its labels that contain a text.
func (w *world) counted(name, label string) float64 {
	w.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || strings.Contains(m.String(), `"`+label+`"`)) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// newMetrics makes room for another pool's metrics.
func (w *world) newMetrics() { w.metrics = prometheus.NewRegistry() }

// call is one call of the scripted checker.
type call struct {
	at      time.Time
	request poller.Request
}

// scripted is a checker that does what the test says, and remembers.
type scripted struct {
	check func(ctx context.Context, r poller.Request) (poller.Result, error)

	mu   sync.Mutex
	seen map[string][]call
}

func (*scripted) Kind() string                   { return "scripted" }
func (*scripted) Validate(json.RawMessage) error { return nil }

// RateKey is the config's host, if it has one.
func (*scripted) RateKey(config json.RawMessage) string {
	var c struct{ Host string }
	_ = json.Unmarshal(config, &c) // none is what it means
	return c.Host
}

func (s *scripted) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	s.mu.Lock()
	s.seen[r.Account] = append(s.seen[r.Account], call{time.Now(), r})
	s.mu.Unlock()
	if s.check == nil {
		return poller.Result{}, nil
	}
	return s.check(ctx, r)
}

func (s *scripted) calls(account string) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]call(nil), s.seen[account]...)
}

// faulty is a server whose connections fail as the test says.
type faulty struct {
	circulate.Server
	quiet bool // subscriptions are not pinged: a week has many seconds

	mu   sync.Mutex
	fail func(command string) fault
}

type fault uint8

const (
	healthy   fault = iota
	notDone         // the connection breaks before the command gets there
	replyLost       // the command is done, and its reply does not arrive
)

func (f *faulty) set(fail func(command string) fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *faulty) verdict(command string) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail == nil {
		return healthy
	}
	return f.fail(command)
}

func (f *faulty) Conn(ctx context.Context, key string) (redis.Conn, error) {
	conn, err := f.Server.Conn(ctx, key)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: conn, faulty: f}, nil
}

type faultyConn struct {
	redis.Conn
	faulty     *faulty
	subscribed bool
}

// Send tells a connection that subscribes from the others.
func (c *faultyConn) Send(name string, args ...any) error {
	if name == "SUBSCRIBE" {
		c.subscribed = true
	}
	if name == "PING" && c.faulty.quiet {
		return nil
	}
	return c.Conn.Send(name, args...)
}

var errCut = fmt.Errorf("connection cut")

// DoWithTimeout is what scripts go through.
func (c *faultyConn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	switch c.faulty.verdict(name) {
	case notDone:
		return nil, errCut
	case replyLost:
		if _, err := redis.DoWithTimeout(c.Conn, timeout, name, args...); err != nil {
			return nil, err
		}
		return nil, errCut
	}
	return redis.DoWithTimeout(c.Conn, timeout, name, args...)
}

// ReceiveWithTimeout is what pipelines go through.
func (c *faultyConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	if c.subscribed && c.faulty.quiet {
		timeout = 0 // none
	}
	reply, err := redis.ReceiveWithTimeout(c.Conn, timeout)
	if c.subscribed {
		if c.faulty.verdict("subscription") != healthy {
			return nil, errCut
		}
		return reply, err
	}
	if c.faulty.verdict("pipeline") != healthy {
		return nil, errCut
	}
	return reply, err
}

// testLog logs to the test.
func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}
