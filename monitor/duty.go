package monitor

import (
	"context"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	dutyLasts = 30 * time.Second // after the last renewal
	dutyRenew = 10 * time.Second
	dutyRest  = time.Second // the shortest time between two turns of a task
)

// duty decides whether this monitor does the work that needs only one, so that more
// monitors cost no more. Nothing relies on there being only one.
type duty struct {
	ring *circulate.Ring
	who  string

	mu    sync.Mutex
	until time.Time
	taken chan struct{} // closed when the duty is taken or renewed, and then replaced
}

func newDuty(ring *circulate.Ring) *duty {
	return &duty{ring: ring, who: circulate.NewReplica(), taken: make(chan struct{})}
}

func (d *duty) renew(ctx context.Context) error {
	asked := time.Now()
	mine, err := d.ring.OnDuty(ctx, d.who, dutyLasts)
	if err != nil {
		return err // this monitor is still on duty until its last renewal runs out
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until = time.Time{}
	if mine {
		d.until = asked.Add(dutyLasts)
		close(d.taken)
		d.taken = make(chan struct{})
	}
	return nil
}

func (d *duty) held() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Before(d.until)
}

// resign lets another monitor take over at once.
func (d *duty) resign(ctx context.Context) error {
	if !d.held() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, err := d.ring.OnDuty(ctx, d.who, 0)
	return err
}

// await waits until the monitor is on duty. It reports false when ctx is done.
func (d *duty) await(ctx context.Context) bool {
	for ctx.Err() == nil {
		d.mu.Lock()
		held, taken := time.Now().Before(d.until), d.taken
		d.mu.Unlock()
		if held {
			return true
		}
		select {
		case <-ctx.Done():
		case <-taken:
		}
	}
	return false
}

// onDuty does the work that needs only one monitor: it watches Redis' clock, counts,
// trims, looks for staleness and problems, looks at consumer groups, stores samples for
// charts, tries parked accounts again, audits, and reports what it watches.
func (m *Monitor) onDuty(ctx context.Context) {
	var tasks sync.WaitGroup
	tasks.Go(func() { every(ctx, dutyRenew, m.log, "duty", m.renewDuty) })
	tasks.Go(func() { m.repeat(ctx, "watch the clock", m.config.SweepInterval, newClockWatch(m).turn) })
	tasks.Go(func() { m.repeat(ctx, "count", m.config.CountInterval, m.count) })
	tasks.Go(func() { m.repeat(ctx, "trim", m.config.TrimInterval, m.trim) })
	tasks.Go(func() { m.repeat(ctx, "look at Redis' memory", memoryLook, m.lookAtMemory) })
	tasks.Go(func() { m.repeat(ctx, "look at dead letters", m.config.CountInterval, m.deadLetters) })
	tasks.Go(func() { m.repeat(ctx, "scan for staleness", scanInterval, m.scan) })
	tasks.Go(func() { m.repeat(ctx, "sum up problems", m.config.ProblemsInterval, m.problems) })
	tasks.Go(func() { m.repeat(ctx, "keep the budget", budgetEvery, (&budgetKeeper{Monitor: m}).turn) })
	tasks.Go(func() { m.lookAtGroups(ctx) })
	tasks.Go(func() { newSampler(m).run(ctx) })
	tasks.Go(func() { m.repeat(ctx, "tell what is watched", concern.WatchEvery, m.tell) })
	tasks.Go(func() {
		m.repeat(ctx, "estimate when accounts are in time", estimateEvery, (&catchUpWatch{Monitor: m}).turn)
	})
	tasks.Go(func() { m.audits(ctx) })
	if m.options.Concerns != nil {
		tasks.Go(func() {
			m.repeat(ctx, "look at Redis' settings", concernsLook, (&concernWatch{Monitor: m}).look)
		})
	}
	if m.config.ProbeInterval > 0 {
		tasks.Go(func() { m.repeat(ctx, "probe", m.probePause(), m.probe) })
	}
	if len(m.options.Steps) > 0 {
		tasks.Go(func() { m.repeat(ctx, "migrate", dutyRest, newMigrator(m).turn) })
	}
	if m.ring.Sources() > 0 {
		tasks.Go(func() { m.repeat(ctx, "reshard", dutyRest, newReshard(m).turn) })
	}
	tasks.Wait()
	if err := m.duty.resign(ctx); err != nil {
		m.log.Debug("another monitor takes over later", "error", err)
	}
}

func (m *Monitor) renewDuty(ctx context.Context) error {
	err := m.duty.renew(ctx)
	if m.duty.held() {
		m.metrics.duty.Set(1)
	} else {
		m.metrics.offDuty()
		m.watch.forget()
	}
	return err
}

// repeat does a task whenever this monitor is on duty, at most once in an interval.
func (m *Monitor) repeat(ctx context.Context, name string, interval time.Duration, task func(context.Context) error) {
	for m.duty.await(ctx) {
		began := time.Now()
		turn(ctx, m.log, name, task)
		rest(ctx, max(dutyRest, interval-time.Since(began)))
	}
}

// rest waits, and returns early when ctx is done.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
