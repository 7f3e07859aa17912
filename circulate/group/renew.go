package group

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed renew.lua
var renewLua string

// renewScript is vital, like heartbeats: a lease that is not renewed in time is lost, and
// what was being handled is delivered again.
var renewScript = wire.NewGroupScript("renew", renewLua).Vitally()

// Renewed is what a renewal tells of a group in a shard.
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

// Renew renews a lease that its holder does not read with just now. Renewals of leases of one shard at about the same time,
// of any groups, are done in one step. So the cost does not grow with the number of
// groups.
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
