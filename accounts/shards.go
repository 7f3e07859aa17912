package accounts

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	// parallel is how many shards are worked on at a time.
	parallel = 8
	// scanCount is how many ids a step of a scan asks for: enough to make the
	// way to Redis cheap, and few enough not to hold others up.
	scanCount = 1000
)

// eachShard calls fn for every shard, several at a time, and gives the first
// error, which ends the calls that are under way.
func (r *Registry) eachShard(ctx context.Context, fn func(ctx context.Context, shard int) error) error {
	return r.eachOf(ctx, r.ring.Shards(), fn)
}

// eachOf is eachShard for the first so many numbers.
func (r *Registry) eachOf(ctx context.Context, shards int, fn func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(parallel, shards) {
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

// idsOf gives the ids of a shard's accounts, in order and each once. It keeps
// them all in memory, which is what shards are small for; a scan alone would
// give some of them twice.
func (r *Registry) idsOf(ctx context.Context, shard int) ([]string, error) {
	var all []string
	for cursor := ""; ; {
		ids, next, err := r.ring.Scan(ctx, shard, cursor, scanCount)
		if err != nil {
			return nil, err
		}
		all = append(all, ids...)
		if next == circulate.ScanDone {
			slices.Sort(all)
			return slices.Compact(all), nil
		}
		cursor = next
	}
}
