package monitor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// Options are what a monitor works with besides its settings. Nil fields do nothing.
type Options struct {
	Log     *slog.Logger
	Metrics *Metrics

	// Registration returns how to register an account again from its record if its ticket
	// is gone, by Redis' clock. If nil, the account is due at once, with normal priority.
	Registration func(id string, record []byte, now time.Time) circulate.Registration

	// Concerns asks Redis what could lose data. If nil, nothing is asked. See
	// connect.Concerns.
	Concerns func(context.Context) ([]Concern, error)

	// Retentions returns how long third parties retain messages. If nil, that is unknown.
	Retentions accounts.Retentions

	// Steps are the migrations of the program; none, if there are none. See package migration.
	Steps []circulate.Step
}

// Monitor sweeps a ring.
type Monitor struct {
	ring    *circulate.Ring
	config  Config
	options Options
	log     *slog.Logger
	metrics *Metrics
	duty    *duty

	warned  map[string]warning // by kind; used by the scan alone
	scanned scanSize           // used by the scan alone

	problemSteps int // of the last turn of problems; used by that task alone

	kinds kindWatch // used by the count alone
	last  lastSeen  // figures for the samples of the charts

	registered atomic.Int64            // accounts, by the last count
	budget     atomic.Pointer[float64] // see SetBudget
	watch      watch                   // while on duty

	trims    sync.Mutex // held while trimming: two turns at once would each warn
	heldTold time.Time  // when it last warned that groups hold messages back
	cutTold  time.Time  // when it last warned that messages were dropped early

	beats map[string]time.Time // heartbeats seen by the last sweep; nil: it saw none
	soon  time.Duration        // time after the last sweep until a silent replica counts as dead, or the interval
}

// New makes a monitor. Its Run may be called once, and its other methods must not be
// called meanwhile.
func New(ring *circulate.Ring, config Config, o Options) (*Monitor, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	return &Monitor{ring: ring, config: config, options: o, log: o.Log.With("role", "monitor"), metrics: o.Metrics, duty: newDuty(ring), warned: make(map[string]warning)}, nil
}

// Run sweeps at once, then every interval, and when a silent replica counts as dead,
// until ctx is done; then it returns nil. A failed turn is counted and tried again: a
// Redis that is away does not end the monitor.
func (m *Monitor) Run(ctx context.Context) error {
	m.log.Info("sweeping", "every", m.config.SweepInterval, "long_timeout", m.config.LongTimeout, "dead_after", m.config.DeadAfter)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { m.onDuty(ctx) })
	if m.ring.Sources() > 0 {
		tasks.Go(func() { every(ctx, m.config.SweepInterval, m.log, "complete moves", m.completeMoves) })
	}
	tasks.Go(func() {
		every(ctx, m.config.SweepInterval, m.log, "look who attends", (&attendance{monitor: m}).look)
	})
	m.sweepOn(ctx)
	return nil
}

// every does a task at once and then every interval, until ctx is done.
func every(ctx context.Context, interval time.Duration, log *slog.Logger, name string, task func(context.Context) error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		turn(ctx, log, name, task)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// turn does a task once, and logs its error unless Redis is away.
func turn(ctx context.Context, log *slog.Logger, name string, task func(context.Context) error) {
	if err := task(ctx); err != nil && ctx.Err() == nil && !circulate.Unavailable(err) {
		log.Error(name+" failed", "error", err)
	}
}

func (m *Monitor) report(swept Swept, err error) {
	m.metrics.swept(swept, err)
	for replica, n := range swept.Dead {
		m.log.Warn("a replica is dead: its accounts were requeued", "holder", replica, "accounts", n)
	}
}
