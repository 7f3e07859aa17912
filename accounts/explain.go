package accounts

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// slotsShown is the most slots of its cadence that an explanation has.
	slotsShown = 3
)

// Explanation says why an account is where it is, and why it is checked when it is.
type Explanation struct {
	View  // its State.Since is set for a waiting account too
	Now   time.Time
	Shard int

	Rule    string // the rule that decides when it is checked next, in a word
	Why     string // the same in a sentence
	DueRule string // the rule that decided when it became due, even if it has been waiting or claimed since

	Lane    string      // the lane for when it is due, unless it was nudged
	Waits   *Waits      // what is ahead of a waiting account; nil: it does not wait
	Slots   []time.Time // the next slots of its cadence, provided that checks succeed
	Nudged  time.Time   // when a requested check is due; zero: none was requested
	History circulate.History
	Marks   []string // how the last checks went, the newest first
	Error   string   // why the last check failed; empty: it did not
	ErrorAt time.Time
	Warning string // the last check's warning, if it succeeded; empty: none

	Retention time.Duration // how long the third party retains its messages; 0: unknown
	Hold      time.Duration // how long the third party holds a call until something comes; 0: not at all
	Skip      time.Time     // older messages are dropped until the account has caught up; zero: none are

	// Shares names what the account shares with others by its rate key, such as its host, as limits do:
	// KIND/KEY. Empty: nothing.
	Shares string

	trouble *Trouble // of what it shares; nil: none is known

	remembered cadence.State // the state that earlier checks left, without Failures
}

// Waits says how many accounts wait beside a due one.
type Waits struct {
	Lane                string // the lane that it waits in; empty: it is too far behind to be found
	Ahead               int    // accounts in its lane that are claimed before it
	Kind                string // the kind that it waits by, because some replica does not check it; Ahead then counts that kind
	Urgent, Normal, Low int    // accounts that wait in each lane of its shard
}

// ClaimsBefore returns about how many accounts of the shard are claimed before a waiting
// one, if no more arrive in the meantime: the accounts ahead of it in its lane, and the
// share of the other lanes. See circulate.Priority. It returns false if that is unknown.
func (w *Waits) ClaimsBefore() (int, bool) {
	turn := w.Ahead + 1
	switch {
	case w.Kind != "": // half of a claim is of accounts that wait by kind
		return min(2*w.Ahead, w.Ahead+w.Urgent+w.Normal+w.Low), true
	case w.Lane == laneWord(circulate.Urgent):
		return w.Ahead + min(w.Normal, turn*3/12) + min(w.Low, turn/12), true
	case w.Lane == laneWord(circulate.Normal):
		return min(w.Ahead+w.Urgent, turn*15/3) + min(w.Low, turn/3), true
	case w.Lane == laneWord(circulate.Low):
		return min(w.Ahead+w.Urgent+w.Normal, turn*16), true
	}
	return 0, false
}

// Parking returns what parks the account if its checks go on failing like the last one
// that counted against it. It returns false for an account that does not fail, has an
// unreadable record, or is parked already.
func (e *Explanation) Parking() (cadence.Parking, bool) {
	if e.Fault != "" || e.State.Failures == 0 || e.State.Place == circulate.Parked {
		return cadence.Parking{}, false
	}
	state := e.remembered
	state.Failures = e.State.Failures
	return ParkingOf(e.Policy(), e.Marks, state), true
}

// ParkingOf returns what parks an account that has failed, if its checks go on failing like
// the last one that counted against it. Marks say how its last checks went, the newest
// first.
func ParkingOf(p cadence.Policy, marks []string, s cadence.State) cadence.Parking {
	for _, word := range marks {
		switch class := ClassOfMark(word); class {
		case cadence.Blameless, cadence.Throttled:
		case cadence.Succeeded:
			return p.Parking(cadence.Transient, s)
		default:
			return p.Parking(class, s)
		}
	}
	return p.Parking(cadence.Transient, s) // the failure that counted is too long ago
}

// Staleness returns the time since a check last succeeded completely or, if none ever
// did, since the account was registered. It returns false if that is unknown.
func (e *Explanation) Staleness() (time.Duration, bool) {
	if e.History.Succeeded.IsZero() {
		return 0, false
	}
	return max(0, e.Now.Sub(e.History.Succeeded)), true
}

// NeverSucceeded reports whether no check ever succeeded completely. That includes an
// account that was never checked.
func (e *Explanation) NeverSucceeded() bool {
	return len(e.History.Marks) == 0 || e.History.NeverSucceeded()
}

// Explain returns where an account is, when it is checked next, and which rule decided
// that. If its record cannot be read, it returns everything else. It returns ErrNotFound
// for an id that no account has.
func (r *Registry) Explain(ctx context.Context, id string) (Explanation, error) {
	account := r.ring.Account(id)
	view, err := account.Look(ctx)
	if err != nil {
		return Explanation{}, translate(err, id)
	}
	if !r.sees(view.Record) {
		return Explanation{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	position, err := account.QueuePosition(ctx)
	if err != nil {
		return Explanation{}, err
	}
	e := explain(&view, account.Shard(), position)
	e.readThirdParty(r.kinds)
	return e, nil
}

// sharers may be implemented by Kinds whose accounts share hosts, credentials or the like.
type sharers interface {
	// Shared returns the name of what an account shares with others, as limits have it; empty: nothing.
	Shared(kind string, config json.RawMessage) string
}

// Trouble is the state of what accounts share, such as a host, while it is not well.
type Trouble struct {
	Name   string // as in Explanation.Shares
	Cause  string // the code of the failure that was last reported
	Paused bool   // the third party asked for a pause; otherwise it is down
	Since  time.Time
	Next   time.Time // when the next probe goes out
}

// WaitsAt has the explanation say what is known about what the account waits at.
func (e *Explanation) WaitsAt(t Trouble) {
	e.trouble = &t
	e.Rule, e.Why = e.reason()
}

// explain puts an explanation together from a look at an account and from its position in
// the queue. The account may have moved between the two: then a part is missing.
func explain(v *circulate.View, shard int, position circulate.QueuePosition) Explanation {
	e := Explanation{
		View: viewOf(v), Now: v.Now, Shard: shard,
		Lane: laneWord(v.Priority), DueRule: RuleWord(v.Rule),
		Nudged: v.NudgedTo, History: v.History, Error: v.Error, ErrorAt: v.ErrorAt,
	}
	for _, mark := range v.History.Marks {
		e.Marks = append(e.Marks, MarkWord(mark))
	}
	if v.Place == circulate.Waiting {
		e.State.Since = position.Since
		e.Waits = &Waits{Ahead: position.Ahead, Kind: position.Kind, Urgent: position.Urgent, Normal: position.Normal, Low: position.Low}
		if position.Lane != 0 {
			e.Waits.Lane = laneWord(position.Lane)
		}
	}
	memory, _ := ReadMemory(position.State) // an unreadable cadence begins anew, as it does in a poller
	e.Skip, e.Warning, e.remembered = memory.SkipBefore, memory.Warning, memory.Cadence
	if e.Fault == "" {
		e.readCadence()
	}
	e.Rule, e.Why = e.reason()
	return e
}

// readCadence sets the cadence, or the default of an account that names none, and its next
// slots. The slots begin when the account is due: another rule, such as the pause after a
// failure, may have put that off. A parked account has no slots.
func (e *Explanation) readCadence() {
	rhythm, err := cadence.Parse(e.Cadence)
	if err != nil {
		e.Fault = "cadence: " + err.Error()
		return
	}
	e.Cadence = rhythm.String()
	if e.State.Place == circulate.Parked {
		return
	}
	from := e.Now
	if before := e.State.Due.Add(-time.Millisecond); before.After(from) {
		from = before // the slot at which it is due comes first
	}
	for len(e.Slots) < slotsShown {
		slot, ok := rhythm.After(e.ID, from, e.remembered)
		if !ok || !slot.After(from) { // the tight ring has no slots
			return
		}
		e.Slots = append(e.Slots, slot)
		from = slot
	}
}

// paused reports whether a person parked an account, and not a failure. The ring judges
// the same way when a record changes.
func paused(reason string) bool { return strings.HasPrefix(reason, circulate.ReasonPaused) }
