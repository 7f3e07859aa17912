package group

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	readScript      = wire.NewGroupScript("read group", lua("read"))
	pendingScript   = wire.NewGroupScript("pending", lua("pending"))
	redeliverScript = wire.NewGroupScript("redeliver", lua("redeliver"))
)

// MaxRead is the most messages that one Read or Pending returns.
const MaxRead = 1000

// Batch is the result of one Read.
type Batch struct {
	Now      time.Time         // Redis' clock
	Messages []circulate.Found // in the stream's order
	Others   []string          // positions of messages for another group only; acknowledge them without handling
	More     bool              // more may wait
	End      string            // the end of the stream, if it was asked for and nothing was read
}

// Read reads up to n messages of the lease's shard that the group has not read, and
// renews the lease; with n = 0 it only renews. It stops early when the messages have the
// given bytes of data, which it checks after every 64 messages. If end is set and there is
// nothing to read, the batch says where the stream ends.
//
// After an unknown outcome messages may have been read, and are then pending: see
// Pending.
func (g *Groups) Read(ctx context.Context, l *Lease, n, bytes int, end bool) (Batch, error) {
	if n < 0 || n > MaxRead {
		return Batch{}, fmt.Errorf("%w: read group: n: must be 0 to %d, is %d", wire.ErrInput, MaxRead, n)
	}
	reply, err := redis.Values(g.withLease(ctx, readScript, l, n, bytes, wire.Flag(end)))
	if err != nil {
		return Batch{}, err
	}
	batch, err := readBatch(reply, l, 4)
	if err != nil {
		return Batch{}, fmt.Errorf("read group, shard %d: %w", l.Shard, err)
	}
	batch.More = reply[2] == int64(1)
	batch.End, err = redis.String(reply[3], nil)
	return batch, err
}

// Pending is a message that a group has read and not acknowledged.
type Pending struct {
	Position   string
	Deliveries int // so far
}

// Pending returns up to n pending messages of the lease's shard, in the stream's order
// after a position, whichever consumer read them.
func (g *Groups) Pending(ctx context.Context, l *Lease, after string, n int) ([]Pending, error) {
	if n < 1 || n > MaxRead {
		return nil, fmt.Errorf("%w: pending: n: must be 1 to %d, is %d", wire.ErrInput, MaxRead, n)
	}
	from, err := circulate.ParseStreamID(after)
	if err != nil {
		return nil, fmt.Errorf("%w: pending: %w", wire.ErrInput, err)
	}
	reply, err := redis.Values(g.withLease(ctx, pendingScript, l, from.Next().String(), n))
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
		pending = append(pending, Pending{Position: string(wire.BytesAt(reply, i)), Deliveries: deliveries})
	}
	return pending, nil
}

// Redeliver takes over pending messages from any consumer, and sets how often each was
// delivered. It returns the messages that are still pending, and how many it went
// through: it stops after that many bytes of data, which one message may exceed. With
// bytes = 0 it sets all counts and returns no message.
func (g *Groups) Redeliver(ctx context.Context, l *Lease, pending []Pending, bytes int) (batch Batch, came int, err error) {
	if len(pending) < 1 || len(pending) > MaxRead {
		return Batch{}, 0, fmt.Errorf("%w: redeliver: must be 1 to %d messages, are %d", wire.ErrInput, MaxRead, len(pending))
	}
	args := append(make([]any, 0, 1+2*len(pending)), bytes)
	for _, p := range pending {
		args = append(args, p.Position, p.Deliveries)
	}
	reply, err := redis.Values(g.withLease(ctx, redeliverScript, l, args...))
	if err != nil {
		return Batch{}, 0, err
	}
	if batch, err = readBatch(reply, l, 3); err == nil {
		came, err = redis.Int(reply[2], nil)
	}
	if err != nil {
		return Batch{}, 0, fmt.Errorf("redeliver, shard %d: %w", l.Shard, err)
	}
	return batch, came, nil
}

// groupColumns is how many values scripts reply for each message.
const groupColumns = 8

// checkHeld checks a reply: the time, whether the lease is valid, further values of a
// head, and columns of values.
func checkHeld(reply []any, head, columns int) error {
	if len(reply) < head || (len(reply)-head)%columns != 0 {
		return wire.ErrReply
	}
	if reply[1] == int64(0) {
		return ErrLeaseLost
	}
	return nil
}

func readBatch(reply []any, l *Lease, head int) (Batch, error) {
	if err := checkHeld(reply, head, groupColumns); err != nil {
		return Batch{}, err
	}
	now, ok := reply[0].(int64)
	if !ok {
		return Batch{}, wire.ErrReply
	}
	batch := Batch{Now: time.UnixMilli(now)}
	if len(reply) > head {
		batch.Messages = make([]circulate.Found, 0, (len(reply)-head)/groupColumns)
	}
	for i := head; i < len(reply); i += groupColumns {
		f := circulate.Found{
			Shard: l.Shard, Position: string(wire.BytesAt(reply, i)),
			Account: string(wire.BytesAt(reply, i+1)), Kind: string(wire.BytesAt(reply, i+2)),
			Message: circulate.Message{ID: string(wire.BytesAt(reply, i+3)), Type: string(wire.BytesAt(reply, i+4))},
		}
		of, trace, _ := strings.Cut(string(wire.BytesAt(reply, i+7)), "\n")
		only, event := strings.CutSuffix(of, "\t")
		if f.Only, f.Event, f.Trace = only, event, trace; only != "" && only != l.Group {
			batch.Others = append(batch.Others, f.Position)
			continue
		}
		f.Message.Time, _ = time.Parse(time.RFC3339Nano, string(wire.BytesAt(reply, i+5)))
		if data := wire.BytesAt(reply, i+6); len(data) > 0 {
			f.Message.Data = json.RawMessage(data)
		}
		batch.Messages = append(batch.Messages, f)
	}
	return batch, nil
}

const (
	pollPauseMin = 5 * time.Millisecond
	pollPauseMax = 100 * time.Millisecond
)

// pollMessages waits as await does, on a node of a cluster. There one command concerns one
// slot and so one shard, and a blocked connection for each shard would be too many. So it
// looks at all shards together, again and again.
func (g *Groups) pollMessages(ctx context.Context, shards []int, after map[int]string, block time.Duration) ([]arrival, error) {
	deadline := time.Now().Add(block)
	for pause := pollPauseMin; ; pause = min(2*pause, pollPauseMax) {
		ready, err := g.readyShards(ctx, shards, after)
		if err != nil {
			return nil, fmt.Errorf("await messages: %w", err)
		}
		left := time.Until(deadline)
		if len(ready) > 0 || left <= 0 {
			return ready, nil
		}
		timer := time.NewTimer(min(pause, left))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
}

// readyShards returns the first message of each shard that has one. A shard that another
// node now serves counts as one of them, so that the caller goes there.
func (g *Groups) readyShards(ctx context.Context, shards []int, after map[int]string) ([]arrival, error) {
	key, began := g.streams.Keys(shards[0]).Messages, time.Now()
	conn, err := g.wire.Lend(ctx, key, wire.Blocking)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	timeout, err := wire.Remaining(ctx)
	if err != nil {
		return nil, err
	}
	for _, shard := range shards {
		if err := conn.Send("XREAD", "COUNT", 1, "STREAMS", g.streams.Keys(shard).Messages, after[shard]); err != nil {
			return nil, err
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(timeout)
	var ready []arrival
	var failed error
	for _, shard := range shards {
		reply, err := redis.ReceiveWithTimeout(conn, max(time.Nanosecond, time.Until(deadline)))
		switch {
		case err != nil && !wire.Replied(err):
			g.wire.Note(key, began, err)
			return nil, err
		case wire.HasMoved(err):
			ready = append(ready, arrival{shard: shard})
		case err == nil && reply != nil:
			first, err := firstPositions(reply)
			if err != nil {
				return nil, err
			}
			ready = append(ready, arrival{shard, first[g.streams.Keys(shard).Messages]})
		case err != nil && !wire.Redirected(err):
			failed = err
		}
	}
	g.wire.Note(key, began, failed)
	if len(ready) > 0 {
		return ready, nil
	}
	return nil, failed
}

// awaitMargin is how much longer than a block its reply may take.
const awaitMargin = 2 * time.Second

// Await waits until some shard has a message after the position given for it, but no
// longer than block, and returns the shards that have one. All shards must be on one
// node. It delivers nothing and acknowledges nothing; read the messages with
// [Groups.Read]. Meanwhile it occupies a connection for blocking calls. See
// [Groups.Watch] for a wait that many share.
//
// A blocking XREADGROUP would save a step, but would deliver messages even after the
// caller's lease is lost, or into a dead connection.
func (g *Groups) Await(ctx context.Context, after map[int]string, block time.Duration) ([]int, error) {
	arrived, err := g.await(ctx, after, block)
	var ready []int
	for _, a := range arrived {
		ready = append(ready, a.shard)
	}
	return ready, err
}

// arrival is the first message of a shard after a position. An arrival without a position
// means that another node serves the shard, which may have a message.
type arrival struct {
	shard    int
	position string
}

// await waits as Await does, and returns the first message of each shard that has one.
func (g *Groups) await(ctx context.Context, after map[int]string, block time.Duration) ([]arrival, error) {
	if len(after) == 0 || block < time.Millisecond {
		return nil, fmt.Errorf("%w: await messages: needs a shard and at least 1ms", wire.ErrInput)
	}
	shards := slices.Sorted(maps.Keys(after))
	if len(shards) > 1 && g.ring.Node(shards[0]) != "" {
		return g.pollMessages(ctx, shards, after, block)
	}
	args := append(make([]any, 0, 5+2*len(shards)), "COUNT", 1, "BLOCK", block.Milliseconds(), "STREAMS")
	for _, shard := range shards {
		args = append(args, g.streams.Keys(shard).Messages)
	}
	for _, shard := range shards {
		args = append(args, after[shard])
	}
	began := time.Now()
	conn, err := g.wire.Lend(ctx, g.streams.Keys(shards[0]).Messages, wire.Blocking)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	streams, err := redis.Values(redis.DoWithTimeout(conn, block+awaitMargin, "XREAD", args...))
	if errors.Is(err, redis.ErrNil) {
		return nil, nil
	}
	g.wire.Note(g.streams.Keys(shards[0]).Messages, began, err)
	if err != nil {
		return nil, fmt.Errorf("await messages: %w", err)
	}
	first, err := firstPositions(streams)
	if err != nil {
		return nil, err
	}
	arrived := make([]arrival, 0, len(first))
	for _, shard := range shards {
		if position, ok := first[g.streams.Keys(shard).Messages]; ok {
			arrived = append(arrived, arrival{shard, position})
		}
	}
	return arrived, nil
}

// firstPositions returns the position of the first entry of each stream in XREAD's reply, by
// the stream's key.
func firstPositions(reply any) (map[string]string, error) {
	streams, err := redis.Values(reply, nil)
	if err != nil {
		return nil, wire.ErrReply
	}
	first := make(map[string]string, len(streams))
	for _, s := range streams {
		pair, err := redis.Values(s, nil)
		if err != nil || len(pair) != 2 {
			return nil, wire.ErrReply
		}
		key, badKey := redis.String(pair[0], nil)
		entries, err := wire.Entries(pair[1])
		if err = errors.Join(badKey, err); err != nil || len(entries) == 0 {
			return nil, errors.Join(wire.ErrReply, err)
		}
		first[key] = entries[0].Position
	}
	return first, nil
}
