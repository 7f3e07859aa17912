package poller

import (
	"context"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/poller/egress"
	"github.com/rounds-dev/rounds/poller/internal/conceal"
	"github.com/rounds-dev/rounds/poller/span"
)

// callLimits bound one call.
type callLimits struct {
	Timeout time.Duration // after which the call's context is done
	Grace   time.Duration // how long the call may go on after that
	// Overrun is called when the grace is over and the call has not ended.
	Overrun interface{ Overrun() }
	// Secrets gets the secrets that the call resolves. Nil: they are not noted.
	Secrets *conceal.Secrets
	// Egress is the account for which the call is made.
	Egress *egress.Account
	// Span is the call's. Nil: it is not recorded.
	Span span.Span
	// Answers gets what third parties answer. Nil: it is not noted.
	Answers *answers
}

// A box bounds the calls of one goroutine, which follow one another.
type box struct {
	parent context.Context
	detach func() bool // stops watching the parent

	mu      sync.Mutex
	call    *boxCall // under way, and not overrun
	timer   *time.Timer
	firesAt time.Time // when the timer fires; zero: it is not set
	closed  bool
}

// newBox returns a box whose calls end when the parent does. The caller must close it.
func newBox(parent context.Context) *box {
	b := &box{parent: parent}
	b.detach = context.AfterFunc(parent, b.end)
	return b
}

// Close ends the box, and the call that is still under way.
func (b *box) Close() {
	b.detach()
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
func (b *box) Begin(limits callLimits, key, value any) *boxCall {
	c := &boxCall{parent: b.parent, limits: limits, key: key, value: value, deadline: time.Now().Add(limits.Timeout)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.parent.Err(); err != nil {
		c.err = err
	}
	b.call = c
	if b.firesAt.IsZero() || b.firesAt.After(c.deadline) {
		b.setTimer(c.deadline, limits.Timeout)
	}
	return c
}

// End ends a call. If it is overrun, End returns only when its Overrun has.
func (b *box) End(c *boxCall) {
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

// end ends the call under way when the parent is done.
func (b *box) end() {
	b.mu.Lock()
	call := b.call
	b.mu.Unlock()
	if call != nil {
		call.cancel(b.parent.Err())
	}
}

// setTimer sets the timer. The caller holds the lock.
func (b *box) setTimer(at time.Time, in time.Duration) {
	b.firesAt = at
	if b.timer == nil {
		b.timer = time.AfterFunc(in, b.onTimer)
		return
	}
	b.timer.Reset(in)
}

// onTimer is what the timer calls, perhaps for a call that has long ended. It ends the context of a
// call at its deadline, and gives the call up when its grace is over.
func (b *box) onTimer() {
	b.mu.Lock()
	c, now := b.call, time.Now()
	b.firesAt = time.Time{}
	if c == nil || b.closed {
		b.mu.Unlock()
		return
	}
	graceOver := c.deadline.Add(c.limits.Grace)
	switch {
	case now.Before(c.deadline): // the timer was set for an earlier call
		b.setTimer(c.deadline, c.deadline.Sub(now))
		b.mu.Unlock()
	case !c.late:
		c.late = true
		b.setTimer(graceOver, graceOver.Sub(now))
		b.mu.Unlock()
		c.cancel(context.DeadlineExceeded)
	case now.Before(graceOver):
		b.setTimer(graceOver, graceOver.Sub(now))
		b.mu.Unlock()
	default:
		b.call, c.overrun = nil, make(chan struct{})
		b.mu.Unlock()
		defer close(c.overrun)
		c.limits.Overrun.Overrun()
	}
}

// boxCall is the context of a call. Like any context, it may outlive the call in what the call has
// started.
type boxCall struct {
	parent     context.Context // for its values
	key, value any
	deadline   time.Time

	// limits are the box's.
	limits  callLimits
	late    bool          // the deadline has passed
	overrun chan struct{} // closed once Overrun has returned; nil: it was not called

	mu      sync.Mutex
	err     error
	done    chan struct{} // nil: nobody has asked for it
	waiting *waiter
}

var _ context.Context = (*boxCall)(nil)

// endedDone is the done channel of calls that had ended before anybody asked for one.
var endedDone = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Deadline implements context.Context.
func (c *boxCall) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *boxCall) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		if c.done = endedDone; c.err == nil {
			c.done = make(chan struct{})
		}
	}
	return c.done
}

// Err implements context.Context.
func (c *boxCall) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Value implements context.Context.
func (c *boxCall) Value(key any) any {
	switch key {
	case c.key:
		return c.value
	case conceal.Key{}:
		if c.limits.Secrets != nil {
			return c.limits.Secrets
		}
	case egress.Key{}:
		if c.limits.Egress != nil {
			return c.limits.Egress
		}
	case span.Key{}:
		if c.limits.Span != nil {
			return c.limits.Span
		}
	case answersKey{}:
		if c.limits.Answers != nil {
			return c.limits.Answers
		}
	}
	return c.parent.Value(key)
}

// waiter is a function that waits for the end of a call.
type waiter struct {
	call         *boxCall
	do           func()
	before, next *waiter
}

// AfterFunc calls do when the call is done, unless stop was called before. do must not block.
// Package context looks for this method in a parent, and without it starts a goroutine for each
// context that derives from this one.
func (c *boxCall) AfterFunc(do func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go do() // not here: the caller may hold a lock that do needs
		return func() bool { return false }
	}
	w := &waiter{call: c, do: do, next: c.waiting}
	if w.next != nil {
		w.next.before = w
	}
	c.waiting = w
	return w.stop
}

// stop removes the waiter. It reports false if the waiter was already removed.
func (w *waiter) stop() bool {
	c := w.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.do == nil {
		return false
	}
	w.do = nil
	if w.before != nil {
		w.before.next = w.next
	} else {
		c.waiting = w.next
	}
	if w.next != nil {
		w.next.before = w.before
	}
	return true
}

// cancel makes the context done, once.
func (c *boxCall) cancel(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	var all []func()
	for w := c.waiting; w != nil; w = w.next {
		all = append(all, w.do)
		w.do = nil
	}
	c.waiting = nil
	c.mu.Unlock()
	for _, do := range all {
		do()
	}
}
