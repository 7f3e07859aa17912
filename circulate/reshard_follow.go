package circulate

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// changeCheck is how often a process asks whether the number of shards changes. It
// costs Redis one command.
const changeCheck = time.Second

// AwaitChange waits until the ring must be opened anew, and reports false when ctx
// is done. What fails is asked again: while Redis is away nothing changes.
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

// Follow has work done with a ring until ctx is done or the work ends. Whenever the
// number of shards changes, open returns the ring anew, work begins with that one, and
// only then the context of the work with the one before is cancelled: it goes to its
// end beside the other. The first error ends all and is returned; open is tried
// again until it succeeds.
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
		endBefore() // only now: what is due in between has somebody
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
