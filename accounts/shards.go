package accounts

import (
	"context"
	"slices"

	"github.com/rounds-dev/rounds/circulate"
)

// scanCount is the number of ids that a step of a scan asks for: enough to make a round
// trip worth it, and few enough not to hold up others.
const scanCount = 1000

// idsOf returns the ids of a shard's accounts, sorted and each once. It keeps them all in
// memory: shards are small. A scan alone may return an id twice.
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
