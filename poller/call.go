package poller

import (
	"context"
	"sync"
	"time"
)

// Call is the context of a call. Parts of the call may keep it longer than the call lasts, as of
// any context.
type Call struct {
	parent     context.Context // for its values
	key, value any
	deadline   time.Time

	// The box's.
	limits  callLimits
	late    bool          // the deadline has passed
	overrun chan struct{} // closed once Overrun has returned; nil: it was not called

	mu      sync.Mutex
	err     error
	done    chan struct{} // nil: nobody has asked for it
	waiting *waiter
}

var _ context.Context = (*Call)(nil)

// closed is the channel of a call that was done before anybody asked.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Deadline implements context.Context.
func (c *Call) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *Call) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		if c.done = closed; c.err == nil {
			c.done = make(chan struct{})
		}
	}
	return c.done
}

// Err implements context.Context.
func (c *Call) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Value implements context.Context.
func (c *Call) Value(key any) any {
	if key == c.key {
		return c.value
	}
	return c.parent.Value(key)
}

// waiter is what somebody waits for the end of a call with.
type waiter struct {
	call         *Call
	do           func()
	before, next *waiter
}

// AfterFunc calls do when the call is done, unless stop was called before. Do must not block.
// Package context looks for this method in a parent: without it, it would start a goroutine for
// each context that derives from this one.
func (c *Call) AfterFunc(do func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go do() // not here: the caller may hold what it needs
		return func() bool { return false }
	}
	w := &waiter{call: c, do: do, next: c.waiting}
	if w.next != nil {
		w.next.before = w
	}
	c.waiting = w
	return w.stop
}

// stop takes the waiter out, and reports false if it is out already.
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
func (c *Call) cancel(err error) {
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
