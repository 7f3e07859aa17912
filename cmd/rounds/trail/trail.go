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
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// kept is how many entries a trail stores by default.
	kept = 100_000
	// keepWithin is the longest that the answer to an order waits until its entry is stored.
	keepWithin = time.Second
	// refusals is how many refused orders a process stores in a burst. refusalEvery is how often it
	// stores another one after that. Callers without rights must not push out other entries.
	refusals     = 200
	refusalEvery = time.Second
)

// Metrics are the metrics of a trail.
type Metrics struct{ entries *prometheus.CounterVec }

// NewMetrics returns metrics that it registers. If the registry is nil, they are not
// exposed.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	return &Metrics{promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "trail_entries_total",
		Help: "Entries of the trail, by result: kept; logged, in the log alone, as the trail is off or refused orders came too fast; lost, in the log alone, as Redis did not take them."},
		[]string{"result"})}
}

// Options are the settings of a trail.
type Options struct {
	Kept    int          // about how many entries to store; 0: 100,000; negative: none, only the log has them
	Log     *slog.Logger // gets every entry, at info; nil: no log
	Metrics *Metrics     // nil: none
}

// Trail stores who changed what in a namespace. It is safe for concurrent use.
type Trail struct {
	journal document.Journal
	options Options

	mu      sync.Mutex
	spare   float64 // how many refused orders may be stored at once now
	counted time.Time
	lost    int // entries that only the log has, because Redis did not accept them
	lostAt  time.Time
}

// New returns the trail of a ring's namespace. It starts nothing.
func New(ring *circulate.Ring, o Options) (*Trail, error) {
	return over(document.Of(ring).Journal(), o)
}

// At is New for a namespace in a Redis, for callers without a ring.
func At(server circulate.Server, namespace string, o Options) (*Trail, error) {
	return over(document.At(server, namespace).Journal(), o)
}

func over(j document.Journal, o Options) (*Trail, error) {
	if o.Kept == 0 {
		o.Kept = kept
	}
	if o.Kept > document.MaxNotes {
		return nil, fmt.Errorf("trail: kept: must be at most %d, is %d", document.MaxNotes, o.Kept)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	return &Trail{journal: j, options: o, spare: refusals, counted: time.Now()}, nil
}

// Add stores an entry: in the log, and in Redis within a second, even if ctx is cancelled. If
// Redis does not accept it, the order does not fail, because it was carried out. The log and the
// metric then show that the entry is missing in Redis.
func (t *Trail) Add(ctx context.Context, e Entry) {
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
		t.lose(time.Now())
		level := slog.LevelWarn
		if e.Outcome == Refused || e.Outcome == Failed { // the caller knows the outcome
			level = slog.LevelDebug
		}
		t.options.Log.Log(ctx, level, "an entry of the trail stands in the log alone", "action", e.Action, "error", reasonOf(err))
	}
	t.options.Metrics.entries.WithLabelValues(result).Inc()
}

func (t *Trail) lose(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost, t.lostAt = t.lost+1, now
}

// Lost returns how many entries are only in the log because Redis did not accept them, since this
// trail was made, and when that last happened; the zero time: never.
func (t *Trail) Lost() (entries int, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost, t.lostAt
}

// reasonOf returns a short error if Redis is at its memory limit, and others unchanged.
func reasonOf(err error) error {
	if circulate.Full(err) {
		return errors.New("redis is at its memory limit")
	}
	return err
}

// spares reports whether one more refused order may be stored now.
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
