package circulate

import (
	"context"
	_ "embed"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed release.lua
var releaseLua string

var releaseScript = wire.NewVitalScript("release", listLua+releaseLua)

// Release puts claims of one shard back unchecked, next in line and as late as
// they were, as a replica does that is shutting down. It reports how many it
// still held.
func (r *Ring) Release(ctx context.Context, shard int, claims []*Claim) (int, error) {
	if err := wire.CheckBatch("release", len(claims)); err != nil {
		return 0, err
	}
	args := make([]any, 0, 2*len(claims))
	for _, c := range claims {
		args = append(args, c.entry, max(0, c.Due.UnixMilli()))
	}
	return r.release(ctx, shard, args)
}

// ReleaseHeld is Release of entries as Oldest gave them: a replica gives back
// what it holds and knows nothing of, because the reply to its claim was lost.
// They count as due since they were claimed.
func (r *Ring) ReleaseHeld(ctx context.Context, shard int, held []Held) (int, error) {
	if err := wire.CheckBatch("release", len(held)); err != nil {
		return 0, err
	}
	args := make([]any, 0, 2*len(held))
	for i := range held {
		args = append(args, held[i].text, max(0, held[i].Entry.Stamp.UnixMilli()))
	}
	return r.release(ctx, shard, args)
}

func (r *Ring) release(ctx context.Context, shard int, entries []any) (int, error) {
	k := &r.keys[shard]
	return redis.Int(r.wire.Run(ctx, releaseScript, shard,
		[]string{k.processing, k.queue, k.tickets, k.ticketSeq, k.urgent, k.low, k.ticketMark},
		append(r.wakeArgs(shard), entries...)...))
}
