package circulate

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Count says how many of a shard's accounts are where, at one moment.
type Count struct {
	Registered int
	Scheduled  int
	Waiting    int // entries in all lanes of message_queue, void ones among them
	Urgent     int // of them, those in the urgent lane
	Low        int // of them, those in the low lane
	Claimed    int // entries in processing_list, void ones among them
	Parked     int
	Messages   int // in the stream

	// Overdue is how long the longest overdue account has waited to be claimed.
	Overdue time.Duration
}

// Count counts a shard. The commands run in one transaction, so that no account
// is counted twice.
func (r *Ring) Count(ctx context.Context, shard int) (Count, error) {
	k := &r.keys[shard]
	results, err := transact(ctx, r.server, k.queue,
		command{"TIME"},
		command{"HLEN", k.tickets}, command{"ZCARD", k.schedule}, command{"LLEN", k.queue},
		command{"LLEN", k.processing}, command{"ZCARD", k.parked}, command{"XLEN", k.messages},
		command{"LLEN", k.urgent}, command{"LLEN", k.low},
		command{"ZRANGE", k.schedule, 0, 0, "WITHSCORES"},
		command{"LINDEX", k.queue, -1}, command{"LINDEX", k.urgent, -1}, command{"LINDEX", k.low, -1})
	if err != nil {
		return Count{}, fmt.Errorf("count, shard %d: %w", shard, err)
	}
	var c Count
	for i, field := range []*int{&c.Registered, &c.Scheduled, &c.Waiting, &c.Claimed, &c.Parked, &c.Messages, &c.Urgent, &c.Low} {
		if *field, err = redis.Int(results[i+1], nil); err != nil {
			return Count{}, fmt.Errorf("count, shard %d: %w", shard, err)
		}
	}
	c.Waiting += c.Urgent + c.Low
	now, err := serverTime(results[0])
	if err != nil {
		return Count{}, err
	}
	if first, err := redis.ByteSlices(results[9], nil); err == nil && len(first) == 2 {
		if due, err := score(first[1]); err == nil {
			c.Overdue = max(c.Overdue, now.Sub(due))
		}
	}
	for _, last := range results[10:13] {
		if text, err := redis.String(last, nil); err == nil {
			if entry, err := ParseEntry(text); err == nil {
				c.Overdue = max(c.Overdue, now.Sub(entry.Stamp))
			}
		}
	}
	return c, nil
}
