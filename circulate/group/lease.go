package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	leaseScript   = wire.NewGroupScript("lease", lua("lease"))
	releaseScript = wire.NewGroupScript("release lease", lua("release"))
	forgetScript  = wire.NewGroupScript("forget consumers", lua("forget"))
)

// Lease is the exclusive right of a consumer to read a shard for its group. It is valid
// for TTL after the last successful step with it. A later step does no harm, and succeeds
// unless another consumer has taken the lease.
type Lease struct {
	Shard    int
	Group    string
	Consumer string
	TTL      time.Duration

	token string
}

// Token is the lease's fencing token. No two leases ever have the same token, and a later
// lease of the shard has a greater one.
func (l *Lease) Token() string { return l.token }

// Lease takes the lease of a shard for the consumer. If another consumer has it, lease is
// nil, and after is how long that lease may last at most if it is not renewed. Lease is
// also nil for a new shard while the group has not handled the earlier messages of its
// accounts in old shards, so that an account's messages stay in order.
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

// Release gives up a lease, so that another consumer can have it at once. It reports
// whether the lease was still valid. It also removes the consumer's name from the group,
// if nothing is pending under it.
func (g *Groups) Release(ctx context.Context, l *Lease) (bool, error) {
	k := g.streams.Keys(l.Shard)
	return redis.Bool(g.wire.Run(ctx, releaseScript, l.Shard, []string{k.Leases, k.Messages}, l.Group, l.Consumer, l.token))
}

// Forget removes the names of a group's other consumers in the lease's shard, and returns
// how many. Names with pending messages stay.
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

// renewScript is vital, like heartbeats: a lease that is not renewed in time is lost, and
// messages under way are delivered again.
var renewScript = wire.NewGroupScript("renew", lua("renew")).Vitally()

// Renewed is what a renewal reports about a group in a shard.
type Renewed struct {
	Behind  bool // there may be something to read
	Pending int  // how many messages are delivered and not acknowledged
}

// Renew renews a lease that its consumer is not reading with just now. Renewals of one
// shard's leases at about the same time, of any groups, are done in one step. So the cost
// does not grow with the number of groups.
func (g *Groups) Renew(ctx context.Context, l *Lease) (Renewed, error) {
	return g.renewals.ask(ctx, l.Shard, l, g.renew)
}

// renew renews leases of one shard.
func (g *Groups) renew(shard int, all []*asked[*Lease, Renewed]) {
	args := make([]any, 0, 4*len(all))
	for _, n := range all {
		l := n.question
		args = append(args, l.Group, l.Consumer, l.token, l.TTL.Milliseconds())
	}
	k := g.streams.Keys(shard)
	reply, err := redis.Values(g.wire.Run(context.Background(), renewScript, shard, []string{k.Leases, k.Messages}, args...))
	var verdict []byte
	var pending []int
	if err == nil {
		var first error
		if len(reply) > 0 {
			verdict, first = redis.Bytes(reply[0], nil)
			pending, err = redis.Ints(reply[1:], nil)
		}
		if err != nil || first != nil || len(verdict) != len(all) || len(pending) != len(all) {
			err = fmt.Errorf("renew, shard %d: %w", shard, wire.ErrReply)
		}
	}
	for i, n := range all {
		switch {
		case err != nil:
			n.err = err
		case verdict[i] == '0':
			n.err = ErrLeaseLost
		default:
			n.answer = Renewed{Behind: verdict[i] == '2', Pending: pending[i]}
		}
	}
}

var beginScript = wire.NewGroupScript("begin", lua("begin"))

// Begun is the result of asking for a shard's lease.
type Begun struct {
	Lease *Lease        // nil: another consumer has it
	After time.Duration // how long that consumer has it at most, if it is not renewed
	Asked time.Time     // when Redis was asked

	// End is the last position that the group has read, if it has nothing unread or
	// pending in the shard, and no consumer's name. Otherwise it is empty.
	End string
}

// Begin leases as [Member.Lease] does, and also returns whether there is anything to do in the
// shard.
// Requests for leases of one shard at about the same time, of any groups, are done in one
// step.
func (m Member) Begin(ctx context.Context, shard int) (Begun, error) {
	if err := m.checkLease(); err != nil {
		return Begun{}, err
	}
	if pause, err := m.groups.streams.Ahead(ctx, shard, m.group); err != nil || pause > 0 {
		return Begun{After: pause}, err
	}
	return m.groups.beginnings.ask(ctx, shard, m.leaseOf(shard), m.groups.begin)
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
func (g *Groups) begin(shard int, all []*asked[Lease, Begun]) {
	args := make([]any, 0, 3*len(all))
	for _, b := range all {
		l := &b.question
		args = append(args, l.Group, l.Consumer, l.TTL.Milliseconds())
	}
	k, now := g.streams.Keys(shard), time.Now()
	reply, err := redis.Values(g.wire.Run(context.Background(), beginScript, shard, []string{k.Leases, k.Tickets[0], k.Tickets[1], k.Messages}, args...))
	if err == nil && len(reply) != 3*len(all) {
		err = fmt.Errorf("begin, shard %d: %w", shard, wire.ErrReply)
	}
	for i, b := range all {
		if b.err = err; err == nil {
			b.err = readBegun(b, now, reply[3*i:][:3])
		}
	}
}

func readBegun(b *asked[Lease, Begun], now time.Time, values []any) error {
	var left int64
	if _, err := redis.Scan(values, &b.question.token, &left, &b.answer.End); err != nil {
		return fmt.Errorf("begin, shard %d: %w", b.question.Shard, err)
	}
	b.answer.Asked, b.answer.After = now, time.Duration(left)*time.Millisecond
	if b.question.token != "" {
		b.answer.Lease = &b.question
	}
	return nil
}
