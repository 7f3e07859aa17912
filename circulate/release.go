package circulate

import (
	"context"
	_ "embed"

	"github.com/gomodule/redigo/redis"
)

//go:embed release.lua
var releaseLua string

var releaseScript = newScript("release", releaseLua)

// Release puts claims of one shard back unchecked, next in line and as late as
// they were, as a replica does that is shutting down. It reports how many it
// still held.
func (r *Ring) Release(ctx context.Context, shard int, claims []*Claim) (int, error) {
	if err := r.checkBatch("release", len(claims)); err != nil {
		return 0, err
	}
	args := append(make([]any, 0, 2+2*len(claims)), r.wakeArgs(shard)...)
	for _, c := range claims {
		args = append(args, c.entry, max(0, c.Due.UnixMilli()))
	}
	k := &r.keys[shard]
	return redis.Int(r.run(ctx, releaseScript, shard,
		[]string{k.processing, k.queue, k.tickets, k.ticketSeq, k.urgent, k.low}, args...))
}
