package circulate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed group_begin.lua
var groupBeginLua string

var groupBeginScript = newGroupScript("begin", groupBeginLua)

// Begun is what came of asking for a shard's lease.
type Begun struct {
	Lease *Lease        // nil: another consumer has it
	After time.Duration // for how long that one has it, at most, if it is not renewed
	Asked time.Time     // when Redis was asked

	// End is the last position that the group has read, where it has nothing to read
	// in the shard, nothing pending, and no name of a consumer; empty: it may have.
	End string
}

// beginning is a lease that somebody wants, and what came of it.
type beginning struct {
	lease Lease
	begun Begun
	err   error
	done  chan struct{}
}

// BeginShard is [Ring.LeaseShard], and tells whether there is anything to do in the
// shard. The leases of a shard that are asked for at about the same time, for
// whatever groups, are taken in one step.
func (r *Ring) BeginShard(ctx context.Context, shard int, group, consumer string, ttl time.Duration) (Begun, error) {
	if err := checkLease(group, consumer, ttl); err != nil {
		return Begun{}, err
	}
	if ahead, err := r.ahead(ctx, shard, group); err != nil || ahead {
		return Begun{After: aheadPause}, err
	}
	b := &beginning{lease: Lease{Shard: shard, Group: group, Consumer: consumer, TTL: ttl}, done: make(chan struct{})}
	r.beginnings.ask(shard, b, r.begin)
	select {
	case <-b.done:
		return b.begun, b.err
	case <-ctx.Done():
		// If it is taken after all it ends by itself, and the same consumer gets it
		// again at any time.
		return Begun{}, ctx.Err()
	}
}

func checkLease(group, consumer string, ttl time.Duration) error {
	if err := errors.Join(checkGroup("lease", group), ValidateReplica(consumer)); err != nil {
		return err
	}
	if ttl < time.Millisecond {
		return fmt.Errorf("%w: lease: ttl: must be at least 1ms, is %v", wire.ErrInput, ttl)
	}
	return nil
}

// begin takes leases of one shard.
func (r *Ring) begin(shard int, all []*beginning) {
	args := make([]any, 0, 3*len(all))
	for _, b := range all {
		args = append(args, b.lease.Group, b.lease.Consumer, b.lease.TTL.Milliseconds())
	}
	k, asked := &r.keys[shard], time.Now()
	reply, err := redis.Values(r.wire.Run(context.Background(), groupBeginScript, shard, []string{k.leases, k.ticketSeq, k.ticketMark, k.messages}, args...))
	if err == nil && len(reply) != 3*len(all) {
		err = fmt.Errorf("begin, shard %d: %w", shard, wire.ErrReply)
	}
	for i, b := range all {
		if b.err = err; err == nil {
			b.err = b.read(asked, reply[3*i:][:3])
		}
		close(b.done)
	}
}

func (b *beginning) read(asked time.Time, values []any) error {
	var left int64
	if _, err := redis.Scan(values, &b.lease.token, &left, &b.begun.End); err != nil {
		return fmt.Errorf("begin, shard %d: %w", b.lease.Shard, err)
	}
	b.begun.Asked, b.begun.After = asked, time.Duration(left)*time.Millisecond
	if b.lease.token != "" {
		b.begun.Lease = &b.lease
	}
	return nil
}
