package faketime

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
)

// World is a ring, and what a test sees of it.
type World struct {
	*testing.T
	Redis   circulate.Server // without faults
	Server  *Faulty          // the way by which the ring reaches it
	Ring    *circulate.Ring
	Metrics *prometheus.Registry
}

// Run runs a test of a ring in a bubble of fake time. All that the test started
// must have ended when it returns.
func Run(t *testing.T, shards int, test func(w *World)) {
	t.Helper()
	Redis(t, func(t *testing.T, server *connect.Embedded) { test(On(t, server, shards)) })
}

// Redis is Run for a test that needs only the embedded Redis.
func Redis(t *testing.T, test func(t *testing.T, server *connect.Embedded)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := connect.NewEmbedded()
		defer func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}()
		test(t, server)
	})
}

// On is the same world on an existing server, which may be a real one. Time is then real.
func On(t *testing.T, server circulate.Server, shards int) *World {
	t.Helper()
	w := &World{T: t, Redis: server, Server: &Faulty{Server: server}, Metrics: prometheus.NewRegistry()}
	ring, err := circulate.Open(t.Context(), w.Server, circulate.Options{Shards: shards, Log: Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	w.Ring = ring
	return w
}

// Open opens the ring by another server.
func (w *World) Open(server circulate.Server) *circulate.Ring {
	w.Helper()
	ring, err := circulate.Open(w.Context(), server, circulate.Options{Log: Log(w.T)})
	if err != nil {
		w.Fatal(err)
	}
	return ring
}

// Miniredis returns the embedded server's internals.
func (w *World) Miniredis() *miniredis.Miniredis {
	w.Helper()
	embedded, ok := w.Redis.(*connect.Embedded)
	if !ok {
		w.Fatalf("%T is not the embedded server", w.Redis)
	}
	return embedded.Miniredis()
}

// SetRedisClock has Redis use another clock than the bubble's.
func (w *World) SetRedisClock(now func() time.Time) {
	w.Helper()
	embedded, ok := w.Redis.(*connect.Embedded)
	if !ok {
		w.Fatalf("%T is not the embedded server", w.Redis)
	}
	embedded.SetClock(now)
}

// Log returns a logger that writes to the test and to other handlers.
func Log(t testing.TB, also ...io.Writer) *slog.Logger {
	out := io.MultiWriter(append([]io.Writer{t.Output()}, also...)...)
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Go runs a function until the returned function is called, which waits for its end. An
// error that it ends with fails the test.
func Go(t testing.TB, run func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// NewMetrics replaces the registry, for the metrics of another instance.
func (w *World) NewMetrics() { w.Metrics = prometheus.NewRegistry() }

// Counted returns the sum of one of the world's counters or gauges over its series that
// have a label of that value. An empty label means all series.
func (w *World) Counted(name, label string) float64 {
	w.Helper()
	return Counted(w.T, w.Metrics, name, label)
}

// Counted is the same of any metrics.
func Counted(t testing.TB, metrics prometheus.Gatherer, name, label string) (sum float64) {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			counts := label == ""
			for _, l := range series.GetLabel() {
				counts = counts || l.GetValue() == label
			}
			if counts {
				sum += series.GetCounter().GetValue() + series.GetGauge().GetValue()
			}
		}
	}
	return sum
}
