package message

import (
	"context"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// readShard returns up to n messages of a shard, pending ones first. It ends early after the given
// number of bytes of data.
func (t *readRound) readShard(ctx context.Context, shard *groupShard, n, bytes int) ([]GroupMessage, error) {
	ring, lease := t.reader.ring, shard.lease
	var messages []GroupMessage
	deliveries := make(map[string]int)
	keep := func(batch group.Batch) error {
		for _, f := range batch.Messages {
			messages = append(messages, GroupMessage{ID: entryID(ring.ShardName(f.Shard), f.Position), Delivery: max(1, deliveries[f.Position]), Found: f})
			bytes -= len(f.Message.Data)
		}
		_, err := group.Of(ring).Acknowledge(ctx, lease.Shard, t.group, batch.Others)
		return err
	}
	for after := circulate.StreamStart; len(messages) < n && bytes > 0; {
		const few = 64 // each may be large
		pending, err := group.Of(ring).Pending(ctx, lease, after, min(few, n-len(messages)))
		if err != nil {
			return nil, err
		}
		if len(pending) == 0 {
			break
		}
		for i := range pending {
			pending[i].Deliveries++
			deliveries[pending[i].Position] = pending[i].Deliveries
		}
		again, came, err := group.Of(ring).Redeliver(ctx, lease, pending, bytes)
		if err == nil {
			err = keep(again)
		}
		if err != nil {
			return nil, err
		}
		after = pending[came-1].Position
	}
	if len(messages) >= n || bytes <= 0 {
		return messages, nil
	}
	fresh, err := group.Of(ring).Read(ctx, lease, n-len(messages), bytes, true)
	if err != nil {
		return nil, err
	}
	shard.end = fresh.End
	shard.ready = fresh.End == ""
	return messages, keep(fresh)
}
