package accounts

import (
	"context"
	"slices"

	"github.com/rounds-dev/rounds/circulate"
)

// scanCount is how many ids a step of a scan asks for: enough to make the
// way to Redis cheap, and few enough not to hold others up.
const scanCount = 1000

// idsOf returns the ids of a shard's accounts, in order and each once. It keeps
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
