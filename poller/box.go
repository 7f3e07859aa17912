package poller

import (
	"context"
	"sync"
	"time"
)

// Limits are those of one call.
type callLimits struct {
	Timeout time.Duration // after which the call's context is done
	Grace   time.Duration // how long the call may go on after that
	// Overrun is called when the grace is over and the call has not ended.
	Overrun interface{ Overrun() }
}

// A Box bounds the calls of one goroutine, one after the other.
type Box struct {
	parent context.Context
	leave  func() bool // forgets the parent

	mu     sync.Mutex
	call   *Call // under way, and not overrun
	timer  *time.Timer
	rings  time.Time // when the timer does; zero: it does not
	closed bool
}

// New returns a box whose calls end when the parent does. The caller must close it.
func newBox(parent context.Context) *Box {
	b := &Box{parent: parent}
	b.leave = context.AfterFunc(parent, b.end)
	return b
}

// Close ends the use of a box, and a call that is still under way.
func (b *Box) Close() {
	b.leave()
	b.mu.Lock()
	call := b.call
	b.call, b.closed = nil, true
	if b.timer != nil {
		b.timer.Stop()
	}
	b.mu.Unlock()
	if call != nil {
		call.cancel(context.Canceled)
	}
}

// Begin begins a call. Its context has the parent's values, and value under key. The caller must
// end it before the next one.
func (b *Box) Begin(limits callLimits, key, value any) *Call {
	c := &Call{parent: b.parent, limits: limits, key: key, value: value, deadline: time.Now().Add(limits.Timeout)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.parent.Err(); err != nil {
		c.err = err
	}
	b.call = c
	if b.rings.IsZero() || b.rings.After(c.deadline) {
		b.ring(c.deadline, limits.Timeout)
	}
	return c
}

// End ends a call. If it is overrun, End returns only when its Overrun has.
func (b *Box) End(c *Call) {
	b.mu.Lock()
	if b.call == c {
		b.call = nil
	}
	overrun := c.overrun
	b.mu.Unlock()
	if overrun != nil {
		<-overrun
	}
	c.cancel(context.Canceled)
}

// end ends the call under way, because the parent is done.
func (b *Box) end() {
	b.mu.Lock()
	call := b.call
	b.mu.Unlock()
	if call != nil {
		call.cancel(b.parent.Err())
	}
}

// ring sets the timer. The caller holds the lock.
func (b *Box) ring(at time.Time, in time.Duration) {
	b.rings = at
	if b.timer == nil {
		b.timer = time.AfterFunc(in, b.rung)
		return
	}
	b.timer.Reset(in)
}

// rung is called by the timer, perhaps for a call that has long ended.
func (b *Box) rung() {
	b.mu.Lock()
	c, now := b.call, time.Now()
	b.rings = time.Time{}
	if c == nil || b.closed {
		b.mu.Unlock()
		return
	}
	until := c.deadline
	if c.late {
		until = until.Add(c.limits.Grace)
	}
	if left := until.Sub(now); left > 0 {
		b.ring(until, left)
		b.mu.Unlock()
		return
	}
	if !c.late {
		c.late = true
		b.ring(c.deadline.Add(c.limits.Grace), c.deadline.Add(c.limits.Grace).Sub(now))
		b.mu.Unlock()
		c.cancel(context.DeadlineExceeded)
		return
	}
	b.call, c.overrun = nil, make(chan struct{})
	b.mu.Unlock()
	defer close(c.overrun)
	c.limits.Overrun.Overrun()
}
