package trail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/journal"
)

const (
	// Kept is how many entries a trail keeps unless it is told otherwise.
	Kept = 100_000
	// keepWithin bounds how long the answer to an order waits for its entry to be kept.
	keepWithin = time.Second
	// refusals is how many refused orders a process keeps at once, and refusalEvery how
	// often another one after that: who may do nothing must not push out what others did.
	refusals     = 200
	refusalEvery = time.Second
)

// Metrics are what a trail is counted by.
type Metrics struct{ entries *prometheus.CounterVec }

// NewMetrics registers them; a nil registry counts for nobody.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	return &Metrics{promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "trail_entries_total",
		Help: "Entries of the trail, by result: kept; logged, in the log alone, as the trail is off or refused orders came too fast; lost, in the log alone, as Redis did not take them."},
		[]string{"result"})}
}

// Options are how a trail is kept.
type Options struct {
	Kept    int          // how many entries, about; 0: Kept; negative: none, and they go to the log alone
	Log     *slog.Logger // every entry, at info; nil: nowhere
	Metrics *Metrics     // nil: nobody counts
}

// Trail is who changed what in a namespace. It is safe for concurrent use.
type Trail struct {
	journal journal.Journal
	options Options

	mu      sync.Mutex
	spare   float64 // how many refused orders may be kept at once now
	counted time.Time
}

// New returns the trail of a ring's namespace. It starts nothing.
func New(ring *circulate.Ring, o Options) (*Trail, error) { return over(journal.Of(ring), o) }

// At is New for a namespace in a Redis where no ring is opened.
func At(server circulate.Server, namespace string, o Options) (*Trail, error) {
	return over(journal.At(server, namespace), o)
}

func over(j journal.Journal, o Options) (*Trail, error) {
	if o.Kept == 0 {
		o.Kept = Kept
	}
	if o.Kept > journal.MaxKept {
		return nil, fmt.Errorf("trail: kept: must be at most %d, is %d", journal.MaxKept, o.Kept)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	return &Trail{journal: j, options: o, spare: refusals, counted: time.Now()}, nil
}

// Keep keeps an entry: in the log, and in Redis within a second, although ctx may be
// cancelled. That Redis does not take it is no error of the order, which was carried out:
// the log says so, and the metric.
func (t *Trail) Keep(ctx context.Context, e Entry) {
	text, err := e.encode()
	t.options.Log.LogAttrs(ctx, slog.LevelInfo, "ordered", e.attributes()...)
	result := "kept"
	switch {
	case err != nil:
	case t.options.Kept < 0, e.Outcome == Refused && !t.spares(time.Now()):
		result = "logged"
	default:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWithin)
		defer cancel()
		_, err = t.journal.Append(ctx, text, t.options.Kept)
	}
	if err != nil {
		result = "lost"
		level := slog.LevelWarn
		if e.Outcome == Refused || e.Outcome == Failed { // whoever ordered it was told
			level = slog.LevelDebug
		}
		t.options.Log.Log(ctx, level, "an entry of the trail stands in the log alone", "action", e.Action, "error", reasonOf(err))
	}
	t.options.Metrics.entries.WithLabelValues(result).Inc()
}

// reasonOf says in few words what Redis says in many.
func reasonOf(err error) error {
	if circulate.Full(err) {
		return errors.New("redis is at its memory limit")
	}
	return err
}

// spares reports whether one more refused order may be kept now.
func (t *Trail) spares(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spare = min(refusals, t.spare+max(0, now.Sub(t.counted).Seconds()/refusalEvery.Seconds()))
	t.counted = now
	if t.spare < 1 {
		return false
	}
	t.spare--
	return true
}
