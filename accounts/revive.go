package accounts

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// Revived is the result of one call of Revive.
type Revived struct {
	Revived  int
	Skipped  int       // accounts that circulate already, or are paused and not selected
	NotFound int       // ids that no account has
	LastDue  time.Time // when the last revived account is due; zero: none was revived
	Next     string    // the next call's Cursor; empty: the revival is complete
}

// Revive brings parked accounts back with a clean slate, as Resume does, but at a rate:
// the first is due now, and each further one a while after the one before. If it selects
// by reason or kind, it walks through all accounts that were parked when it began, shard
// by shard, in bounded memory. A call that does not reach the end returns a cursor. A
// next call with that cursor keeps to the rate. An account that is parked or paused while
// Revive is under way stays so. Repeating a call of unknown outcome is safe: a revived
// account is no longer parked. Revive returns Faults for a revival that is not valid, and
// ErrCursor for a cursor that this ring never returned.
func (r *Registry) Revive(ctx context.Context, v Revival) (Revived, error) {
	return r.revive(ctx, v, lookBudget)
}

// revive is Revive with a budget: the number of parked accounts, or a few more, that a call
// looks at.
func (r *Registry) revive(ctx context.Context, v Revival, budget int) (Revived, error) {
	if err := v.Validate(); err != nil {
		return Revived{}, err
	}
	w := revivalWalk{registry: r, Revival: v, budget: budget}
	err := w.begin(ctx)
	switch {
	case err != nil:
	case len(v.IDs) > 0:
		err = w.named(ctx)
	default:
		err = w.selected(ctx)
	}
	return w.done, err
}

// revivalWalk is a revival under way.
type revivalWalk struct {
	Revival
	registry *Registry
	budget   int
	place    parkedPlace
	began    time.Time // accounts that were parked later are not selected
	next     int64     // when the next one is due, unix µs
	done     Revived
}

func (w *revivalWalk) begin(ctx context.Context) error {
	if w.Rate == 0 {
		w.Rate = ReviveRate
	}
	if w.Cursor != "" {
		return w.parse(w.Cursor)
	}
	now, err := w.registry.ring.Now(ctx, 0)
	w.began, w.next = now, now.UnixMicro()
	return err
}

// due returns the next due time.
func (w *revivalWalk) due() time.Time {
	due := time.UnixMicro(w.next)
	w.next += int64(math.Round(1e6 / w.Rate))
	return due
}

// named revives the accounts with the ids, in the order of the ids.
func (w *revivalWalk) named(ctx context.Context) error {
	shards := make(map[int][]circulate.Resumption)
	seen := make(map[string]bool, len(w.IDs))
	for _, id := range w.IDs {
		if seen[id] {
			continue
		}
		seen[id] = true
		shard := w.registry.ring.ShardOf(id)
		shards[shard] = append(shards[shard], circulate.Resumption{ID: id, Due: w.due()})
	}
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		if err := w.seen(ctx, shards, shard); err != nil {
			return err
		}
		if len(shards[shard]) == 0 {
			continue
		}
		if err := w.resume(ctx, shard, shards[shard]); err != nil {
			return err
		}
	}
	return nil
}

// seen drops the accounts that the bound principal does not see.
func (w *revivalWalk) seen(ctx context.Context, shards map[int][]circulate.Resumption, shard int) error {
	if len(w.registry.labels) == 0 {
		return nil
	}
	var ids []string
	for i := range shards[shard] {
		ids = append(ids, shards[shard][i].ID)
	}
	seen, err := w.registry.Seen(ctx, ids)
	if err != nil {
		return err
	}
	shards[shard] = slices.DeleteFunc(shards[shard], func(item circulate.Resumption) bool {
		_, there := seen[item.ID]
		return !there
	})
	w.done.NotFound += len(ids) - len(shards[shard])
	return nil
}

// selected revives the accounts that were parked for the reason and are of the kind.
func (w *revivalWalk) selected(ctx context.Context) error {
	r := w.registry
	for looked := 0; w.place.shard < r.ring.Shards(); {
		if looked >= w.budget {
			w.done.Next = w.String()
			return nil
		}
		shard := w.place.shard
		if w.place.behind.ID == "" {
			if err := r.enter(ctx, shard); err != nil {
				return err
			}
		}
		page, _, err := r.ring.ParkedPage(ctx, shard, w.place.behind, lookCount)
		if err != nil {
			return err
		}
		looked += len(page)
		w.place = w.place.after(page, lookCount)
		if late := slices.IndexFunc(page, func(a circulate.ParkedAccount) bool { return a.Since.After(w.began) }); late >= 0 {
			page, w.place = page[:late], parkedPlace{shard: shard + 1}
		}
		items, err := w.toRevive(ctx, shard, page)
		if err != nil {
			return err
		}
		if len(items) > 0 {
			if err := w.resume(ctx, shard, items); err != nil {
				return err
			}
		}
	}
	return r.complete(ctx)
}

// toRevive returns the accounts of a page that are to be revived, and counts the paused ones
// that it skips.
func (w *revivalWalk) toRevive(ctx context.Context, shard int, page []circulate.ParkedAccount) ([]circulate.Resumption, error) {
	var items []circulate.Resumption
	page = slices.DeleteFunc(page, func(a circulate.ParkedAccount) bool { return !strings.HasPrefix(a.Reason, w.Reason) })
	if selector := w.selector(); selector.needsLook() || len(selector.Kinds)+len(w.registry.labels) > 0 {
		views, err := w.registry.lookAt(ctx, shard, page, ParkedQuery{}, selector)
		if err != nil {
			return nil, err
		}
		selected := make(map[string]bool, len(views))
		for i := range views {
			selected[views[i].ID] = true
		}
		page = slices.DeleteFunc(page, func(a circulate.ParkedAccount) bool { return !selected[a.ID] })
	}
	for _, a := range page {
		if paused(a.Reason) && !paused(w.Reason) {
			w.done.Skipped++
			continue
		}
		// Only for the reason that was seen: if somebody pauses it now, it stays paused.
		items = append(items, circulate.Resumption{ID: a.ID, Due: w.due(), Reason: a.Reason})
	}
	return items, nil
}

// selector returns the walk's choice of accounts as a selector, except for the reason: toRevive
// compares that first.
func (w *revivalWalk) selector() Selector {
	only := func(value string) []string {
		if value == "" {
			return nil
		}
		return []string{value}
	}
	return Selector{Except: w.Except, Kinds: only(w.Kind), Causes: only(w.Cause), Hosts: only(w.Host)}
}

// resume revives accounts of one shard, or counts them in a dry run.
func (w *revivalWalk) resume(ctx context.Context, shard int, items []circulate.Resumption) error {
	resume := w.registry.ring.ResumeAll
	if w.DryRun {
		resume = w.registry.wouldResume
	}
	outcomes, err := resume(ctx, shard, items)
	if err != nil {
		return err
	}
	for i, outcome := range outcomes {
		switch outcome {
		case circulate.BackAgain:
			w.done.Revived++
			if items[i].Due.After(w.done.LastDue) {
				w.done.LastDue = items[i].Due
			}
		case circulate.NotRegistered:
			w.done.NotFound++
		default:
			w.done.Skipped++
		}
	}
	return nil
}

// wouldResume returns what ResumeAll would return, and changes nothing.
func (r *Registry) wouldResume(ctx context.Context, shard int, items []circulate.Resumption) ([]circulate.Resumed, error) {
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ID
	}
	views, err := r.ring.Look(ctx, shard, ids)
	if err != nil {
		return nil, err
	}
	there := make(map[string]*circulate.View, len(views))
	for i := range views {
		there[views[i].ID] = &views[i]
	}
	outcomes := make([]circulate.Resumed, len(items))
	for i, item := range items {
		switch v := there[item.ID]; {
		case v == nil:
			outcomes[i] = circulate.NotRegistered
		case v.Place != circulate.Parked:
			outcomes[i] = circulate.Circulating
		case item.Reason != "" && item.Reason != v.Reason:
			outcomes[i] = circulate.OtherReason
		default:
			outcomes[i] = circulate.BackAgain
		}
	}
	return outcomes, nil
}

// String returns the cursor of the rest.
func (w *revivalWalk) String() string {
	content := binary.AppendVarint(nil, w.began.UnixMicro())
	content = binary.AppendVarint(content, w.next)
	return SealCursor(CursorRevival, w.place.append(content, w.registry.ring.Shards()))
}

func (w *revivalWalk) parse(text string) error {
	content, err := UnsealCursor(CursorRevival, text)
	if err != nil {
		return err
	}
	began, n := binary.Varint(content)
	next, m := binary.Varint(content[max(0, n):])
	if n <= 0 || m <= 0 || began < 0 || next < 0 {
		return fmt.Errorf("%w: it names no time", ErrCursor)
	}
	w.began, w.next = time.UnixMicro(began), next
	w.place, err = parseParkedPlace(content[n+m:], w.registry.ring.Shards())
	return err
}
