package accounts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// Action is what a Bulk does to its accounts.
type Action string

// The actions.
const (
	// PauseAll pauses accounts that circulate. A parked account retains its reason,
	// unless the selector names parked accounts or reasons, so that a later ResumeAll
	// brings back exactly the accounts that circulated before.
	PauseAll Action = "pause"
	// ResumeAll brings paused accounts back. If the selector names parked accounts, reasons
	// or causes, it brings parked ones back too. Each account is due at its next phase
	// slot, not at once, so that a million do not all start together.
	ResumeAll Action = "resume"
	// DeleteAll deregisters accounts. Their messages stay.
	DeleteAll Action = "delete"
	// NudgeAll nudges accounts, one after the other at a rate. A parked account stays as it
	// is, and no check becomes later.
	NudgeAll Action = "nudge"
	// RetryAll has accounts checked: it revives parked ones and nudges the others, one after
	// the other at a rate. A paused account stays as it is.
	RetryAll Action = "retry"
	// SetAll changes cadence, priority and labels in the records of accounts. An account is
	// due next as its cadence says, and a parked one stays parked.
	SetAll Action = "set"
)

// Actions returns all actions.
func Actions() []Action { return []Action{PauseAll, ResumeAll, DeleteAll, NudgeAll, RetryAll, SetAll} }

func wordsOf[T ~string](all []T) string {
	words := make([]string, len(all))
	for i, a := range all {
		words[i] = string(a)
	}
	return strings.Join(words, ", ")
}

// paced reports whether the action makes accounts due at a rate.
func (a Action) paced() bool { return a == NudgeAll || a == RetryAll }

const (
	// bulkStep is the number of accounts that a step changes, about a millisecond of
	// Redis' time. bulkParallel is the number of steps under way at once, each in another
	// shard: other users of Redis wait for at most that many.
	bulkStep     = 100
	bulkParallel = 4
	// progressPause is the time between two reports of progress.
	progressPause = 500 * time.Millisecond
)

// Bulk is one action on all accounts that a selector selects.
type Bulk struct {
	Action   Action
	Selector Selector
	All      bool // select every account; an empty selector is refused without it
	DryRun   bool // only count

	// Reasons is called at the end, even if that is an error, with why accounts needed no
	// change or left meanwhile: Unchanged of the result is their sum. Nil: nobody asks.
	Reasons func(Reasons)

	Rate float64 // with NudgeAll and RetryAll: how many accounts become due in a second; 0 means NudgeRate

	// Set is what SetAll changes: a JSON merge patch with the fields cadence, priority and
	// labels.
	Set json.RawMessage

	undo bool // the steps take back what the action did; of a StepWalk
}

const (
	// NudgeRate is the rate of NudgeAll unless the caller asks otherwise.
	NudgeRate = ReviveRate
)

// Validate returns every fault as Faults, or nil.
func (b Bulk) Validate() error {
	var faults Faults
	errors.As(b.Selector.Validate(), &faults) // it returns only Faults
	if !slices.Contains(Actions(), b.Action) {
		faults.Add("action", fmt.Sprintf("must be one of %s, is %q", wordsOf(Actions()), b.Action))
	}
	switch {
	case b.Action == SetAll:
		_, setFaults := decodeSet(b.Set)
		faults = append(faults, setFaults...)
	case len(b.Set) > 0:
		faults.Add("set", fmt.Sprintf("is for the action %s alone", SetAll))
	}
	switch {
	case b.Rate != 0 && !b.Action.paced():
		faults.Add("rate", "is for nudges and retries alone")
	case b.Rate != 0 && !(b.Rate >= MinReviveRate && b.Rate <= MaxReviveRate):
		faults = append(faults, rateFault)
	}
	switch {
	case b.Selector.Empty() && !b.All:
		faults.Add("all", "must be true if the selector is empty: it selects every account")
	case !b.Selector.Empty() && b.All:
		faults.Add("all", "must not be true if the selector is not empty")
	}
	return faults.Err()
}

// Progress is how far a Bulk is, and at the end its result. At the end Matched is the
// sum of the fields after it.
type Progress struct {
	Seen      int // accounts that were looked at; of a bound registry, those that matched
	Matched   int // accounts that the selector selects
	Changed   int // accounts that were changed, or would be in a dry run
	Unchanged int // accounts that needed no change, or left meanwhile
	Failed    int // accounts that were not changed: Redis refused, or could not be reached
	Unknown   int // accounts whose step was cut off: they may have been changed
}

func (p *Progress) add(q Progress) {
	p.Seen += q.Seen
	p.Matched += q.Matched
	p.Changed += q.Changed
	p.Unchanged += q.Unchanged
	p.Failed += q.Failed
	p.Unknown += q.Unknown
}

// Bulk does one action to all selected accounts, and calls report twice a second with its
// progress. An account is selected by its state at the moment when Bulk looks at it. Bulk
// looks at every account that stays registered once, or twice if the account moves to
// another shard while the number of shards changes.
//
// Bulk returns Faults if b is not valid. It stops at the first error of Redis, report or
// ctx, and returns that error with the result so far, part of which may be unknown.
// Repeating it is safe: it changes what is left.
//
// Bulk holds the ids of a few shards in memory, and occupies Redis for about a
// millisecond at a time.
func (r *Registry) Bulk(ctx context.Context, b Bulk, report func(Progress) error) (Progress, error) {
	if err := b.Validate(); err != nil {
		return Progress{}, err
	}
	w := &bulkWalk{registry: r, Bulk: b}
	return w.run(ctx, report)
}

// bulkWalk is a Bulk under way.
type bulkWalk struct {
	Bulk
	registry *Registry
	done     chan Progress // what each step did
	began    time.Time
	nudged   atomic.Int64 // accounts that got a due time
	bounded  bool         // the walk looks at a limited number of accounts
	left     atomic.Int64 // how many it may still look at, if it is bounded

	mu      sync.Mutex // guards reasons
	reasons Reasons
}

// unchanged adds the reasons of accounts that a step did not change.
func (w *bulkWalk) unchanged(reasons Reasons) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reasons = w.reasons.Plus(reasons)
}

// errEnough ends a bounded walk that has looked at as many accounts as it may.
var errEnough = errors.New("accounts: enough")

// run does the action in all shards, and reports and returns what was done.
func (w *bulkWalk) run(ctx context.Context, report func(Progress) error) (Progress, error) {
	r := w.registry
	w.Selector = r.within(w.Selector)
	w.done, w.began = make(chan Progress), time.Now()
	w.Rate = cmp.Or(w.Rate, NudgeRate)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() {
		defer close(w.done)
		if err := r.inOrder(ctx, w.shards); err != nil {
			fail(err)
		}
	}()
	sum := w.collect(report, fail)
	if w.Reasons != nil {
		w.Reasons(w.reasons)
	}
	if err := context.Cause(ctx); err != nil {
		return sum, fmt.Errorf("%s stopped: %w", w.Action, err)
	}
	return sum, nil
}

// shards processes the shards from from to before to, several at a time.
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

// collect sums up what the workers do until all have ended.
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
			// Report even without progress: a write shows whether the caller is still there.
			if err := report(sum); err != nil {
				fail(err)
			}
		}
	}
}

// work processes one shard.
func (w *bulkWalk) work(ctx context.Context, shard int) error {
	ids, err := w.registry.idsFor(ctx, shard, &w.Selector)
	if err != nil {
		return err
	}
	seen := len(ids)
	ids = w.Selector.passes(ids)
	if len(w.registry.labels) == 0 {
		w.done <- Progress{Seen: seen - len(ids)}
	}
	w.left.Add(-int64((seen - len(ids)) / passedPerLook))
	for step := range slices.Chunk(ids, bulkStep) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if w.bounded && w.left.Add(-int64(len(step))) < 0 {
			return errEnough
		}
		did, err := w.step(ctx, shard, step)
		w.done <- did
		if err != nil {
			return err
		}
	}
	return nil
}

// step processes some accounts of a shard.
func (w *bulkWalk) step(ctx context.Context, shard int, ids []string) (Progress, error) {
	did := Progress{Seen: len(ids)}
	chosen, now, err := w.registry.choose(ctx, shard, ids, &w.Selector)
	if err != nil {
		return Progress{}, err
	}
	did.Matched = len(chosen)
	if len(w.registry.labels) > 0 {
		did.Seen = did.Matched // the number of others is secret
	}
	planned := w.registry.plan(ctx, &w.Bulk, chosen, now)
	did.Unchanged = did.Matched - len(planned.Changes)
	w.unchanged(planned.Reasons)
	if len(planned.Changes) == 0 {
		return did, nil
	}
	done := Done{Changed: len(planned.Changes)}
	if !w.DryRun {
		lead := time.Duration(0)
		if w.Action.paced() {
			n := int64(len(planned.Changes))
			planned.First, lead = int(w.nudged.Add(n)-n), time.Since(w.began)
		}
		done, err = w.registry.do(ctx, &w.Bulk, shard, planned.Step, lead)
	}
	left := len(planned.Changes) - done.Changed
	did.Changed = done.Changed
	switch {
	case err == nil:
		did.Unchanged += left
		w.unchanged(done.Reasons)
	case circulate.Unknown(err):
		did.Unknown = left
	default:
		did.Failed = left
	}
	return did, err
}

// nextSlot returns when an account is due next by its cadence, or the zero time, which
// means at once, if its cadence cannot be read.
func nextSlot(g *circulate.BriefView, now time.Time) time.Time {
	fields, err := strict.Stored(g.Record)
	if err != nil {
		return time.Time{}
	}
	text, _ := strict.TextIn(fields, "cadence") // without one the default applies
	rhythm, err := cadence.Parse(text)
	if err != nil {
		return time.Time{}
	}
	due, _ := rhythm.After(g.ID, now, cadence.State{})
	return due
}

// choose returns the selected ones among some accounts of a shard, and the time by
// Redis' clock.
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

// idsIn returns the ids of chosen accounts.
func idsIn(chosen []circulate.BriefView) []string {
	ids := make([]string, len(chosen))
	for i := range chosen {
		ids[i] = chosen[i].ID
	}
	return ids
}
