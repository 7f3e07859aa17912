package circulate

import (
	"context"
	"errors"
	"slices"
	"time"
)

// aheadPause is when to ask again for the lease of a new shard whose turn has not
// come.
const aheadPause = time.Second

// ahead reports whether a new shard may have messages of accounts of which the group
// has earlier ones to deal with, in the old shards that they came from. It has none
// once those are empty, and all that they found is read and acknowledged.
func (r *Ring) ahead(ctx context.Context, shard int, group string) (bool, error) {
	for _, source := range r.origins(shard) {
		if left, err := r.Mover().Remaining(ctx, source); err != nil || !left.Marked || left.Accounts > 0 {
			return true, err
		}
		s, err := r.Streams().GroupState(ctx, source, group)
		if errors.Is(err, ErrNoGroup) {
			continue // it came when there was nothing left to read
		}
		if err != nil || s.Lag > 0 || s.Pending > 0 {
			return true, err
		}
		if s.Dead > 0 { // they stand before those that come of the new shard
			if _, err := r.Mover().CarryDead(ctx, source); err != nil {
				return true, err
			}
		}
	}
	return false, nil
}

// origins returns the old shards that accounts of a shard may come from; none where it
// is an old one itself.
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

// groupStart is where a group begins in a shard that has not got it, if it is to
// begin after a position.
func (r *Ring) groupStart(ctx context.Context, shard int, group, after string) (string, error) {
	origins := r.origins(shard)
	if len(origins) == 0 || after == StreamStart {
		return after, nil
	}
	if names, err := r.groupsOf(ctx, shard); err != nil || slices.Contains(names, group) {
		return after, err
	}
	if after == StreamEnd {
		// Before the old shards are looked at: whoever makes the group there in
		// between, with a ring that knows no new ones, misses nothing here.
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
