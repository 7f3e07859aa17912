package accounts

import (
	"context"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// slotsShown is how many of its cadence's next slots an explanation has.
	slotsShown = 3
)

// Explanation is why an account is where it is, and checked when it is.
type Explanation struct {
	View  // its State's Since is that of a waiting account, too
	Now   time.Time
	Shard int

	Rule    string // what decides when it is checked next, in a word
	Why     string // the same in a sentence
	DueRule string // what decided when it became due; it may wait or be held since

	Lane    string      // that it waits in when it is due, but for a nudge
	Waits   *Waits      // of a waiting account
	Slots   []time.Time // the next ones of its cadence, provided that checks succeed
	Nudged  time.Time   // the check that somebody asked for while it circulates; zero: none
	History circulate.History
	Marks   []string // how the last checks went, the newest first
	Error   string   // what went wrong with the last check; empty: nothing
	ErrorAt time.Time
	Warning string // what was wrong at the last check though it succeeded; empty: nothing

	Retention time.Duration // for how long the third party keeps its messages; 0: not known
	Skip      time.Time     // messages from before are passed over until it has caught up; zero: none is
}

// Waits is what a due account waits for.
type Waits struct {
	Lane                string // that it waits in; empty: it stands too far behind to be found
	Ahead               int    // of its lane, those that are taken before it
	Urgent, Normal, Low int    // that wait in the lanes of its shard
}

// Staleness is how long ago a check last succeeded completely or, where none
// ever did, the account was registered. It is false where that is not known.
func (e *Explanation) Staleness() (time.Duration, bool) {
	if e.History.Succeeded.IsZero() {
		return 0, false
	}
	return max(0, e.Now.Sub(e.History.Succeeded)), true
}

// NeverSucceeded reports that no check ever succeeded completely, also of an account
// that was never checked.
func (e *Explanation) NeverSucceeded() bool {
	return len(e.History.Marks) == 0 || e.History.NeverSucceeded()
}

// Explain tells of one account where it is, when it is checked next, and which
// rule decided that; or returns ErrNotFound. Of an account whose record cannot be
// read it tells all else.
func (r *Registry) Explain(ctx context.Context, id string) (Explanation, error) {
	account := r.ring.Account(id)
	view, err := account.Look(ctx)
	if err != nil {
		return Explanation{}, translate(err, id)
	}
	turn, err := account.QueuePosition(ctx)
	if err != nil {
		return Explanation{}, err
	}
	e := explain(&view, account.Shard(), turn)
	e.readRetention(r.kinds)
	return e, nil
}

// explain puts together what is known of an account. Between the look and the
// turn it may have moved on; then what one does not know of it is left out.
func explain(v *circulate.View, shard int, turn circulate.QueuePosition) Explanation {
	e := Explanation{
		View: viewOf(v), Now: v.Now, Shard: shard,
		Lane: laneWord(v.Priority), DueRule: RuleWord(v.Rule),
		Nudged: v.NudgedTo, History: v.History, Error: v.Error, ErrorAt: v.ErrorAt,
	}
	for _, mark := range v.History.Marks {
		e.Marks = append(e.Marks, MarkWord(mark))
	}
	if v.Place == circulate.Waiting {
		e.State.Since = turn.Since
		e.Waits = &Waits{Ahead: turn.Ahead, Urgent: turn.Urgent, Normal: turn.Normal, Low: turn.Low}
		if turn.Lane != 0 {
			e.Waits.Lane = laneWord(turn.Lane)
		}
	}
	e.Skip, e.Warning = SkipBefore(turn.State), WarningIn(turn.State)
	if e.Fault == "" {
		e.readCadence(turn.State)
	}
	e.Rule, e.Why = e.reason()
	return e
}

// readCadence tells the cadence, also of an account that names none, and its next
// slots: those from when the account is due, for another rule than the cadence may
// have put that off, as after a failure. A parked account has none.
func (e *Explanation) readCadence(state string) {
	rhythm, err := cadence.Parse(e.Cadence)
	if err != nil {
		e.Fault = "cadence: " + err.Error()
		return
	}
	e.Cadence = rhythm.String()
	kept, _ := cadence.ParseState(state) // what cannot be read begins anew, here as in a poller
	if e.State.Place == circulate.Parked {
		return
	}
	from := e.Now
	if before := e.State.Due.Add(-time.Millisecond); before.After(from) {
		from = before // a slot at which it is due is the first
	}
	for len(e.Slots) < slotsShown {
		slot, ok := rhythm.After(e.ID, from, kept)
		if !ok || !slot.After(from) { // the tight ring has no slots
			return
		}
		e.Slots = append(e.Slots, slot)
		from = slot
	}
}

// paused reports whether somebody parked an account, rather than what went wrong
// with it. The ring takes it the same way when a record changes.
func paused(reason string) bool { return strings.HasPrefix(reason, circulate.ReasonPaused) }
