package circulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// turnDepth is how many entries of each lane are looked through for one
// account. What stands further back is not worth what a longer look would cost
// the replicas.
const turnDepth = 5000

// Turn is what a due account waits behind, and what its cadence keeps.
type Turn struct {
	Urgent, Normal, Low int // entries in the lanes of its shard, void ones among them

	Lane  Priority  // that the account waits in; zero: it waits in none, or too far behind
	Since time.Time // when it became due; zero as Lane
	Ahead int       // of its lane, those that are taken before it

	State string // what its cadence keeps, whether it waits or not
}

// Turn looks for one account in the lanes of message_queue, at one moment.
func (r *Ring) Turn(ctx context.Context, id string) (Turn, error) {
	var turn Turn
	err := r.whereverIs(ctx, id, func(ctx context.Context, shard int) (err error) {
		turn, err = r.turnIn(ctx, shard, id)
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
	results, err := transact(ctx, r.server, k.queue,
		command{"HGET", k.tickets, id}, command{"HGET", k.states, id},
		command{"LLEN", k.urgent}, command{"LLEN", k.queue}, command{"LLEN", k.low},
		command{"LRANGE", k.urgent, -turnDepth, -1},
		command{"LRANGE", k.queue, -turnDepth, -1},
		command{"LRANGE", k.low, -turnDepth, -1})
	if err != nil {
		return Turn{}, fmt.Errorf("turn, shard %d: %w", shard, err)
	}
	var w Turn
	ticket, none := redis.String(results[0], nil)
	w.State, _ = redis.String(results[1], nil) // none: there is none
	for i, length := range []*int{&w.Urgent, &w.Normal, &w.Low} {
		if *length, err = redis.Int(results[2+i], nil); err != nil {
			return Turn{}, fmt.Errorf("turn, shard %d: %w", shard, err)
		}
	}
	for i, lane := range []Priority{Urgent, Normal, Low} {
		entries, err := redis.Strings(results[5+i], nil)
		if err != nil {
			return Turn{}, fmt.Errorf("turn, shard %d: %w", shard, err)
		}
		for ahead := range entries {
			entry, err := ParseEntry(entries[len(entries)-1-ahead])
			if err == nil && entry.ID == id && strings.HasPrefix(ticket, entries[len(entries)-1-ahead][:ticketWidth]) {
				w.Lane, w.Since, w.Ahead = lane, entry.Stamp, ahead
				return w, nil
			}
		}
	}
	if none != nil {
		return w, ErrNotRegistered // and it waits nowhere
	}
	return w, nil
}
