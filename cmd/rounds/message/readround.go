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

// readRound is a consumer's round under way. Package group does its steps in a group, as for
// package delivery. The rest differs: a round lives as long as a request and its leases outlast it,
// so it asks Redis for what a delivery.Consumer remembers.
type readRound struct {
	GroupRead
	reader *Reader
	group  string

	mu     sync.Mutex
	shards map[int]*groupShard // the shards that the consumer has leased

	watches map[int]*group.Watch // by shard, once await has waited for it
}

// groupShard is a shard that the consumer has leased.
type groupShard struct {
	lease  *group.Lease
	leased time.Time // when the lease was asked for
	ready  bool      // there may be something to read
	end    string    // where its stream ended when it was read; empty: unknown
}

// read returns the next messages as soon as there are any, or none when the wait is over.
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

// self describes the consumer to its group, where it counts as gone when it is silent for ttl.
func (t *readRound) self(ttl time.Duration) group.Member {
	return group.Of(t.reader.ring).Member(t.group, t.Consumer, ttl)
}

// take sends the consumer's sign of life, leases the shards of its part, and releases shards that
// now belong to another living consumer.
func (t *readRound) take(ctx context.Context) error {
	alive, err := t.self(groupWindow).Join(ctx, group.Condition{})
	if err != nil {
		return err
	}
	part := t.self(groupWindow).Part(alive, nil)
	return circulate.EachShard(ctx, t.reader.ring.Shards(), func(ctx context.Context, shard int) error {
		t.mu.Lock()
		own := t.shards[shard]
		t.mu.Unlock()
		if !part[shard] {
			return t.release(ctx, shard, own)
		}
		if own != nil && time.Since(own.leased) < groupWindow/3 {
			return nil
		}
		return t.lease(ctx, shard)
	})
}

// lease leases a shard unless another consumer has it. It renews a lease that the consumer
// already has.
func (t *readRound) lease(ctx context.Context, shard int) error {
	asked := time.Now()
	lease, _, err := t.self(groupWindow).Lease(ctx, shard)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.shards[shard]
	switch {
	case lease == nil:
		delete(t.shards, shard)
	case own == nil:
		t.shards[shard] = &groupShard{lease: lease, leased: asked, ready: true}
	default:
		own.lease, own.leased = lease, asked
	}
	return nil
}

// release returns a shard that is now another consumer's part. A lease of an earlier round
// is unknown here, and ends by itself.
func (t *readRound) release(ctx context.Context, shard int, own *groupShard) error {
	if own == nil {
		return nil
	}
	t.mu.Lock()
	delete(t.shards, shard)
	t.mu.Unlock()
	_, err := group.Of(t.reader.ring).Release(ctx, own.lease)
	return err
}

// collect reads the shards that may have messages. In each shard it first reads pending messages,
// which a dead consumer left, or which this consumer got and did not acknowledge.
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
			delete(t.shards, shard.lease.Shard) // another consumer has it now, with its pending messages
			continue
		}
		if err != nil {
			// The messages that were read are pending, and come with the next round.
			return nil, err
		}
		for _, m := range messages {
			size += len(m.Message.Data)
		}
		all = append(all, messages...)
		if t.From != "" { // usually a consumer's first round
			// This only removes names of dead consumers. If it fails, another round does it.
			_, _ = group.Of(t.reader.ring).Forget(ctx, shard.lease)
		}
	}
	// Sort by the time of writing. The messages of a shard keep the order of its stream.
	slices.SortStableFunc(all, func(a, b GroupMessage) int {
		return circulate.ComparePositions(a.Position, b.Position)
	})
	return all, nil
}

// await waits until a shard may have a message. It holds no connection while it waits: all
// waiting rounds of the process share one.
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
		defer t.watches[n].Expect(shard.end, func() { woken <- n })()
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

// unwatch closes the watches of await.
func (t *readRound) unwatch() {
	for _, w := range t.watches {
		w.Close()
	}
}

// leave returns all shards, with their pending messages, and removes the consumer.
func (t *readRound) leave(ctx context.Context) error {
	ring := t.reader.ring
	err := circulate.EachShard(ctx, t.reader.ring.Shards(), func(ctx context.Context, shard int) error {
		t.mu.Lock()
		own := t.shards[shard]
		t.mu.Unlock()
		if own != nil {
			return t.release(ctx, shard, own)
		}
		state, err := ring.Streams().GroupState(ctx, shard, t.group)
		if errors.Is(err, circulate.ErrNoGroup) || err == nil && state.Holder != t.Consumer {
			return nil
		}
		if err != nil {
			return err
		}
		// Releasing needs the lease. A lease of an earlier round is unknown here, so lease again.
		lease, _, err := t.self(groupWindow).Lease(ctx, shard)
		if err != nil || lease == nil {
			return err
		}
		_, err = group.Of(ring).Release(ctx, lease)
		return err
	})
	if err != nil {
		return err
	}
	return t.self(0).Quit(ctx)
}

// readShard returns up to n messages of a shard, pending ones first. It ends early after the given
// number of bytes of data.
func (t *readRound) readShard(ctx context.Context, shard *groupShard, n, bytes int) ([]GroupMessage, error) {
	ring, lease := t.reader.ring, shard.lease
	var messages []GroupMessage
	deliveries := make(map[string]int)
	keep := func(batch group.Batch) error {
		for _, f := range batch.Messages {
			messages = append(messages, GroupMessage{ID: ring.ShardName(f.Shard).Handle(f.Position), Delivery: max(1, deliveries[f.Position]), Found: f})
			bytes -= len(f.Message.Data)
		}
		_, err := group.Of(ring).Acknowledge(ctx, lease.Shard, t.group, batch.Others)
		return err
	}
	for after := circulate.StreamStart; len(messages) < n && bytes > 0; {
		const few = 64 // each may be large
		pending, err := group.Of(ring).Pending(ctx, lease, after, min(few, n-len(messages)))
		if err != nil {
			return nil, err
		}
		if len(pending) == 0 {
			break
		}
		for i := range pending {
			pending[i].Deliveries++
			deliveries[pending[i].Position] = pending[i].Deliveries
		}
		again, came, err := group.Of(ring).Redeliver(ctx, lease, pending, bytes)
		if err == nil {
			err = keep(again)
		}
		if err != nil {
			return nil, err
		}
		after = pending[came-1].Position
	}
	if len(messages) >= n || bytes <= 0 {
		return messages, nil
	}
	fresh, err := group.Of(ring).Read(ctx, lease, n-len(messages), bytes, true)
	if err != nil {
		return nil, err
	}
	shard.end = fresh.End
	shard.ready = fresh.End == ""
	return messages, keep(fresh)
}
