package group

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed begin.lua
var beginLua string

var beginScript = wire.NewGroupScript("begin", beginLua)

// Begun is the result of asking for a shard's lease.
type Begun struct {
	Lease *Lease        // nil: another consumer has it
	After time.Duration // how long that one has it at most, if it is not renewed
	Asked time.Time     // when Redis was asked

	// End is the last position that the group has read, if it has nothing to read in the
	// shard, nothing pending, and no name of a consumer. Otherwise it is empty.
	End string
}

// beginning is a requested lease and its result.
type beginning struct {
	lease Lease
	begun Begun
	err   error
	done  chan struct{}
}

// Begin is [Member.Lease], and also returns whether there is anything to do in the shard.
// Requests for leases of one shard at about the same time, of any groups, are done in one
// step.
func (m Member) Begin(ctx context.Context, shard int) (Begun, error) {
	if err := m.checkLease(); err != nil {
		return Begun{}, err
	}
	if pause, err := m.groups.streams.Ahead(ctx, shard, m.group); err != nil || pause > 0 {
		return Begun{After: pause}, err
	}
	b := &beginning{lease: m.leaseOf(shard), done: make(chan struct{})}
	m.groups.beginnings.ask(shard, b, m.groups.begin)
	select {
	case <-b.done:
		return b.begun, b.err
	case <-ctx.Done():
		// If it is taken after all, it ends by itself, and the same consumer gets it
		// again at any time.
		return Begun{}, ctx.Err()
	}
}

func (m Member) checkLease() error {
	if err := errors.Join(wire.CheckGroup("lease", m.group), circulate.ValidateReplica(m.consumer)); err != nil {
		return err
	}
	if m.ttl < time.Millisecond {
		return fmt.Errorf("%w: lease: ttl: must be at least 1ms, is %v", wire.ErrInput, m.ttl)
	}
	return nil
}

// begin takes leases of one shard.
func (g *Groups) begin(shard int, all []*beginning) {
	args := make([]any, 0, 3*len(all))
	for _, b := range all {
		args = append(args, b.lease.Group, b.lease.Consumer, b.lease.TTL.Milliseconds())
	}
	k, asked := g.streams.Keys(shard), time.Now()
	reply, err := redis.Values(g.wire.Run(context.Background(), beginScript, shard, []string{k.Leases, k.Tickets[0], k.Tickets[1], k.Messages}, args...))
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
