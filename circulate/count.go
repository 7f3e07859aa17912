package circulate

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Count is how many of a shard's accounts are in each place, at one moment.
type Count struct {
	Registered int
	Scheduled  int
	Waiting    int // entries in all lanes of message_queue, including void ones
	Urgent     int // of these, those in the urgent lane
	Low        int // of these, those in the low lane
	ByKind     int // of these, those that wait for a replica of their kind
	Claimed    int // entries in processing_list, including void ones
	Parked     int
	Messages   int // in the stream

	// Overdue is how long the longest overdue account has waited to be claimed.
	Overdue time.Duration
}

//go:embed count.lua
var countLua string

var countScript = wire.NewScript("count", byKindLua, countLua)

// Count counts a shard at one moment, so that no account is counted twice.
func (r *Ring) Count(ctx context.Context, shard int) (Count, error) {
	k := &r.keys[shard]
	results, err := redis.Values(r.wire.Run(ctx, countScript, shard, []string{
		k.tickets, k.schedule, k.queue, k.processing, k.parked, k.messages, k.urgent, k.low, k.byKind,
	}))
	if err != nil {
		return Count{}, err
	}
	var c Count
	var now int64
	var first []byte
	var oldest [3]string
	var ofKinds []string
	if _, err := redis.Scan(results, &now, &c.Registered, &c.Scheduled, &c.Waiting, &c.Claimed, &c.Parked, &c.Messages, &c.Urgent, &c.Low,
		&first, &oldest[0], &oldest[1], &oldest[2], &c.ByKind, &ofKinds); err != nil {
		return Count{}, fmt.Errorf("count, shard %d: %w: %w", shard, wire.ErrReply, err)
	}
	c.Waiting += c.Urgent + c.Low + c.ByKind
	if len(first) > 0 {
		if due, err := score(first); err == nil {
			c.Overdue = max(c.Overdue, time.UnixMilli(now).Sub(due))
		}
	}
	for _, text := range append(ofKinds, oldest[:]...) {
		if entry, err := ParseEntry(text); err == nil {
			c.Overdue = max(c.Overdue, time.UnixMilli(now).Sub(entry.Stamp))
		}
	}
	return c, nil
}
