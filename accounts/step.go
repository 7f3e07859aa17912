package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// BulkStep is the number of accounts that a step of a Bulk changes at most.
const BulkStep = bulkStep

// Step is a part of a Bulk: some accounts of one shard, and what becomes of them. A caller
// that stores a step before it is done can find out afterwards what came of it, and can
// take it back. It is stored as JSON.
type Step struct {
	Shard   int       `json:"shard"`
	At      time.Time `json:"at"`              // when it was planned, by Redis' clock
	First   int       `json:"first,omitempty"` // how many accounts got a due time before it, if the action is paced
	Changes []Change  `json:"changes"`
}

// Change is what a step does to one account.
type Change struct {
	ID  string          `json:"i"`
	Was string          `json:"w,omitempty"` // why it is parked before; empty: it circulates
	Tag string          `json:"t,omitempty"` // with SetAll: the tag of the record that is written
	Old json.RawMessage `json:"o,omitempty"` // with SetAll: the merge patch that takes the change back
	Set json.RawMessage `json:"s,omitempty"` // the merge patch of this account, if it is not that of the Bulk

	item circulate.Registration // with SetAll
	due  time.Time              // with ResumeAll
}

// Planned is a step that was planned and not done.
type Planned struct {
	Step
	Seen, Matched int     // as in Progress
	Reasons       Reasons // why the other matched accounts need no change
}

// Done is the result of a step.
type Done struct {
	Changed int
	Reasons Reasons // why the other accounts of the step were not changed
}

// The reasons why an account is not changed.
const (
	WhyPaused  = "paused"  // it is paused
	WhyParked  = "parked"  // it is parked for a reason that is not selected
	WhyActive  = "active"  // it circulates
	WhySame    = "same"    // it has these values already
	WhyRefused = "refused" // its record would not be valid
	WhyGone    = "gone"    // it was deregistered meanwhile
	WhyChanged = "changed" // somebody else changed it meanwhile
)

// Reasons says why accounts were not changed, by reason.
type Reasons map[string]Reason

// Reason is the accounts that were not changed for one reason.
type Reason struct {
	Count    int      `json:"count"`
	Examples []string `json:"examples,omitempty"` // the ids of the first ones, at most reasonExamples
}

const reasonExamples = 5

func (r *Reasons) add(why string, ids ...string) { r.addMany(why, len(ids), ids) }

func (r *Reasons) addMany(why string, count int, ids []string) {
	if count <= 0 {
		return
	}
	if *r == nil {
		*r = make(Reasons)
	}
	one := (*r)[why]
	one.Count += count
	room := max(0, reasonExamples-len(one.Examples))
	one.Examples = append(slices.Clip(one.Examples), ids[:min(room, len(ids))]...)
	(*r)[why] = one
}

// Plus returns the sum of two. It changes neither.
func (r Reasons) Plus(more Reasons) Reasons {
	sum := maps.Clone(r)
	for why, one := range more {
		sum.addMany(why, one.Count, one.Examples)
	}
	return sum
}

// Sum returns how many accounts there are.
func (r Reasons) Sum() int {
	sum := 0
	for _, one := range r {
		sum += one.Count
	}
	return sum
}

// settable returns the fields that SetAll may change.
func settable() []string { return []string{"cadence", "labels", "priority"} }

// decodeSet returns the fields of a merge patch for SetAll, or everything that is wrong with
// it.
func decodeSet(patch json.RawMessage) (map[string]json.RawMessage, Faults) {
	fields, err := strict.Object(patch)
	var faults Faults
	if errors.As(err, &faults) || err != nil || len(fields) == 0 {
		return nil, Faults{{Field: "set", Reason: "must name at least one of " + strings.Join(settable(), ", ")}}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		if strict.IsNull(value) && slices.Contains(settable(), name) {
			continue
		}
		switch text, isText := strict.Text(value); name {
		case "cadence":
			if _, err := cadence.Parse(text); err != nil || !isText {
				faults.Add("cadence", fmt.Sprint(errors.Join(err, textFault(isText))))
			}
		case "priority":
			if _, ok := priorities()[text]; !ok || !isText {
				faults = append(faults, priorityFault)
			}
		case "labels":
			faults = append(faults, labelFaults(value)...)
		default:
			faults.Add(name, "cannot be set for many accounts; the fields that can are "+strings.Join(settable(), ", "))
		}
	}
	return fields, faults
}

func textFault(isText bool) error {
	if isText {
		return nil
	}
	return errors.New("must be a text")
}

// labelFaults returns what is wrong with labels to set, or to remove if they are null.
func labelFaults(value json.RawMessage) (faults Faults) {
	labels, ok := strict.Members(value)
	if !ok || len(labels) == 0 || len(labels) > MaxLabels {
		faults.Add("labels", fmt.Sprintf("must be an object with 1 to %d labels", MaxLabels))
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		text, isText := strict.Text(labels[name])
		if name == "" || len(name) > MaxLabel || len(text) > MaxLabel || !isText && !strict.IsNull(labels[name]) {
			faults.Add("labels."+name, fmt.Sprintf("name and value must be texts of at most %d bytes, the name of at least one; null removes the label", MaxLabel))
		}
	}
	return faults
}

// plan decides what a Bulk does to chosen accounts of a shard. Now is when they were looked at.
func (r *Registry) plan(ctx context.Context, b *Bulk, chosen []circulate.BriefView, now time.Time) Planned {
	p := Planned{Step: Step{At: now}, Seen: len(chosen), Matched: len(chosen)}
	set, _ := decodeSet(b.Set) // validated before
	for i := range chosen {
		g := &chosen[i]
		c := Change{ID: g.ID, Was: g.Reason, due: now}
		why := b.needless(g)
		switch {
		case why != "":
		case b.Action == SetAll:
			why = r.planSet(ctx, &c, g.Record, set, now)
		case b.Action == ResumeAll:
			c.due = nextSlot(g, now)
		}
		if why != "" {
			p.Reasons.add(why, g.ID)
			continue
		}
		p.Changes = append(p.Changes, c)
	}
	return p
}

// needless returns why an action does not change a selected account, or "" if it does.
func (b *Bulk) needless(g *circulate.BriefView) string {
	named := b.Selector.namesParked()
	switch b.Action {
	case PauseAll:
		switch {
		case g.Parked && paused(g.Reason):
			return WhyPaused
		case g.Parked && !named:
			return WhyParked
		}
	case NudgeAll:
		if g.Parked {
			return WhyParked
		}
	case RetryAll:
		if g.Parked && paused(g.Reason) {
			return WhyPaused
		}
	case ResumeAll:
		switch {
		case !g.Parked:
			return WhyActive
		case !paused(g.Reason) && !named && len(b.Selector.Causes) == 0:
			return WhyParked
		}
	}
	return ""
}

// planSet plans the change of a record. It returns why there is none, or "".
func (r *Registry) planSet(ctx context.Context, c *Change, stored []byte, set map[string]json.RawMessage, now time.Time) string {
	plain, revision := SplitRevision(stored)
	a, record, err := r.patched(ctx, c.ID, plain, set)
	if err != nil {
		return WhyRefused
	}
	if string(record) == string(plain) {
		return WhySame
	}
	rhythm, _ := cadence.Parse(a.Cadence) // read before
	due, ok := rhythm.After(c.ID, now, cadence.State{})
	if _, sets := set["cadence"]; !ok && sets {
		return WhyRefused // it would never be due
	}
	next := revision.next(now)
	c.Tag, c.Old = next.tag(record), reversed(plain, record)
	c.item = circulate.Registration{ID: c.ID, Before: stored, Record: withRevision(record, next), Due: due, Priority: a.lane()}
	return ""
}

// reversed returns the merge patch that makes a record, as it is after SetAll, what it was
// before.
func reversed(before, after []byte) json.RawMessage {
	was, _ := strict.Stored(before)
	is, _ := strict.Stored(after)
	patch := make(map[string]json.RawMessage)
	null := json.RawMessage("null")
	for _, name := range settable() {
		if string(was[name]) == string(is[name]) {
			continue
		}
		wasLabels, had := strict.Members(was[name])
		isLabels, has := strict.Members(is[name])
		if name != "labels" || !had || !has {
			patch[name] = was[name]
			if was[name] == nil {
				patch[name] = null
			}
			continue
		}
		labels := make(map[string]json.RawMessage)
		differing(wasLabels, isLabels, func(label string) {
			if labels[label] = wasLabels[label]; labels[label] == nil {
				labels[label] = null
			}
		})
		patch[name], _ = encodeJSON(labels) // values that were JSON before
	}
	text, _ := encodeJSON(patch)
	return text
}

// do does a step that was planned in this process. Lead is how long ago the Bulk began. With an
// error, Done has what is known to be changed.
func (r *Registry) do(ctx context.Context, b *Bulk, shard int, s Step, lead time.Duration) (done Done, err error) {
	if len(s.Changes) == 0 {
		return Done{}, nil
	}
	switch {
	case b.Action == PauseAll && b.undo:
		return r.doUnpause(ctx, shard, s)
	case b.Action == PauseAll:
		return r.doPark(ctx, shard, s.Changes, func(*Change) string { return circulate.ReasonPaused }, func(c *Change) string { return c.Was })
	case b.Action == ResumeAll:
		return r.doResume(ctx, shard, s.Changes)
	case b.Action == SetAll:
		return r.doSet(ctx, shard, s.Changes)
	case b.Action.paced():
		return r.doPaced(ctx, b, shard, s, lead)
	}
	n, err := r.ring.Deregister(ctx, shard, changedIDs(s.Changes))
	if err != nil {
		return Done{}, err
	}
	return doneOf(s.Changes, n, WhyGone), nil
}

// doneOf returns the result of a step of which only the number of changed accounts is known.
func doneOf(changes []Change, changed int, why string) (done Done) {
	done.Changed = changed
	done.Reasons.addMany(why, len(changes)-changed, nil)
	return done
}

func changedIDs(changes []Change) []string {
	ids := make([]string, len(changes))
	for i := range changes {
		ids[i] = changes[i].ID
	}
	return ids
}

// doPark parks accounts that are still as they were seen: a newer reason says more than
// this one.
func (r *Registry) doPark(ctx context.Context, shard int, changes []Change, reason, seen func(*Change) string) (done Done, err error) {
	byReason := make(map[string]map[string]string)
	for i := range changes {
		c := &changes[i]
		if byReason[reason(c)] == nil {
			byReason[reason(c)] = make(map[string]string)
		}
		byReason[reason(c)][c.ID] = seen(c)
	}
	for _, why := range slices.Sorted(maps.Keys(byReason)) {
		n, err := r.ring.ParkIf(ctx, shard, why, byReason[why])
		if err != nil {
			return done, err
		}
		done.Changed += n
	}
	done.Reasons.addMany(WhyChanged, len(changes)-done.Changed, nil)
	return done, nil
}

// doUnpause takes a pause back: accounts that circulated do so again, and parked ones have
// their reason again.
func (r *Registry) doUnpause(ctx context.Context, shard int, s Step) (Done, error) {
	var back, parked []Change
	for _, c := range s.Changes {
		if c.Was == "" {
			c.Was = circulate.ReasonPaused
			back = append(back, c)
		} else {
			parked = append(parked, c)
		}
	}
	done, err := r.doResume(ctx, shard, back)
	if err != nil || len(parked) == 0 {
		return done, err
	}
	more, err := r.doPark(ctx, shard, parked, func(c *Change) string { return c.Was }, func(*Change) string { return circulate.ReasonPaused })
	return Done{done.Changed + more.Changed, done.Reasons.Plus(more.Reasons)}, err
}

// doResume resumes accounts that are parked for the reason that was seen. A newer one was
// not selected.
func (r *Registry) doResume(ctx context.Context, shard int, changes []Change) (done Done, err error) {
	if len(changes) == 0 {
		return Done{}, nil
	}
	items := make([]circulate.Resumption, len(changes))
	for i := range changes {
		items[i] = circulate.Resumption{ID: changes[i].ID, Due: changes[i].due, Reason: changes[i].Was}
	}
	outcomes, err := r.ring.ResumeAll(ctx, shard, items)
	for i, o := range outcomes {
		switch o {
		case circulate.BackAgain:
			done.Changed++
		case circulate.NotRegistered:
			done.Reasons.add(WhyGone, items[i].ID)
		default:
			done.Reasons.add(WhyChanged, items[i].ID)
		}
	}
	return done, err
}

func (r *Registry) doSet(ctx context.Context, shard int, changes []Change) (done Done, err error) {
	items := make([]circulate.Registration, len(changes))
	for i := range changes {
		items[i] = changes[i].item
	}
	outcomes, err := r.ring.Revise(ctx, shard, items)
	for i, o := range outcomes {
		if o == circulate.Updated || o == circulate.Unchanged { // a repeated step finds what it wrote
			done.Changed++
		} else {
			done.Reasons.add(WhyChanged, items[i].ID)
		}
	}
	return done, err
}

// doPaced makes accounts due, each a while after the one before.
func (r *Registry) doPaced(ctx context.Context, b *Bulk, shard int, s Step, lead time.Duration) (done Done, err error) {
	var parked []Change
	rate := b.Rate
	if rate == 0 {
		rate = NudgeRate
	}
	for i, c := range s.Changes {
		within := max(0, time.Duration(float64(s.First+i)/rate*float64(time.Second))-lead)
		if c.Was != "" {
			c.due = s.At.Add(within)
			parked = append(parked, c)
			continue
		}
		switch err := r.ring.Account(c.ID).Nudge(ctx, circulate.Nudge{Within: within}); {
		case errors.Is(err, circulate.ErrParked):
			done.Reasons.add(WhyParked, c.ID)
		case errors.Is(err, circulate.ErrNotRegistered):
			done.Reasons.add(WhyGone, c.ID)
		case err != nil:
			return done, err
		default:
			done.Changed++
		}
	}
	more, err := r.doResume(ctx, shard, parked)
	return Done{done.Changed + more.Changed, done.Reasons.Plus(more.Reasons)}, err
}

// standing is what became of a change.
type standing int

const (
	toDo    standing = iota // the account is as it was
	isDone                  // the account is as the change makes it
	isOther                 // somebody else changed it
)

// redo does a step of which nobody knows how much was done. It looks at each account first.
// What the step did before counts as changed once.
func (r *Registry) redo(ctx context.Context, b *Bulk, shard int, s Step, lead time.Duration) (done Done, err error) {
	views, err := r.viewsOf(ctx, shard, s.Changes)
	if err != nil {
		return Done{}, err
	}
	left := s
	left.Changes = nil
	for _, c := range s.Changes {
		v := views[c.ID]
		switch r.standing(ctx, b, &c, v, s.At) {
		case toDo:
			left.Changes = append(left.Changes, c)
		case isDone:
			done.Changed++
		default:
			why := WhyChanged
			if v == nil {
				why = WhyGone
			}
			done.Reasons.add(why, c.ID)
		}
	}
	more, err := r.do(ctx, b, shard, left, lead)
	return Done{done.Changed + more.Changed, done.Reasons.Plus(more.Reasons)}, err
}

// standing returns what became of a change, and prepares it if it is to be done. The view is
// nil if the account is gone.
func (r *Registry) standing(ctx context.Context, b *Bulk, c *Change, v *circulate.View, at time.Time) standing {
	if v == nil || !r.sees(v.Record) {
		if b.Action == DeleteAll && v == nil {
			return isDone
		}
		return isOther
	}
	parked, newer := v.Place == circulate.Parked, v.Since.After(at)
	brief := circulate.BriefView{ID: v.ID, Record: v.Record, Parked: parked, Reason: v.Reason}
	c.due = nextSlot(&brief, v.Now)
	switch {
	case b.Action == SetAll:
		return r.standingSet(ctx, b, c, v)
	case b.Action == PauseAll && !b.undo:
		switch {
		case parked && paused(v.Reason) && (c.Was != "" || !v.Since.Before(at)):
			return isDone
		case v.Reason == c.Was && parked == (c.Was != ""):
			return toDo
		}
		return isOther
	case b.Action == PauseAll: // undone
		switch {
		case parked == (c.Was != "") && v.Reason == c.Was:
			return isDone
		case parked && paused(v.Reason) && !newer:
			return toDo
		}
		return isOther
	case b.Action == DeleteAll:
		if _, revision := SplitRevision(v.Record); revision.Created.After(at) {
			return isDone // and registered anew since
		}
	case c.Was != "": // to be resumed
		if !parked || newer {
			return isDone
		}
		if v.Reason != c.Was {
			return isOther
		}
	}
	return toDo
}

func (r *Registry) standingSet(ctx context.Context, b *Bulk, c *Change, v *circulate.View) standing {
	plain, revision := SplitRevision(v.Record)
	if revision.tag(plain) == c.Tag {
		return isDone
	}
	patch := c.Set
	if patch == nil {
		patch = b.Set
	}
	set, _ := decodeSet(patch) // as it was stored
	again := *c
	if why := r.planSet(ctx, &again, v.Record, set, v.Now); why != "" || again.Tag != c.Tag {
		return isOther
	}
	*c = again
	return toDo
}

// viewsOf looks at the accounts of a step.
func (r *Registry) viewsOf(ctx context.Context, shard int, changes []Change) (map[string]*circulate.View, error) {
	views, err := r.ring.Look(ctx, shard, changedIDs(changes))
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*circulate.View, len(views))
	for i := range views {
		byID[views[i].ID] = &views[i]
	}
	return byID, nil
}

// planUndo plans to take a step back that was done. It leaves out accounts that somebody
// changed since. Until is when the Bulk of the step ended.
func (r *Registry) planUndo(ctx context.Context, b *Bulk, shard int, s Step, until time.Time) (Planned, error) {
	p := Planned{Step: Step{Shard: shard, At: s.At}, Seen: len(s.Changes), Matched: len(s.Changes)}
	views, err := r.viewsOf(ctx, shard, s.Changes)
	if err != nil {
		return p, err
	}
	for _, c := range s.Changes {
		v := views[c.ID]
		if v == nil || !r.sees(v.Record) {
			p.Reasons.add(WhyGone, c.ID)
			continue
		}
		p.At = v.Now
		back := Change{ID: c.ID, Was: c.Was}
		ours := false
		if b.Action == SetAll {
			plain, revision := SplitRevision(v.Record)
			set, faults := decodeSet(c.Old)
			ours = revision.tag(plain) == c.Tag && len(faults) == 0
			back.Set, back.Was = c.Old, ""
			ours = ours && r.planSet(ctx, &back, v.Record, set, v.Now) == ""
			back.Old = nil
		} else {
			ours = v.Place == circulate.Parked && v.Reason == circulate.ReasonPaused &&
				(c.Was != "" || !v.Since.Before(s.At) && !v.Since.After(until))
			back.due = nextSlot(&circulate.BriefView{ID: v.ID, Record: v.Record}, v.Now)
		}
		if !ours {
			p.Reasons.add(WhyChanged, c.ID)
			continue
		}
		p.Changes = append(p.Changes, back)
	}
	return p, nil
}
