package circulate

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed group_lease.lua
var groupLeaseLua string

//go:embed group_release.lua
var groupReleaseLua string

//go:embed group_forget.lua
var groupForgetLua string

var (
	groupLeaseScript   = newGroupScript("lease", groupLeaseLua)
	groupReleaseScript = newGroupScript("release lease", groupReleaseLua)
	groupForgetScript  = newGroupScript("forget consumers", groupForgetLua)
)

// Lease is a shard that a consumer reads for its group, alone. It lives for TTL
// after the last step with it that succeeded; nobody is hurt by a step that comes
// later, unless somebody else has got the lease meanwhile.
type Lease struct {
	Shard    int
	Group    string
	Consumer string
	TTL      time.Duration

	token string
}

// Token is the lease's fencing token: no two leases ever have the same, and a
// later lease of the shard has a greater one.
func (l *Lease) Token() string { return l.token }

// LeaseShard takes the lease of a shard for a consumer. Where another one has it,
// lease is nil, and after tells how long it may last at most if it is not renewed. So
// it is with a new shard whose accounts have messages in old ones that the group has
// not dealt with: an account's messages keep their order.
func (r *Ring) LeaseShard(ctx context.Context, shard int, group, consumer string, ttl time.Duration) (lease *Lease, after time.Duration, err error) {
	if err := checkLease(group, consumer, ttl); err != nil {
		return nil, 0, err
	}
	if ahead, err := r.ahead(ctx, shard, group); err != nil || ahead {
		return nil, aheadPause, err
	}
	k := &r.keys[shard]
	reply, err := redis.Values(r.wire.Run(ctx, groupLeaseScript, shard, []string{k.leases, k.ticketSeq, k.ticketMark}, group, consumer, ttl.Milliseconds()))
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
	token, err := redis.String(reply[0], nil)
	if err != nil {
		return nil, 0, fmt.Errorf("lease, shard %d: %w", shard, err)
	}
	return &Lease{Shard: shard, Group: group, Consumer: consumer, TTL: ttl, token: token}, 0, nil
}

// ReleaseLease gives a lease back, so that another consumer may have it at once.
// It reports whether it was still held. The consumer's name goes from the group
// with it, if nothing is pending under it.
func (r *Ring) ReleaseLease(ctx context.Context, l *Lease) (bool, error) {
	k := &r.keys[l.Shard]
	return redis.Bool(r.wire.Run(ctx, groupReleaseScript, l.Shard, []string{k.leases, k.messages}, l.Group, l.Consumer, l.token))
}

// ForgetConsumers removes the names of a group's other consumers in the lease's
// shard, and reports how many. It leaves those that something is pending under.
func (r *Ring) ForgetConsumers(ctx context.Context, l *Lease) (int, error) {
	reply, err := redis.Ints(r.withLease(ctx, groupForgetScript, l))
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
func (r *Ring) withLease(ctx context.Context, s *wire.Script, l *Lease, args ...any) (any, error) {
	k := &r.keys[l.Shard]
	full := append([]any{l.Group, l.Consumer, l.token, l.TTL.Milliseconds()}, args...)
	reply, err := r.wire.Run(ctx, s, l.Shard, []string{k.leases, k.messages}, full...)
	return reply, noGroup(err)
}
