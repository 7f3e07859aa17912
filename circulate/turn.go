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

// turnDepth is how many entries of each lane are looked through for one
// account. What stands further back is not worth what a longer look would cost
// the replicas.
const turnDepth = 5000

//go:embed turn.lua
var turnLua string

var turnScript = wire.NewScript("turn", turnLua)

// Turn is what a due account waits behind, and what its cadence keeps.
type Turn struct {
	Urgent, Normal, Low int // entries in the lanes of its shard, void ones among them

	Lane  Priority  // that the account waits in; zero: it waits in none, or too far behind
	Since time.Time // when it became due; zero as Lane
	Ahead int       // of its lane, those that are taken before it

	State string // what its cadence keeps, whether it waits or not
}

// Turn looks for the account in the lanes of message_queue, at one moment.
func (a Account) Turn(ctx context.Context) (Turn, error) {
	var turn Turn
	err := a.ring.whereverIs(ctx, a.id, func(ctx context.Context, shard int) (err error) {
		turn, err = a.ring.turnIn(ctx, shard, a.id)
		return err
	})
	if errors.Is(err, ErrNotRegistered) {
		err = nil
	}
	return turn, err
}

// turnIn is Turn in this very shard. Of an account that it has not got it gives
// ErrNotRegistered.
func (r *Ring) turnIn(ctx context.Context, shard int, id string) (Turn, error) {
	k := &r.keys[shard]
	results, err := redis.Values(r.wire.Run(ctx, turnScript, shard,
		[]string{k.tickets, k.states, k.urgent, k.queue, k.low}, id, turnDepth))
	if err != nil {
		return Turn{}, err
	}
	var w Turn
	var registered bool
	var lane, ahead int
	var text string
	if _, err := redis.Scan(results, &registered, &w.State, &w.Urgent, &w.Normal, &w.Low, &lane, &text, &ahead); err != nil {
		return Turn{}, fmt.Errorf("turn, shard %d: %w: %w", shard, wire.ErrReply, err)
	}
	if lane > 0 {
		entry, err := ParseEntry(text)
		if err != nil || lane > 3 {
			return Turn{}, fmt.Errorf("turn, shard %d: %w", shard, wire.ErrReply)
		}
		w.Lane, w.Since, w.Ahead = [...]Priority{Urgent, Normal, Low}[lane-1], entry.Stamp, ahead
	}
	if !registered {
		return w, ErrNotRegistered // and it waits nowhere
	}
	return w, nil
}
