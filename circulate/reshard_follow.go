package circulate

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// changeCheck is how often a process asks whether the number of shards changes. It costs
// Redis one command.
const changeCheck = time.Second

// AwaitChange waits until the ring must be opened again. It returns false when ctx is
// done. After an error it asks again: while Redis is away nothing changes.
func (r *Ring) AwaitChange(ctx context.Context) bool {
	tick := time.NewTicker(changeCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		if changed, err := r.Changed(ctx); err == nil && changed {
			return true
		}
	}
}

// Follow runs work with a ring until ctx is done or the work ends. When the number of
// shards changes, it calls open until that returns a new ring, and starts work with it.
// Only then does it cancel the context of the work with the old ring, which ends beside
// the new one. The first error of the work ends everything and is returned.
func Follow(ctx context.Context, ring *Ring, open func(context.Context) (*Ring, error), work func(context.Context, *Ring) error) error {
	group, ctx := errgroup.WithContext(ctx)
	endBefore := func() {}
	for ring != nil {
		with, end := context.WithCancel(ctx)
		watch, ended := context.WithCancel(with)
		current := ring
		group.Go(func() error {
			defer ended()
			return work(with, current)
		})
		endBefore() // only now, so that accounts that are due in between are checked
		endBefore = end
		ring = nil
		if current.AwaitChange(watch) {
			ring = openAgain(watch, open)
		}
	}
	err := group.Wait()
	endBefore()
	return err
}

// openAgain tries until it succeeds, or returns nil when ctx is done.
func openAgain(ctx context.Context, open func(context.Context) (*Ring, error)) *Ring {
	for ctx.Err() == nil {
		if ring, err := open(ctx); err == nil {
			return ring
		}
		timer := time.NewTimer(changeCheck)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}
