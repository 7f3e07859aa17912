package accounts

import (
	"context"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/circulate"
)

// inOrder calls walk so that it goes through all shards and misses no account while the
// number of shards changes: first through the shards that accounts leave, and then, when
// none is on its way, through the shards that they go to. If the change began after the
// ring was opened, the walk may have missed accounts: inOrder returns
// circulate.ErrResharding.
func (r *Registry) inOrder(ctx context.Context, walk func(ctx context.Context, from, to int) error) error {
	sources := r.ring.Sources()
	if sources > 0 {
		if err := walk(ctx, 0, sources); err != nil {
			return err
		}
	}
	if err := r.enter(ctx, sources); err != nil {
		return err
	}
	if err := walk(ctx, sources, r.ring.Shards()); err != nil {
		return err
	}
	return r.complete(ctx)
}

// enter is called before a walk looks at a shard. A walk goes through the shards in their
// order. Before the first shard that accounts go to, enter completes all moves, so that no
// account is on its way.
func (r *Registry) enter(ctx context.Context, shard int) error {
	if shard != r.ring.Sources() {
		return nil
	}
	for source := range shard {
		if _, err := r.ring.Mover().Complete(ctx, source); err != nil {
			return err
		}
	}
	return nil
}

// complete is called at the end of a walk. It returns circulate.ErrResharding if the walk
// may have missed accounts.
func (r *Registry) complete(ctx context.Context) error {
	changed, err := r.ring.Changed(ctx)
	if err == nil && changed {
		err = circulate.ErrResharding
	}
	return err
}

// scanCount is the number of ids that a step of a scan asks for: enough to make a round
// trip worth it, and few enough not to hold up others.
const scanCount = 1000

// idsFor is idsOf without the ids that the selector cannot select. If the selector has
// ids, idsFor looks only for these, and they need not exist. If it selects only accounts
// that fail or are parked, idsFor looks at no others.
func (r *Registry) idsFor(ctx context.Context, shard int, s *Selector) ([]string, error) {
	switch {
	case s.onlyFailing():
		return r.idsOfFailing(ctx, shard, s)
	case s.onlyParked():
		ids, err := r.idsOfParked(ctx, shard, func(reason string) bool { return oneOf(s.Reasons, reason, strings.HasPrefix) })
		slices.Sort(ids)
		return slices.Compact(ids), err
	}
	if len(s.IDs) == 0 {
		return r.idsOf(ctx, shard)
	}
	var here []string
	for _, id := range s.IDs {
		if r.ring.ShardOf(id) == shard {
			here = append(here, id)
		}
	}
	slices.Sort(here)
	return slices.Compact(here), nil
}

// onlyFailing reports whether the selector selects only accounts that fail or are parked
// for a failure. Such accounts are few.
func (s *Selector) onlyFailing() bool {
	return len(s.IDs) == 0 && (len(s.Causes) > 0 || len(s.States) == 1 && s.States[0] == StateFailing)
}

// onlyParked reports whether the selector selects only parked accounts. These have an
// index.
func (s *Selector) onlyParked() bool {
	return len(s.IDs) == 0 && (len(s.Reasons) > 0 || len(s.States) == 1 && (s.States[0] == string(circulate.Parked) || s.States[0] == StatePaused))
}

// indexed reports whether the accounts that the selector may select can be found without
// looking at the others.
func (s *Selector) indexed() bool { return s.onlyFailing() || s.onlyParked() }

// idsOfFailing returns the ids of a shard's accounts that have an error or, if the selector
// asks for causes, are parked for a failure.
func (r *Registry) idsOfFailing(ctx context.Context, shard int, s *Selector) ([]string, error) {
	store := r.ring.Failing()
	all, err := scanned(ctx, shard, func(ctx context.Context, shard int, cursor string, n int) ([]string, string, error) {
		return store.IDs(ctx, shard, cursor, n, func(text string) bool { return s.mayBe(codeOf(text)) })
	})
	if err != nil || len(s.Causes) == 0 {
		return all, err
	}
	parked, err := r.idsOfParked(ctx, shard, func(reason string) bool {
		return !AtRest(reason) && s.mayBe(CauseOfReason(reason, "").Code)
	})
	if err != nil {
		return nil, err
	}
	all = append(all, parked...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// idsOfParked returns the ids of a shard's parked accounts whose reasons are wanted, the
// longest parked first.
func (r *Registry) idsOfParked(ctx context.Context, shard int, wanted func(reason string) bool) (ids []string, err error) {
	for behind := (circulate.ParkedAccount{}); ; {
		page, _, err := r.ring.ParkedPage(ctx, shard, behind, scanCount)
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			if wanted(p.Reason) {
				ids = append(ids, p.ID)
			}
			behind = p
		}
		if len(page) < scanCount {
			return ids, nil
		}
	}
}

// mayBe reports whether a selected cause may have this code.
func (s *Selector) mayBe(code string) bool {
	return len(s.Causes) == 0 || slices.ContainsFunc(s.Causes, func(name string) bool { return codeIn(name) == code })
}

// idsOf returns the ids of a shard's accounts, sorted and each once. It holds all of them
// in memory: shards are small.
func (r *Registry) idsOf(ctx context.Context, shard int) ([]string, error) {
	return scanned(ctx, shard, r.ring.Scan)
}

// scanned returns all ids that a scan of a shard returns, sorted and each once. The scan
// itself may return an id twice.
func scanned(ctx context.Context, shard int, scan func(ctx context.Context, shard int, cursor string, n int) ([]string, string, error)) ([]string, error) {
	return scannedAll(ctx, shard, scan, strings.Compare)
}

// scannedAll is scanned for a scan that returns more than ids.
func scannedAll[T any](ctx context.Context, shard int, scan func(ctx context.Context, shard int, cursor string, n int) ([]T, string, error), compare func(a, b T) int) ([]T, error) {
	var all []T
	for cursor := ""; ; {
		some, next, err := scan(ctx, shard, cursor, scanCount)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		if next == circulate.ScanDone {
			slices.SortFunc(all, compare)
			return slices.CompactFunc(all, func(a, b T) bool { return compare(a, b) == 0 }), nil
		}
		cursor = next
	}
}
