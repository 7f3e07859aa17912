package circulate

import (
	"context"
	"errors"
	"slices"
	"time"
)

// aheadPause is when to ask again for the lease of a new shard whose turn has not come.
const aheadPause = time.Second

// ahead reports whether a new shard may have messages of accounts whose earlier messages
// the group has not handled yet, in the old shards that they came from. It does not once
// those shards are empty, and everything that they found is read and acknowledged.
func (r *Ring) ahead(ctx context.Context, shard int, group string) (bool, error) {
	for _, source := range r.origins(shard) {
		if left, err := r.Mover().Remaining(ctx, source); err != nil || !left.Marked || left.Accounts > 0 {
			return true, err
		}
		s, err := r.Streams().GroupState(ctx, source, group)
		if errors.Is(err, ErrNoGroup) {
			continue // it arrived when there was nothing left to read
		}
		if err != nil || s.Lag > 0 || s.Pending > 0 {
			return true, err
		}
		if s.Dead > 0 { // these come before those of the new shard
			if _, err := r.Mover().CarryDead(ctx, source); err != nil {
				return true, err
			}
		}
	}
	return false, nil
}

// origins returns the old shards that accounts of a shard may come from, or none for an
// old shard.
func (r *Ring) origins(shard int) []int {
	if shard < r.sources || r.sources == 0 {
		return nil
	}
	var from []int
	common := gcd(r.sources, len(r.keys)-r.sources)
	for source := (shard - r.sources) % common; source < r.sources; source += common {
		from = append(from, source)
	}
	return from
}

// groupStart returns where a group that should begin after a position begins in a shard
// that does not have it.
func (r *Ring) groupStart(ctx context.Context, shard int, group, after string) (string, error) {
	origins := r.origins(shard)
	if len(origins) == 0 || after == StreamStart {
		return after, nil
	}
	if names, err := r.groupsOf(ctx, shard); err != nil || slices.Contains(names, group) {
		return after, err
	}
	if after == StreamEnd {
		// This comes before the old shards are read: a process with a ring that knows no
		// new shards may make the group there in between, and misses nothing here.
		last, err := r.Streams().Last(ctx, shard)
		if err != nil {
			return "", err
		}
		after = last
	}
	for _, source := range origins {
		names, err := r.groupsOf(ctx, source)
		if err != nil {
			return "", err
		}
		if slices.Contains(names, group) {
			return StreamStart, nil
		}
	}
	return after, nil
}
