package circulate

import (
	"context"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Leftover is what is left in a shard that accounts leave.
type Leftover struct {
	Accounts int // that have not departed
	Transit  int // batches of accounts on their way
	Kept     int // batches that have arrived, and are not yet confirmed

	Records int  // of accounts; more than accounts where a ticket was lost, which an audit repairs
	Marked  bool // it is being left: who is not there any more will not come back
}

func (l Leftover) none() bool { return l.Marked && l.Accounts+l.Transit+l.Kept+l.Records == 0 }

// Remaining tells what is left in an old shard.
func (m Mover) Remaining(ctx context.Context, source int) (Leftover, error) {
	k := &m.ring.keys[source]
	// In this order: what the mark keeps out is counted after it was seen, and an
	// account that goes on meanwhile is met further on.
	results, err := m.ring.wire.PipelineOn(ctx, wire.Ordinary, source, k.tickets, wire.Command{"EXISTS", k.leaving}, wire.Command{"HLEN", k.tickets}, wire.Command{"HLEN", k.departures},
		wire.Command{"HLEN", k.departed}, wire.Command{"HLEN", k.accounts})
	if err != nil {
		return Leftover{}, fmt.Errorf("left, shard %d: %w", source, err)
	}
	var l Leftover
	var leaving int
	for i, into := range []*int{&leaving, &l.Accounts, &l.Transit, &l.Kept, &l.Records} {
		if *into, err = redis.Int(results[i], nil); err != nil {
			return Leftover{}, fmt.Errorf("left, shard %d: %w", source, err)
		}
	}
	l.Marked = leaving == 1
	return l, nil
}
