package sqlonce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// run is one call of Handle.
type run struct {
	*Handler
	batch    []delivery.Delivery
	ids      []identity
	errs     []error         // the result
	failed   map[string]bool // accounts
	stopped  error           // why no further transaction begins
	target   string          // what is away, if stopped; empty: the time is over
	remade   bool            // the table was missing, and was made again if possible
	patience patience
}

func newRun(h *Handler, batch []delivery.Delivery) *run {
	r := &run{
		Handler: h, batch: batch,
		ids: make([]identity, len(batch)), errs: make([]error, len(batch)),
		failed: make(map[string]bool), patience: newPatience(h.options.ConflictWait),
	}
	for i := range batch {
		r.ids[i] = identify(&batch[i])
	}
	return r
}

// settle applies messages in one transaction, or in several smaller ones if that fails.
func (r *run) settle(ctx context.Context, items []int) {
	items = r.withoutHeld(items)
	if len(items) == 0 {
		return
	}
	if r.stopped == nil && ctx.Err() != nil {
		r.stopped = ctx.Err()
	}
	if r.stopped != nil {
		r.fail(items, &delivery.Later{Err: r.stopped, After: awayInterval, Target: r.target})
		return
	}
	out := r.transact(ctx, items)
	switch {
	case out.err == nil:
	case out.fault == unknown:
		r.fail(items, out.err)
	case out.fault == away, ctx.Err() != nil && out.blamed < 0, errors.Is(ctx.Err(), context.Canceled): // canceled: no message is to blame
		r.stopped = out.err
		if ctx.Err() == nil {
			r.target = target
		}
		r.settle(ctx, items)
	case len(items) == 1:
		r.fail(items, out.err)
	case ctx.Err() != nil: // no time to try the others
		r.stopped = out.err
		r.settle(ctx, items[:out.blamed])
		r.fail(items[out.blamed:out.blamed+1], out.err)
		r.settle(ctx, items[out.blamed+1:])
	case out.blamed >= 0:
		r.settle(ctx, items[:out.blamed])
		r.settle(ctx, items[out.blamed:out.blamed+1])
		r.settle(ctx, items[out.blamed+1:])
	default:
		r.settle(ctx, items[:len(items)/2])
		r.settle(ctx, items[len(items)/2:])
	}
}

// transact repeats a transaction until it is not in conflict with another.
func (r *run) transact(ctx context.Context, items []int) outcome {
	for {
		out := r.once(ctx, items)
		if out.missing && !r.remade {
			r.remade = true
			err := r.create(ctx)
			if err == nil {
				continue
			}
			out.err = fmt.Errorf("%w; the table cannot be created again: %w", out.err, err)
		}
		if out.err == nil || !r.dialect.conflict(out.err) {
			return out
		}
		if !r.patience.wait(ctx) {
			if out.blamed < 0 {
				out.fault = away
			}
			return out
		}
	}
}

// withoutHeld sets ErrHeld for the messages of failed accounts, and returns the other messages.
func (r *run) withoutHeld(items []int) []int {
	var others []int
	for _, i := range items {
		if r.failed[r.batch[i].Account] {
			r.errs[i] = delivery.ErrHeld
		} else {
			others = append(others, i)
		}
	}
	return others
}

// fail sets an error for messages, and ErrHeld for those behind another of the same account.
func (r *run) fail(items []int, err error) {
	for _, i := range items {
		if account := r.batch[i].Account; r.failed[account] {
			r.errs[i] = delivery.ErrHeld
		} else {
			r.errs[i], r.failed[account] = err, true
		}
	}
}

// patience is the time that remains for repetitions after conflicts.
type patience struct {
	until time.Time
	delay time.Duration
}

func newPatience(d time.Duration) patience {
	return patience{until: time.Now().Add(d), delay: shortestDelay}
}

// wait waits a random time, which grows each time. It returns false at once when no patience is
// left or ctx is done.
func (p *patience) wait(ctx context.Context) bool {
	if ctx.Err() != nil || !time.Now().Before(p.until) {
		return false
	}
	timer := time.NewTimer(p.delay/2 + rand.N(p.delay/2+1))
	defer timer.Stop()
	p.delay = min(2*p.delay, longestDelay)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
