package group

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed lease.lua
var leaseLua string

//go:embed release.lua
var releaseLua string

//go:embed forget.lua
var forgetLua string

var (
	leaseScript   = wire.NewGroupScript("lease", leaseLua)
	releaseScript = wire.NewGroupScript("release lease", releaseLua)
	forgetScript  = wire.NewGroupScript("forget consumers", forgetLua)
)

// Lease is the exclusive right of a consumer to read a shard for its group. It is valid
// for TTL after the last successful step with it. A later step with it does no harm, and
// succeeds unless another consumer has the lease meanwhile.
type Lease struct {
	Shard    int
	Group    string
	Consumer string
	TTL      time.Duration

	token string
}

// Token is the lease's fencing token. No two leases ever have the same, and a later lease
// of the shard has a greater one.
func (l *Lease) Token() string { return l.token }

// Lease takes the lease of a shard for the consumer. If another consumer has it, lease is
// nil, and after is how long that lease may last at most if it is not renewed. The same
// holds for a new shard while the group has not handled messages of its accounts in old
// shards, so that an account's messages keep their order.
func (m Member) Lease(ctx context.Context, shard int) (lease *Lease, after time.Duration, err error) {
	if err := m.checkLease(); err != nil {
		return nil, 0, err
	}
	g := m.groups
	if pause, err := g.streams.Ahead(ctx, shard, m.group); err != nil || pause > 0 {
		return nil, pause, err
	}
	k := g.streams.Keys(shard)
	reply, err := redis.Values(g.wire.Run(ctx, leaseScript, shard, []string{k.Leases, k.Tickets[0], k.Tickets[1]}, m.group, m.consumer, m.ttl.Milliseconds()))
	if err != nil {
		return nil, 0, err
	}
	if len(reply) == 3 {
		ms, err := redis.Int64(reply[1], nil)
		return nil, time.Duration(ms) * time.Millisecond, err
	}
	if len(reply) != 1 {
		return nil, 0, fmt.Errorf("lease, shard %d: %w", shard, wire.ErrReply)
	}
	l := m.leaseOf(shard)
	if l.token, err = redis.String(reply[0], nil); err != nil {
		return nil, 0, fmt.Errorf("lease, shard %d: %w", shard, err)
	}
	return &l, 0, nil
}

// leaseOf returns the consumer's lease of a shard, without its token.
func (m Member) leaseOf(shard int) Lease {
	return Lease{Shard: shard, Group: m.group, Consumer: m.consumer, TTL: m.ttl}
}

// Release returns a lease, so that another consumer can have it at once. It reports
// whether it was still held. It also removes the consumer's name from the group, if
// nothing is pending under it.
func (g *Groups) Release(ctx context.Context, l *Lease) (bool, error) {
	k := g.streams.Keys(l.Shard)
	return redis.Bool(g.wire.Run(ctx, releaseScript, l.Shard, []string{k.Leases, k.Messages}, l.Group, l.Consumer, l.token))
}

// Forget removes the names of a group's other consumers in the lease's shard, and returns
// how many. It keeps names under which something is pending.
func (g *Groups) Forget(ctx context.Context, l *Lease) (int, error) {
	reply, err := redis.Ints(g.withLease(ctx, forgetScript, l))
	if err != nil {
		return 0, err
	}
	switch {
	case len(reply) != 2:
		return 0, fmt.Errorf("forget consumers, shard %d: %w", l.Shard, wire.ErrReply)
	case reply[0] == 0:
		return 0, ErrLeaseLost
	}
	return reply[1], nil
}

// withLease does a step whose keys are the leases and the stream.
func (g *Groups) withLease(ctx context.Context, s *wire.Script, l *Lease, args ...any) (any, error) {
	k := g.streams.Keys(l.Shard)
	full := append([]any{l.Group, l.Consumer, l.token, l.TTL.Milliseconds()}, args...)
	reply, err := g.wire.Run(ctx, s, l.Shard, []string{k.Leases, k.Messages}, full...)
	return reply, noGroup(err)
}
