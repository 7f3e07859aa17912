package circulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// While the number of shards changes, an account is in its old shard, on its way, or in
// its new shard, and only moves in this order. So a search in this order misses no
// account, and what a step changes where it finds the account moves along with it. Only a
// registration must be kept out of the old shard, and the script does that.
//
// A process whose ring was opened before the change may search where the account no
// longer is. Before it reports an account missing, it reads meta again: meta changed
// before the first account moved.

// target returns the shard that an account is in once the number has changed.
func (r *Ring) target(id string) int { return r.sources + shardOf(id, len(r.keys)-r.sources) }

// beyond returns where the accounts are that a step has not found in a shard: for each
// shard their places among the ids. It returns none if they are nowhere.
func (r *Ring) beyond(ctx context.Context, shard int, ids []string) (map[int][]int, error) {
	if shard >= r.sources {
		return nil, r.unchanged(ctx)
	}
	_, err := r.Mover().Complete(ctx, shard)
	if errors.Is(err, errNotReceiving) {
		// If the change has ended since it was read, no account is on its way.
		_, err = r.Mover().Complete(ctx, shard)
	}
	if err != nil {
		return nil, err
	}
	byTarget := make(map[int][]int)
	for i, id := range ids {
		t := r.target(id)
		byTarget[t] = append(byTarget[t], i)
	}
	return byTarget, nil
}

// unchanged returns ErrResharding if there may now be shards that the ring does not know.
func (r *Ring) unchanged(ctx context.Context) error {
	if changed, err := r.Changed(ctx); err != nil {
		return fmt.Errorf("read the number of shards: %w", err)
	} else if changed {
		return ErrResharding
	}
	return nil
}

// whereverIs does a step in the shard that has the account. The step returns
// ErrNotRegistered if its shard does not have the account. So does whereverIs if no shard
// does.
func (r *Ring) whereverIs(ctx context.Context, id string, step func(ctx context.Context, shard int) error) error {
	shard := r.ShardOf(id)
	for {
		err := step(ctx, shard)
		if !errors.Is(err, ErrNotRegistered) {
			return err
		}
		next, beyondErr := r.beyond(ctx, shard, []string{id})
		switch {
		case beyondErr != nil:
			return beyondErr
		case len(next) == 0:
			return err
		}
		shard = r.target(id)
	}
}

// countAnywhere does a step in the shards that have the accounts, and returns how many it
// found. Doing the step twice must be the same as doing it once.
func (r *Ring) countAnywhere(ctx context.Context, shard int, ids []string,
	step func(ctx context.Context, shard int, ids []string) (int, error)) (int, error) {
	n, err := step(ctx, shard, ids)
	if err != nil || n >= len(ids) {
		return n, err
	}
	next, err := r.beyond(ctx, shard, ids)
	if err != nil {
		return n, err
	}
	for target, places := range next {
		more, err := step(ctx, target, pick(ids, places))
		n += more
		if err != nil {
			return n, err
		}
	}
	if len(next) > 0 && n < len(ids) {
		err = r.unchanged(ctx)
	}
	return min(n, len(ids)), err // an account that moved in between was found twice
}

// everywhere looks at accounts in a shard, and for those that are missing there in the
// shards that they move to. What it finds is in the order of ids.
func everywhere[T any](ctx context.Context, r *Ring, shard int, ids []string, id func(*T) string,
	look func(ctx context.Context, shard int, ids []string) ([]T, error)) ([]T, error) {
	found, err := look(ctx, shard, ids)
	if err != nil || len(found) == len(ids) {
		return found, err
	}
	known := make(map[string]T, len(ids))
	for i := range found {
		known[id(&found[i])] = found[i]
	}
	missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		_, ok := known[id]
		return ok
	})
	next, err := r.beyond(ctx, shard, missing)
	if err != nil {
		return nil, err
	}
	for target, places := range next {
		more, err := everywhere(ctx, r, target, pick(missing, places), id, look)
		if err != nil {
			return nil, err
		}
		for i := range more {
			known[id(&more[i])] = more[i]
		}
	}
	found = found[:0]
	for _, id := range ids {
		if one, ok := known[id]; ok {
			found = append(found, one)
		}
	}
	return found, nil
}

func (r *Ring) registerAnywhere(ctx context.Context, shard int, items []Registration, how registering) ([]Registered, error) {
	outcomes, err := anywhere(ctx, r, shard, items, elsewhereRegistered, func(it *Registration) string { return it.ID },
		func(ctx context.Context, shard int, items []Registration) ([]Registered, error) {
			return r.register(ctx, shard, items, how)
		})
	if err == nil && slices.Contains(outcomes, elsewhereRegistered) {
		err = ErrResharding
	}
	return outcomes, err
}

// elsewhereRegistered is the outcome of a registration in a shard that is being left.
const elsewhereRegistered Registered = 'm'

func (r *Ring) resumeAnywhere(ctx context.Context, shard int, items []Resumption, rule Rule, onProbation bool) ([]Resumed, error) {
	return anywhere(ctx, r, shard, items, NotRegistered, func(it *Resumption) string { return it.ID },
		func(ctx context.Context, shard int, items []Resumption) ([]Resumed, error) {
			return r.resume(ctx, shard, items, rule, onProbation)
		})
}

// anywhere does a step with items of one shard. It repeats the step elsewhere with the
// items whose outcome says that they are not there.
func anywhere[Item any, Outcome comparable](ctx context.Context, r *Ring, shard int, items []Item, absent Outcome,
	id func(*Item) string, step func(ctx context.Context, shard int, items []Item) ([]Outcome, error)) ([]Outcome, error) {
	outcomes, err := step(ctx, shard, items)
	if err != nil {
		return nil, err
	}
	var places []int
	var ids []string
	for i, o := range outcomes {
		if o == absent {
			places, ids = append(places, i), append(ids, id(&items[i]))
		}
	}
	if len(places) == 0 {
		return outcomes, nil
	}
	next, err := r.beyond(ctx, shard, ids)
	if err != nil {
		return nil, err
	}
	for target, chosen := range next {
		again := pick(places, chosen)
		more, err := anywhere(ctx, r, target, pick(items, again), absent, id, step)
		if err != nil {
			return nil, err
		}
		for i, o := range more {
			outcomes[again[i]] = o
		}
	}
	return outcomes, nil
}

// pick returns the items in some places.
func pick[T any](all []T, places []int) []T {
	picked := make([]T, len(places))
	for i, p := range places {
		picked[i] = all[p]
	}
	return picked
}

// aheadPause is when to ask again for the lease of a new shard that must wait for old
// ones.
const aheadPause = time.Second

// ahead reports whether a new shard may have messages of accounts whose earlier messages,
// in the old shards that the accounts came from, the group has not handled yet. It
// reports false once those shards have no accounts left and all their messages are read
// and acknowledged.
func (r *Ring) ahead(ctx context.Context, shard int, group string) (bool, error) {
	for _, source := range r.origins(shard) {
		if left, err := r.Mover().Remaining(ctx, source); err != nil || !left.Marked || left.Accounts > 0 {
			return true, err
		}
		s, err := r.Streams().GroupState(ctx, source, group)
		if errors.Is(err, ErrNoGroup) {
			continue // its accounts arrived after everything in it had been read
		}
		if err != nil || s.Lag > 0 || s.Pending > 0 {
			return true, err
		}
		if s.Dead > 0 { // dead letters of the old shard come before the new shard's
			if _, err := r.Mover().CarryDead(ctx, source); err != nil {
				return true, err
			}
		}
	}
	return false, nil
}

// origins returns the old shards that a shard's accounts may come from. An old shard has
// none.
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

// groupStart returns the position at which a new group begins in a shard, if it should
// begin after a given position.
func (r *Ring) groupStart(ctx context.Context, shard int, group, after string) (string, error) {
	origins := r.origins(shard)
	if len(origins) == 0 || after == StreamStart {
		return after, nil
	}
	if names, err := r.Streams().GroupsOf(ctx, shard); err != nil || slices.Contains(names, group) {
		return after, err
	}
	if after == StreamEnd {
		// This comes before the old shards are read. In between, a process whose ring
		// knows no new shards may make the group there, and misses nothing here.
		last, err := r.Streams().Last(ctx, shard)
		if err != nil {
			return "", err
		}
		after = last
	}
	for _, source := range origins {
		names, err := r.Streams().GroupsOf(ctx, source)
		if err != nil {
			return "", err
		}
		if slices.Contains(names, group) {
			return StreamStart, nil
		}
	}
	return after, nil
}
