package poller

import (
	"context"
	"sync"
)

// cleanups are functions to call when what a check has found so far is written, such as to free the
// memory of its messages.
type cleanups struct {
	mu    sync.Mutex
	ended bool
	all   []func()
	begun func() // called when the call has reached the third party; nil: nobody waits for it
}

type cleanupsKey struct{}

// WhenWritten calls done once, when what a check has found so far is written to the ring or
// dropped. ctx is the context of Checker.Check, or derived from it. If ctx does not come from a
// pool, WhenWritten returns false and done is never called.
func WhenWritten(ctx context.Context, done func()) bool {
	c, ok := ctx.Value(cleanupsKey{}).(*cleanups)
	if ok && !c.add(done) {
		done() // a part of the check outlived it
	}
	return ok
}

// Begun says that the call of a check has reached its third party, and only waits from now on. ctx
// is the context of Checker.Check, or derived from it. If a checker never says so, its call counts
// as begun after two seconds.
func Begun(ctx context.Context) {
	if c, ok := ctx.Value(cleanupsKey{}).(*cleanups); ok && c.begun != nil {
		c.begun()
	}
}

func (c *cleanups) add(done func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.all = append(c.all, done)
	}
	return !c.ended
}

// whenWritten returns the function to call once the check's result is written, or nil if there is
// none.
func (c *cleanups) whenWritten() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) == 0 {
		c.ended = true
		return nil
	}
	return c.end
}

// call calls the functions. The check may go on.
func (c *cleanups) call() { c.release(false) }

// end is call for a check that has ended.
func (c *cleanups) end() { c.release(true) }

func (c *cleanups) release(ended bool) {
	c.mu.Lock()
	all := c.all
	c.all, c.ended = nil, c.ended || ended
	c.mu.Unlock()
	for _, f := range all {
		f()
	}
}
