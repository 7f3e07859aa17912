package message

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// readRound is a round of a consumer under way.
type readRound struct {
	GroupRead
	reader *Reader
	group  string

	mu     sync.Mutex
	shards map[int]*groupShard // that the consumer has leased

	watches map[int]*group.Watch // by shard, of those that were waited for
}

// groupShard is a shard that is the consumer's for now.
type groupShard struct {
	lease  *group.Lease
	leased time.Time // when it was asked for
	ready  bool      // there may be something to read
	end    string    // where its stream ended when it was read; empty: not known
}

// read returns the next messages, as soon as there are any or the wait is over.
func (t *readRound) read(ctx context.Context) ([]GroupMessage, error) {
	defer t.unwatch()
	deadline := time.Now().Add(t.Wait)
	for {
		if err := t.take(ctx); err != nil {
			return nil, err
		}
		messages, err := t.collect(ctx)
		left := time.Until(deadline)
		if len(messages) > 0 || err != nil || left <= 0 {
			return messages, err
		}
		if err := t.await(ctx, min(left, groupBeat)); err != nil {
			return nil, err
		}
	}
}

// take says that the consumer is alive, and leases the shards that are its part
// among those that are.
func (t *readRound) take(ctx context.Context) error {
	ring := t.reader.ring
	alive, err := group.Of(ring).Member(t.group, t.Consumer, groupWindow).Join(ctx)
	if err != nil {
		return err
	}
	return circulate.EachShard(ctx, t.reader.ring.Shards(), func(ctx context.Context, shard int) error {
		t.mu.Lock()
		held := t.shards[shard]
		t.mu.Unlock()
		if circulate.Preferred(shard, alive) != t.Consumer {
			return t.release(ctx, shard, held)
		}
		if held != nil && time.Since(held.leased) < groupWindow/3 {
			return nil
		}
		return t.lease(ctx, shard)
	})
}

// lease leases a shard unless another consumer has it. What is the consumer's own
// already it is given anew.
func (t *readRound) lease(ctx context.Context, shard int) error {
	asked := time.Now()
	lease, _, err := group.Of(t.reader.ring).Member(t.group, t.Consumer, groupWindow).Lease(ctx, shard)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.shards[shard]
	switch {
	case lease == nil:
		delete(t.shards, shard)
	case held == nil:
		t.shards[shard] = &groupShard{lease: lease, leased: asked, ready: true}
	default:
		held.lease, held.leased = lease, asked
	}
	return nil
}

// release returns a shard that is another's part now. A lease of an earlier
// round is not known here, and ends by itself.
func (t *readRound) release(ctx context.Context, shard int, held *groupShard) error {
	if held == nil {
		return nil
	}
	t.mu.Lock()
	delete(t.shards, shard)
	t.mu.Unlock()
	_, err := group.Of(t.reader.ring).Release(ctx, held.lease)
	return err
}

// collect reads the shards that may have something, each first what is pending
// there: a dead consumer left it, or this one was given it and did not acknowledge
// it.
func (t *readRound) collect(ctx context.Context) ([]GroupMessage, error) {
	shards := t.reader.ring.Shards()
	begin := rand.N(shards) // so that no shard is always the last
	var all []GroupMessage
	size := 0
	for i := range shards {
		if len(all) >= t.Limit || size >= pageBytes {
			break
		}
		shard := t.shards[(begin+i)%shards]
		if shard == nil || !shard.ready {
			continue
		}
		messages, err := t.readShard(ctx, shard, t.Limit-len(all), pageBytes-size)
		if errors.Is(err, group.ErrLeaseLost) {
			delete(t.shards, shard.lease.Shard) // it is another's now, with what is pending there
			continue
		}
		if err != nil {
			// What was read is pending, and comes with the next round.
			return nil, err
		}
		for _, m := range messages {
			size += len(m.Message.Data)
		}
		all = append(all, messages...)
		if t.From == "" {
			continue
		}
		// The names of dead consumers cost nothing: whoever comes next asks again.
		_, _ = group.Of(t.reader.ring).Forget(ctx, shard.lease)
	}
	// By when they were written; those of a shard stay in its stream's order.
	slices.SortStableFunc(all, func(a, b GroupMessage) int {
		return circulate.ComparePositions(a.Position, b.Position)
	})
	return all, nil
}

// await waits until some shard may have a message. It has no connection meanwhile:
// all that wait in the process share one.
func (t *readRound) await(ctx context.Context, d time.Duration) error {
	for _, shard := range t.shards {
		if shard.ready {
			return nil
		}
	}
	woken := make(chan int, len(t.shards))
	for n, shard := range t.shards {
		if t.watches[n] == nil {
			t.watches[n] = group.Of(t.reader.ring).Watch(n)
		}
		defer t.watches[n].Park(shard.end, func() { woken <- n })()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	case n := <-woken:
		for t.shards[n].ready = true; len(woken) > 0; {
			t.shards[<-woken].ready = true
		}
		return nil
	}
}

// unwatch ends what await began.
func (t *readRound) unwatch() {
	for _, w := range t.watches {
		w.Close()
	}
}

// leave returns all shards, with what is pending there, and forgets the
// consumer.
func (t *readRound) leave(ctx context.Context) error {
	ring := t.reader.ring
	err := circulate.EachShard(ctx, t.reader.ring.Shards(), func(ctx context.Context, shard int) error {
		t.mu.Lock()
		held := t.shards[shard]
		t.mu.Unlock()
		if held != nil {
			return t.release(ctx, shard, held)
		}
		state, err := ring.Streams().GroupState(ctx, shard, t.group)
		if errors.Is(err, circulate.ErrNoGroup) || err == nil && state.Holder != t.Consumer {
			return nil
		}
		if err != nil {
			return err
		}
		// Only who has a lease can give it back, and that of an earlier round is not
		// known here.
		lease, _, err := group.Of(ring).Member(t.group, t.Consumer, groupWindow).Lease(ctx, shard)
		if err != nil || lease == nil {
			return err
		}
		_, err = group.Of(ring).Release(ctx, lease)
		return err
	})
	if err != nil {
		return err
	}
	return group.Of(ring).Member(t.group, t.Consumer, 0).Quit(ctx)
}
