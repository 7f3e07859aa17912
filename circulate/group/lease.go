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

// renewal is a requested renewal of a lease and its result.
type renewal struct {
	lease   *Lease
	renewed Renewed
	err     error
	done    chan struct{}
}

// Renew renews a lease that its consumer is not reading with just now. Renewals of one
// shard's leases at about the same time, of any groups, are done in one step. So the cost
// does not grow with the number of groups.
func (g *Groups) Renew(ctx context.Context, l *Lease) (Renewed, error) {
	n := &renewal{lease: l, done: make(chan struct{})}
	g.renewals.ask(l.Shard, n, g.renew)
	select {
	case <-n.done:
		return n.renewed, n.err
	case <-ctx.Done():
		return Renewed{}, ctx.Err()
	}
}

// renew renews leases of one shard.
func (g *Groups) renew(shard int, all []*renewal) {
	args := make([]any, 0, 4*len(all))
	for _, n := range all {
		args = append(args, n.lease.Group, n.lease.Consumer, n.lease.token, n.lease.TTL.Milliseconds())
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
			n.renewed = Renewed{Behind: verdict[i] == '2', Pending: pending[i]}
		}
		close(n.done)
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
		// If the lease is taken after all, it ends by itself, and the same consumer can
		// take it again at any time.
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
