package scan

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/login"
)

// lookAgain is how long after the start of a call a look makes no other, in case the server does
// not hold calls.
const lookAgain = time.Second

// calls are the calls of a process that are under way, so that any number of looks at a
// sign-in make one. The zero value is ready to use.
type calls struct {
	mu     sync.Mutex
	by     map[string]*call // by the sign-in's name
	closed bool
}

// call is a call to the server. It goes on whether or not anybody waits for it.
type call struct {
	digits string
	began  time.Time
	end    context.CancelFunc
	done   chan struct{} // closed at its end
	login  *Login
	err    error
}

// Close ends the running calls that have outlasted their callers. Later calls end with their
// callers.
func (d *Desk) Close() {
	d.calls.mu.Lock()
	defer d.calls.mu.Unlock()
	d.calls.closed = true
	for _, c := range d.calls.by {
		c.end()
	}
}

// await waits for a step, at most for hold.
func (d *Desk) await(ctx context.Context, registry *accounts.Registry, name, digits string, hold time.Duration) (*Login, error) {
	k, err := d.get(ctx, name)
	if err != nil {
		return nil, err
	}
	if k.over(digits) {
		return k.login(name), nil
	}
	c := d.begin(ctx, registry, name, digits, hold > 0)
	if hold > 0 {
		timer := time.NewTimer(hold)
		defer timer.Stop()
		select {
		case <-c.done:
			return c.login, c.err
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
		}
		return d.Look(ctx, name)
	}
	return k.login(name), nil
}

// begin begins a step that does not end with its caller, or joins the running one, so that a
// process makes one call at a time for a sign-in. Digits wait for a running look, and digits that
// come while others are tried share their outcome. A caller that only looks begins no step for a
// moment after one has ended.
func (d *Desk) begin(ctx context.Context, registry *accounts.Registry, name, digits string, waits bool) *call {
	d.calls.mu.Lock()
	defer d.calls.mu.Unlock()
	before := make(chan struct{})
	if c := d.calls.by[name]; c == nil {
		close(before)
	} else {
		select {
		case <-c.done:
			if !waits && digits == c.digits {
				return c
			}
		default:
			if digits == "" || c.digits != "" {
				return c
			}
		}
		before = c.done
	}
	if d.calls.by == nil {
		d.calls.by = make(map[string]*call)
	}
	c := &call{digits: digits, began: time.Now(), done: make(chan struct{})}
	if !d.calls.closed {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, c.end = context.WithCancel(ctx)
	d.calls.by[name] = c
	go func() {
		defer c.end()
		<-before
		c.login, c.err = d.step(ctx, registry, name, digits)
		close(c.done)
		time.AfterFunc(time.Until(c.began.Add(lookAgain)), func() {
			d.calls.mu.Lock()
			defer d.calls.mu.Unlock()
			if d.calls.by[name] == c {
				delete(d.calls.by, name)
			}
		})
	}()
	return c
}

// tell returns what may be shown of an error.
func (d *Desk) tell(ctx context.Context, err error) string {
	if d.Tell != nil {
		return d.Tell(ctx, err)
	}
	if shown, ok := errors.AsType[*login.Error](err); ok {
		return shown.Error()
	}
	return "something went wrong in the service, whose log has more"
}
