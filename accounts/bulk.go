package accounts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// Action is what is done to many accounts at once.
type Action string

// The actions.
const (
	// PauseAll pauses what circulates. What is parked for another reason stays so
	// with that reason, unless the selector names parked accounts or reasons: so
	// that to resume afterwards brings back what circulated before.
	PauseAll Action = "pause"
	// ResumeAll brings paused accounts back, or those parked for any reason where
	// the selector names parked accounts or reasons. Each is due at its next phase
	// slot, not at once, so that a million do not all start together.
	ResumeAll Action = "resume"
	// DeleteAll deregisters accounts; their messages stay.
	DeleteAll Action = "delete"
)

const (
	// bulkStep is how many accounts a step changes: about a millisecond of Redis'
	// time. bulkParallel is how many steps are under way at once, each in another
	// shard: the others that use Redis wait for no more of them.
	bulkStep     = 100
	bulkParallel = 4
	// progressPause is how often a caller is told how far it is.
	progressPause = 500 * time.Millisecond
)

// Bulk says what is to be done to which accounts.
type Bulk struct {
	Action   Action
	Selector Selector
	All      bool // every account is meant; without it an empty selector is refused
	DryRun   bool // only count
}

// Validate returns every fault as Faults, or nil.
func (b Bulk) Validate() error {
	var faults Faults
	errors.As(b.Selector.Validate(), &faults) // it returns nothing else
	switch b.Action {
	case PauseAll, ResumeAll, DeleteAll:
	default:
		faults.Add("action", fmt.Sprintf("must be %s, %s or %s, is %q", PauseAll, ResumeAll, DeleteAll, b.Action))
	}
	switch {
	case b.Selector.Empty() && !b.All:
		faults.Add("all", "must be true where nothing selects accounts: every account would be meant")
	case !b.Selector.Empty() && b.All:
		faults.Add("all", "must not be true where something selects accounts")
	}
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// Progress is how far a Bulk is, and what it came to at the end. Matched is the
// sum of what follows it, once all is done.
type Progress struct {
	Seen      int // accounts that were looked at
	Matched   int // of them that the selector selects
	Changed   int // or would be, in a dry run
	Unchanged int // are so already, or are not meant, or went away meanwhile
	Failed    int // to which nothing was done: Redis refused, or could not be reached
	Unknown   int // whose step was cut off: it may have been done
}

func (p *Progress) add(q Progress) {
	p.Seen += q.Seen
	p.Matched += q.Matched
	p.Changed += q.Changed
	p.Unchanged += q.Unchanged
	p.Failed += q.Failed
	p.Unknown += q.Unknown
}

// Bulk does one thing to all accounts that are selected as they are when they
// are looked at, and tells report how far it is, now and then. Accounts that are
// registered throughout are looked at once, or twice if they go to another shard
// meanwhile, as the number of shards changes. It stops when Redis, report or ctx
// fails, and says so; what it came to until then is returned even so. Some of that
// may be unknown; to do the same again is safe, and finds what is left. It returns
// Faults for what is not valid.
//
// It holds the ids of a few shards in memory, and Redis for about a millisecond
// at a time.
func (r *Registry) Bulk(ctx context.Context, b Bulk, report func(Progress) error) (Progress, error) {
	if err := b.Validate(); err != nil {
		return Progress{}, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	w := &bulkWalk{registry: r, Bulk: b, done: make(chan Progress)}
	go func() {
		defer close(w.done)
		if err := r.inOrder(ctx, w.shards); err != nil {
			fail(err)
		}
	}()
	sum := w.collect(report, fail)
	if err := context.Cause(ctx); err != nil {
		return sum, fmt.Errorf("%s stopped: %w", b.Action, err)
	}
	return sum, nil
}

// bulkWalk is a Bulk under way.
type bulkWalk struct {
	Bulk
	registry *Registry
	done     chan Progress
}

// shards deals with the shards from one to before another, several at a time.
func (w *bulkWalk) shards(ctx context.Context, from, to int) error {
	workers, working := errgroup.WithContext(ctx)
	workers.SetLimit(bulkParallel)
	for shard := from; shard < to && working.Err() == nil; shard++ {
		workers.Go(func() error { return w.work(working, shard) })
	}
	if err := workers.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// collect adds up what the workers do until all have ended.
func (w *bulkWalk) collect(report func(Progress) error, fail context.CancelCauseFunc) Progress {
	var sum Progress
	tick := time.NewTicker(progressPause)
	defer tick.Stop()
	for {
		select {
		case step, ok := <-w.done:
			if !ok {
				return sum
			}
			sum.add(step)
		case <-tick.C:
			// Even where nothing happened: so it shows who has gone.
			if err := report(sum); err != nil {
				fail(err)
			}
		}
	}
}

// work deals with a shard.
func (w *bulkWalk) work(ctx context.Context, shard int) error {
	ids, err := w.registry.idsOf(ctx, shard)
	if err != nil {
		return err
	}
	seen := len(ids)
	ids = w.Selector.passes(ids)
	w.done <- Progress{Seen: seen - len(ids)}
	for len(ids) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		step := ids[:min(len(ids), bulkStep)]
		ids = ids[len(step):]
		did, err := w.step(ctx, shard, step)
		w.done <- did
		if err != nil {
			return err
		}
	}
	return nil
}

// step deals with some accounts of a shard.
func (w *bulkWalk) step(ctx context.Context, shard int, ids []string) (Progress, error) {
	did := Progress{Seen: len(ids)}
	chosen, now, err := w.registry.choose(ctx, shard, ids, &w.Selector)
	if err != nil {
		return Progress{}, err
	}
	did.Matched = len(chosen)
	meant := chosen[:0]
	for _, g := range chosen {
		if w.means(&g) {
			meant = append(meant, g)
		}
	}
	did.Unchanged = did.Matched - len(meant)
	if len(meant) == 0 {
		return did, nil
	}
	changed := len(meant)
	if !w.DryRun {
		changed, err = w.change(ctx, shard, meant, now)
	}
	switch {
	case err == nil:
		did.Changed, did.Unchanged = changed, did.Unchanged+len(meant)-changed
	case circulate.Unknown(err):
		did.Unknown = len(meant)
	default:
		did.Failed = len(meant)
	}
	return did, err
}

// means reports whether there is anything to do to an account that is selected.
func (w *bulkWalk) means(g *circulate.BriefView) bool {
	switch w.Action {
	case PauseAll:
		return !g.Parked || w.Selector.namesParked() && !paused(g.Reason)
	case ResumeAll:
		return g.Parked && (paused(g.Reason) || w.Selector.namesParked())
	}
	return true
}

// change does it, and returns how many it changed.
func (w *bulkWalk) change(ctx context.Context, shard int, meant []circulate.BriefView, now time.Time) (int, error) {
	ring := w.registry.ring
	ids := make([]string, len(meant))
	for i := range meant {
		ids[i] = meant[i].ID
	}
	switch w.Action {
	case PauseAll:
		// As they were seen: a reason that came in between says more than a pause.
		seen := make(map[string]string, len(meant))
		for i := range meant {
			seen[ids[i]] = meant[i].Reason
		}
		return ring.ParkIf(ctx, shard, circulate.ReasonPaused, seen)
	case DeleteAll:
		return ring.Deregister(ctx, shard, ids)
	}
	items := make([]circulate.Resumption, len(meant))
	for i := range meant {
		// For this very reason: what is parked for another one since was not seen.
		items[i] = circulate.Resumption{ID: ids[i], Due: nextSlot(&meant[i], now), Reason: meant[i].Reason}
	}
	outcomes, err := ring.ResumeAll(ctx, shard, items)
	back := 0
	for _, o := range outcomes {
		if o == circulate.BackAgain {
			back++
		}
	}
	return back, err
}

// nextSlot is when an account is due next by its cadence; the zero time, which is
// at once, where that cannot be told.
func nextSlot(g *circulate.BriefView, now time.Time) time.Time {
	fields, err := strict.Stored(g.Record)
	if err != nil {
		return time.Time{}
	}
	text, _ := strict.TextIn(fields, "cadence") // none is the default
	rhythm, err := cadence.Parse(text)
	if err != nil {
		return time.Time{}
	}
	due, _ := rhythm.After(g.ID, now, cadence.State{})
	return due
}

// choose returns those of some accounts of a shard that are selected, and the time
// by Redis' clock.
func (r *Registry) choose(ctx context.Context, shard int, ids []string, s *Selector) ([]circulate.BriefView, time.Time, error) {
	if s.needsLook() {
		return r.chooseLooked(ctx, shard, ids, s)
	}
	all, now, err := r.ring.LookBrief(ctx, shard, ids)
	if err != nil {
		return nil, now, err
	}
	chosen := all[:0]
	for _, g := range all {
		place := circulate.Place("")
		if g.Parked {
			place = circulate.Parked
		}
		if s.matches(g.Record, place, g.Reason) {
			chosen = append(chosen, g)
		}
	}
	return chosen, now, nil
}

func (r *Registry) chooseLooked(ctx context.Context, shard int, ids []string, s *Selector) ([]circulate.BriefView, time.Time, error) {
	views, err := r.ring.Look(ctx, shard, ids)
	if err != nil {
		return nil, time.Time{}, err
	}
	var chosen []circulate.BriefView
	var now time.Time
	for i := range views {
		v := &views[i]
		now = v.Now
		if s.matchesView(v) {
			chosen = append(chosen, circulate.BriefView{ID: v.ID, Record: v.Record, Parked: v.Place == circulate.Parked, Reason: v.Reason})
		}
	}
	return chosen, now, nil
}
