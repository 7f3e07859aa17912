package accounts

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// StepWalk is a Bulk that its caller does step by step, so that the steps may outlive the
// process: shard by shard, and in each shard through sorted ids. The caller stores where it
// is, and each step before it does it. It is not safe for concurrent use.
type StepWalk struct {
	registry *Registry
	bulk     Bulk
	shard    int
	ids      []string
	read     bool // ids are those of shard
}

// StepWalk returns the walk of a Bulk. It returns Faults if b is not valid.
func (r *Registry) StepWalk(b Bulk) (*StepWalk, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	b.Selector = r.within(b.Selector)
	return &StepWalk{registry: r, bulk: b}, nil
}

// UndoWalk returns a walk whose steps take back what steps of b did. Only PauseAll and
// SetAll can be taken back.
func (r *Registry) UndoWalk(b Bulk) (*StepWalk, error) {
	if !b.Action.Undoes() {
		return nil, Faults{{Field: "action", Reason: fmt.Sprintf("%s cannot be taken back", b.Action)}}
	}
	w, err := r.StepWalk(b)
	if err == nil {
		w.bulk.undo = true
	}
	return w, err
}

// Undoes reports whether what the action did can be taken back.
func (a Action) Undoes() bool { return a == PauseAll || a == SetAll }

// Layout names the division of the ring into shards. A walk that began under another layout
// begins anew.
func (w *StepWalk) Layout() string { return w.registry.ring.Layout() }

// Shards returns the number of shards to walk through.
func (w *StepWalk) Shards() int { return w.registry.ring.Shards() }

// Next plans the next step in a shard, behind an id; "" is before the first. It returns the
// last id that it looked at, or "" at the end of the shard. At the end of the last shard it
// returns circulate.ErrResharding if the walk may have missed accounts.
func (w *StepWalk) Next(ctx context.Context, shard int, behind string) (Planned, string, error) {
	r := w.registry
	passed := 0
	if !w.read || w.shard != shard {
		if err := r.enter(ctx, shard); err != nil {
			return Planned{}, "", err
		}
		ids, err := r.idsFor(ctx, shard, &w.bulk.Selector)
		if err != nil {
			return Planned{}, "", err
		}
		all := len(ids)
		ids = w.bulk.Selector.passes(ids)
		if passed = all - len(ids); behind != "" || len(r.labels) > 0 {
			passed = 0 // counted before, or secret
		}
		w.shard, w.ids, w.read = shard, ids, true
	}
	rest := after(w.ids, behind)
	if len(rest) == 0 {
		p := Planned{Step: Step{Shard: shard}, Seen: passed}
		if shard == w.Shards()-1 {
			return p, "", r.complete(ctx)
		}
		return p, "", nil
	}
	// To store a step takes longer than to look at many accounts: a step goes on until it is worth it.
	var chosen []circulate.BriefView
	var now time.Time
	seen := 0
	for size := bulkStep; len(rest) > 0 && seen < stepLooks && len(chosen) <= bulkStep/2; {
		block := rest[:min(size, len(rest))]
		some, then, err := r.choose(ctx, shard, block, &w.bulk.Selector)
		if err != nil {
			return Planned{}, "", err
		}
		if room := bulkStep - len(chosen); len(some) > room {
			slices.SortFunc(some, func(a, b circulate.BriefView) int { return strings.Compare(a.ID, b.ID) })
			some = some[:room]
			block = block[:len(block)-len(after(block, some[room-1].ID))]
		} else if len(some) == 0 {
			size = min(2*size, w.bulk.Selector.looks())
		}
		chosen, now = append(chosen, some...), then
		seen, behind, rest = seen+len(block), block[len(block)-1], rest[len(block):]
	}
	p := r.plan(ctx, &w.bulk, chosen, now)
	p.Shard = shard
	if len(r.labels) == 0 {
		p.Seen = seen + passed
	}
	return p, behind, nil
}

// stepLooks is about how many accounts a step looks at, if few of them are selected.
const stepLooks = 10_000

// looks returns how many accounts to look at at a time, if few of them are selected.
func (s *Selector) looks() int {
	if s.needsLook() {
		return lookCount
	}
	return briefCount
}

// after returns the ids behind an id in sorted ids.
func after(ids []string, behind string) []string {
	low, high := 0, len(ids)
	for low < high {
		if middle := (low + high) / 2; ids[middle] > behind {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return ids[low:]
}

// Undo plans to take back a step that was done. It leaves out accounts that somebody changed
// since. Until is when the Bulk of the step ended.
func (w *StepWalk) Undo(ctx context.Context, s Step, until time.Time) (Planned, error) {
	sum := Planned{Step: Step{Shard: s.Shard, At: s.At}}
	err := w.eachShard(s, func(shard int, part Step) error {
		p, err := w.registry.planUndo(ctx, &w.bulk, shard, part, until)
		sum.At, sum.Seen, sum.Matched = p.At, sum.Seen+p.Seen, sum.Matched+p.Matched
		sum.Changes, sum.Reasons = append(sum.Changes, p.Changes...), sum.Reasons.Plus(p.Reasons)
		return err
	})
	return sum, err
}

// Do does a step that Next or Undo planned. Lead is how long ago the walk began. Do returns an
// error if Redis failed. The step may then be done in part: Redo finds out, and does the rest.
func (w *StepWalk) Do(ctx context.Context, s Step, lead time.Duration) (sum Done, err error) {
	if !w.bulk.undo {
		return w.registry.do(ctx, &w.bulk, s.Shard, s, lead)
	}
	err = w.eachShard(s, func(shard int, part Step) error {
		done, err := w.registry.do(ctx, &w.bulk, shard, part, lead)
		sum = Done{sum.Changed + done.Changed, sum.Reasons.Plus(done.Reasons)}
		return err
	})
	return sum, err
}

// Redo does a step that may have been done in part, and counts what was done before. An
// account is nudged twice if the step was cut off after its nudge; every other change happens
// once.
func (w *StepWalk) Redo(ctx context.Context, s Step, lead time.Duration) (sum Done, err error) {
	err = w.eachShard(s, func(shard int, part Step) error {
		done, err := w.registry.redo(ctx, &w.bulk, shard, part, lead)
		sum = Done{sum.Changed + done.Changed, sum.Reasons.Plus(done.Reasons)}
		return err
	})
	return sum, err
}

// eachShard calls fn with the part of a stored step that is in each shard. The number of
// shards may have changed since the step was stored.
func (w *StepWalk) eachShard(s Step, fn func(shard int, part Step) error) error {
	parts := make(map[int]Step)
	for _, c := range s.Changes {
		shard := w.registry.ring.ShardOf(c.ID)
		part, ok := parts[shard]
		if !ok {
			part = s
			part.Changes = nil
		}
		part.Changes = append(part.Changes, c)
		parts[shard] = part
	}
	for _, shard := range slices.Sorted(maps.Keys(parts)) {
		if err := fn(shard, parts[shard]); err != nil {
			return err
		}
	}
	return nil
}

// Now returns the time by Redis' clock.
func (w *StepWalk) Now(ctx context.Context) (time.Time, error) { return w.registry.ring.Now(ctx, 0) }
