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

// queueDepth is how many entries of each lane are searched for one account. A deeper
// search would cost the replicas more than it is worth.
const queueDepth = 5000

//go:embed turn.lua
var turnLua string

var turnScript = wire.NewScript("turn", byKindLua, turnLua)

// QueuePosition is what a due account waits behind, and what its cadence keeps.
type QueuePosition struct {
	Urgent, Normal, Low int // entries in the lanes of its shard, including void ones

	Lane  Priority  // the lane that the account waits in; zero: it waits in none, or too far back
	Since time.Time // when it became due; zero if Lane is
	Ahead int       // entries of its lane that are claimed before it

	Kind string // that it waits by, for a replica that checks it; then Ahead is of those of its kind

	State string // what its cadence keeps, whether it waits or not
}

// QueuePosition searches the lanes of message_queue for the account, at one moment.
func (a Account) QueuePosition(ctx context.Context) (QueuePosition, error) {
	var position QueuePosition
	err := a.ring.whereverIs(ctx, a.id, func(ctx context.Context, shard int) (err error) {
		position, err = a.ring.queuePositionIn(ctx, shard, a.id)
		return err
	})
	if errors.Is(err, ErrNotRegistered) {
		err = nil
	}
	return position, err
}

// queuePositionIn is QueuePosition in exactly this shard. It returns ErrNotRegistered if
// the shard does not have the account.
func (r *Ring) queuePositionIn(ctx context.Context, shard int, id string) (QueuePosition, error) {
	k := &r.keys[shard]
	results, err := redis.Values(r.wire.Run(ctx, turnScript, shard,
		[]string{k.tickets, k.states, k.urgent, k.queue, k.low, k.byKind}, id, queueDepth))
	if err != nil {
		return QueuePosition{}, err
	}
	var w QueuePosition
	var registered bool
	var lane, ahead int
	var text string
	if _, err := redis.Scan(results, &registered, &w.State, &w.Urgent, &w.Normal, &w.Low, &lane, &text, &ahead, &w.Kind); err != nil {
		return QueuePosition{}, fmt.Errorf("turn, shard %d: %w: %w", shard, wire.ErrReply, err)
	}
	if lane > 0 {
		entry, err := ParseEntry(text)
		if err != nil || lane > 4 {
			return QueuePosition{}, fmt.Errorf("turn, shard %d: %w", shard, wire.ErrReply)
		}
		w.Lane, w.Since, w.Ahead = [...]Priority{Urgent, Normal, Low, Normal}[lane-1], entry.Stamp, ahead
	}
	if !registered {
		return w, ErrNotRegistered // so it waits nowhere
	}
	return w, nil
}
