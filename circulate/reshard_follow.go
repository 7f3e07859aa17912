package circulate

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// changeCheck is how often a process asks whether the number of shards changes. It costs
// Redis one command, however many wait for that with a ring.
const changeCheck = time.Second

// changes is what those who wait for a change share.
type changes struct {
	mu      sync.Mutex
	asked   time.Time
	changed bool
}

// changedLately is Changed, and asks Redis only if nobody did within most of changeCheck.
func (r *Ring) changedLately(ctx context.Context) bool {
	if !r.changes.mu.TryLock() {
		return false // somebody asks; the next look sees the answer
	}
	defer r.changes.mu.Unlock()
	if !r.changes.changed && time.Since(r.changes.asked) > changeCheck*3/4 {
		changed, err := r.Changed(ctx)
		r.changes.asked, r.changes.changed = time.Now(), err == nil && changed
	}
	return r.changes.changed
}

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
		if r.changedLately(ctx) {
			return true
		}
	}
}

// Follow runs work with a ring until ctx is done or the work ends. When the number of
// shards changes, it calls open until that returns a new ring, and starts work with it.
// Only then does it cancel the context of the work with the old ring, which ends beside
// the new one. The first error of the work ends everything and is returned.
func Follow(ctx context.Context, ring *Ring, open func(context.Context) (*Ring, error), work func(context.Context, *Ring) error) error {
	return follow(ctx, ring, open, func(ctx context.Context, ring *Ring) error {
		ring.followed.Store(true)
		return work(ctx, ring)
	})
}

// Follow is [Follow] with the ring itself opened again. It leaves that to whoever got the ring
// from there.
func (r *Ring) Follow(ctx context.Context, work func(context.Context, *Ring) error) error {
	if r.followed.Load() {
		return work(ctx, r)
	}
	return follow(ctx, r, r.reopen, work)
}

func follow(ctx context.Context, ring *Ring, open func(context.Context) (*Ring, error), work func(context.Context, *Ring) error) error {
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
