package circulate

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed group_read.lua
var groupReadLua string

//go:embed group_pending.lua
var groupPendingLua string

//go:embed group_redeliver.lua
var groupRedeliverLua string

var (
	groupReadScript      = newGroupScript("read group", groupReadLua)
	groupPendingScript   = newGroupScript("pending", groupPendingLua)
	groupRedeliverScript = newGroupScript("redeliver", groupRedeliverLua)
)

// MaxRead is the most messages that one ReadGroup or Pending gives.
const MaxRead = 1000

// GroupBatch is what one ReadGroup brought.
type GroupBatch struct {
	Now      time.Time // Redis' clock
	Messages []Found   // in the stream's order
	Others   []string  // positions of what is another group's alone; to be acknowledged unseen
	More     bool      // more may wait
	End      string    // where the stream ends, if that was asked and nothing was read
}

// ReadGroup reads up to n messages of the lease's shard that the group has not
// read, and renews the lease; with n = 0 it does only that. It stops early after
// so many bytes of data, which at most 64 messages exceed.
//
// An unknown outcome may have read messages, which are pending then: see Pending.
func (r *Ring) ReadGroup(ctx context.Context, l *Lease, n, bytes int, end bool) (GroupBatch, error) {
	if n < 0 || n > MaxRead {
		return GroupBatch{}, fmt.Errorf("%w: read group: n: must be 0 to %d, is %d", wire.ErrInput, MaxRead, n)
	}
	askEnd := 0
	if end {
		askEnd = 1
	}
	reply, err := redis.Values(r.withLease(ctx, groupReadScript, l, n, bytes, askEnd))
	if err != nil {
		return GroupBatch{}, err
	}
	batch, err := readGroupBatch(reply, l, 4)
	if err != nil {
		return GroupBatch{}, fmt.Errorf("read group, shard %d: %w", l.Shard, err)
	}
	batch.More = reply[2] == int64(1)
	batch.End, err = redis.String(reply[3], nil)
	return batch, err
}

// Pending is a message that a group was given and has not acknowledged.
type Pending struct {
	Position   string
	Deliveries int // so far
}

// Pending gives up to n messages of the lease's shard that are pending, whoever
// was given them, in the stream's order from after a position.
func (r *Ring) Pending(ctx context.Context, l *Lease, after string, n int) ([]Pending, error) {
	if n < 1 || n > MaxRead {
		return nil, fmt.Errorf("%w: pending: n: must be 1 to %d, is %d", wire.ErrInput, MaxRead, n)
	}
	from, err := ParseStreamID(after)
	if err != nil {
		return nil, fmt.Errorf("%w: pending: %w", wire.ErrInput, err)
	}
	reply, err := redis.Values(r.withLease(ctx, groupPendingScript, l, from.Next().String(), n))
	if err != nil {
		return nil, err
	}
	if err := checkHeld(reply, 2, 2); err != nil {
		return nil, fmt.Errorf("pending, shard %d: %w", l.Shard, err)
	}
	pending := make([]Pending, 0, (len(reply)-2)/2)
	for i := 2; i < len(reply); i += 2 {
		deliveries, err := redis.Int(reply[i+1], nil)
		if err != nil {
			return nil, err
		}
		pending = append(pending, Pending{Position: string(bytesAt(reply, i)), Deliveries: deliveries})
	}
	return pending, nil
}

// Redeliver takes pending messages over, whoever has them, and sets how often
// each was delivered. It gives those that are still pending.
func (r *Ring) Redeliver(ctx context.Context, l *Lease, pending []Pending) (GroupBatch, error) {
	if len(pending) < 1 || len(pending) > MaxRead {
		return GroupBatch{}, fmt.Errorf("%w: redeliver: must be 1 to %d messages, are %d", wire.ErrInput, MaxRead, len(pending))
	}
	args := make([]any, 0, 2*len(pending))
	for _, p := range pending {
		args = append(args, p.Position, p.Deliveries)
	}
	reply, err := redis.Values(r.withLease(ctx, groupRedeliverScript, l, args...))
	if err != nil {
		return GroupBatch{}, err
	}
	batch, err := readGroupBatch(reply, l, 2)
	if err != nil {
		return GroupBatch{}, fmt.Errorf("redeliver, shard %d: %w", l.Shard, err)
	}
	return batch, nil
}

// groupColumns are the values that scripts reply for each message.
const groupColumns = 8

// checkHeld checks a reply of now, whether the lease is held, more of a head, and
// columns of values.
func checkHeld(reply []any, head, columns int) error {
	if len(reply) < head || (len(reply)-head)%columns != 0 {
		return wire.ErrReply
	}
	if reply[1] == int64(0) {
		return ErrLeaseLost
	}
	return nil
}

func readGroupBatch(reply []any, l *Lease, head int) (GroupBatch, error) {
	if err := checkHeld(reply, head, groupColumns); err != nil {
		return GroupBatch{}, err
	}
	now, ok := reply[0].(int64)
	if !ok {
		return GroupBatch{}, wire.ErrReply
	}
	batch := GroupBatch{Now: time.UnixMilli(now)}
	if len(reply) > head {
		batch.Messages = make([]Found, 0, (len(reply)-head)/groupColumns)
	}
	for i := head; i < len(reply); i += groupColumns {
		f := Found{
			Shard: l.Shard, Position: string(bytesAt(reply, i)),
			Account: string(bytesAt(reply, i+1)), Kind: string(bytesAt(reply, i+2)),
			Message: Message{ID: string(bytesAt(reply, i+3)), Type: string(bytesAt(reply, i+4))},
		}
		if only := bytesAt(reply, i+7); len(only) > 0 && string(only) != l.Group {
			batch.Others = append(batch.Others, f.Position)
			continue
		}
		f.Message.Time, _ = time.Parse(time.RFC3339Nano, string(bytesAt(reply, i+5)))
		if data := bytesAt(reply, i+6); len(data) > 0 {
			f.Message.Data = json.RawMessage(data)
		}
		batch.Messages = append(batch.Messages, f)
	}
	return batch, nil
}
