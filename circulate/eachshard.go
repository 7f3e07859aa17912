package circulate

import (
	"context"
	"sync"
	"sync/atomic"
)

// shardsAtOnce is how many shards EachShard works on at a time.
const shardsAtOnce = 8

// EachShard calls fn for every number below shards, several at a time. The first error ends
// the calls that are under way, and is returned.
func EachShard(ctx context.Context, shards int, fn func(ctx context.Context, shard int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(shardsAtOnce, shards) {
		wg.Go(func() {
			for ctx.Err() == nil {
				shard := int(next.Add(1)) - 1
				if shard >= shards {
					return
				}
				if err := fn(ctx, shard); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
