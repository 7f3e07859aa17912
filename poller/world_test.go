package poller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// world is a ring in fake time, and what its pools check.
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
	faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
		w := &world{T: t, server: server, faulty: &faulty{Server: server, quiet: true}, checker: &scripted{seen: make(map[string][]call)}, metrics: prometheus.NewRegistry()}
		ring, err := circulate.Open(t.Context(), w.faulty, circulate.Options{Shards: 2, Log: testLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		w.ring = ring
		test(w)
	})
}

// bubble is the world as one replica sees it.
func (w *world) bubble() *faketime.World {
	return &faketime.World{T: w.T, Redis: w.server, Ring: w.ring, Metrics: w.metrics}
}

// register registers accounts of kind "scripted" that are due at once.
func (w *world) register(cadence string, ids ...string) {
	w.Helper()
	for _, id := range ids {
		w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"scripted","cadence":%q}`, id, cadence))
	}
}

func (w *world) registerRecord(id, record string) {
	w.Helper()
	w.bubble().Register(circulate.Registration{ID: id, Record: []byte(record)})
}

// registerDue registers an account whose first check is due at the given time.
func (w *world) registerDue(id, cadence string, due time.Time) {
	w.Helper()
	w.bubble().Register(circulate.Registration{ID: id, Record: fmt.Appendf(nil, `{"id":%q,"kind":"scripted","cadence":%q}`, id, cadence), Due: due})
}

// start runs a pool. The function that it returns stops the pool and waits for its end.
func (w *world) start(config poller.Config) (stop func()) {
	w.Helper()
	return w.startLogging(config, testLog(w.T))
}

// startLogging is start with a log of the test's own.
func (w *world) startLogging(config poller.Config, log *slog.Logger) (stop func()) {
	w.Helper()
	return w.startChecking(config, w.checker, log)
}

// startChecking is startLogging with another checker.
func (w *world) startChecking(config poller.Config, checker poller.Checker, log *slog.Logger) (stop func()) {
	w.Helper()
	pool := w.pool(config, poller.Options{Log: log, Metrics: poller.NewMetrics(w.metrics)}, checker)
	return faketime.Go(w, pool.Run)
}

// pool returns a pool that does not run yet.
func (w *world) pool(config poller.Config, o poller.Options, all ...poller.Checker) *poller.Pool {
	w.Helper()
	if config.Heartbeat == 0 {
		config.Heartbeat = 4 * time.Second // rarer than in a service, which makes hours cheaper
	}
	checkers, err := poller.NewCheckers(all...)
	if err != nil {
		w.Fatal(err)
	}
	pool, err := poller.New(w.ring, checkers, config, o)
	if err != nil {
		w.Fatal(err)
	}
	return pool
}

func (w *world) look(id string) circulate.View {
	w.Helper()
	return w.bubble().Look(id)
}

// found returns the ids of an account's messages in the stream, in order.
func (w *world) found(account string) (ids []string) {
	w.Helper()
	for _, m := range w.bubble().Found(account) {
		ids = append(ids, m.Message.ID)
	}
	return ids
}

func (w *world) counted(name, label string) float64 {
	w.Helper()
	return w.bubble().Counted(name, label)
}

// newMetrics replaces the registry, so that another pool can register its metrics.
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
	_ = json.Unmarshal(config, &c) // no valid config means no host
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

// faulty is a server whose calls fail as the test says.
type faulty struct {
	circulate.Server
	quiet bool         // see faketime.Faulty
	slow  atomic.Int64 // how long a connection to a shard is waited for, in ns

	mu   sync.Mutex
	fail func(command string) fault
}

type fault = faketime.Fate

const (
	healthy   = faketime.Healthy
	notDone   = faketime.NotDone
	replyLost = faketime.ReplyLost
)

// set lets a function decide about each command. A command that is called alone, as scripts
// are, has its own name. "pipeline" stands for a reply of a pipeline, "subscription" for one
// of a subscription.
func (f *faulty) set(fail func(command string) fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *faulty) fate(s faketime.Step) fault {
	command := map[faketime.Point]string{faketime.Call: s.Command, faketime.Receive: "pipeline", faketime.Notified: "subscription"}[s.At]
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail == nil || command == "" {
		return healthy
	}
	return f.fail(command)
}

func (f *faulty) Conn(ctx context.Context, key string) (redis.Conn, error) {
	server := &faketime.Faulty{Server: f.Server, Quiet: f.quiet}
	server.Set(f.fate)
	if strings.Contains(key, ":processing_list") {
		time.Sleep(time.Duration(f.slow.Load()))
	}
	return server.Conn(ctx, key)
}

func testLog(t *testing.T) *slog.Logger { return faketime.Log(t) }
