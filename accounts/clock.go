package accounts

import (
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// slotMargin is how far a replica's estimate of Redis' clock may be ahead of it.
	slotMargin = 10 * time.Second
	// longestWait is the longest wait that is not for a slot of a cadence: a day, which
	// is the longest pause that an upstream may ask for, and a tenth more.
	longestWait = 27 * time.Hour
)

// ClockStep is what monitors found out about steps of Redis' clock.
type ClockStep struct {
	Steps   int       `json:"steps" doc:"How often monitors saw the clock step ahead or back by 10 seconds or more."`
	At      time.Time `json:"at" doc:"When it last stepped, by the clock after the step."`
	Seconds float64   `json:"seconds" doc:"How far it stepped; negative: back."`
	Moved   int       `json:"moved" doc:"Accounts whose due times, set by the clock before it stepped back, were moved to an earlier time."`
}

// Beyond reports whether an account is scheduled too late: later than its cadence or its
// wait allows by a clock that shows now. It returns when the account should be due
// instead. Back is how far the clock is known to have stepped back; 0 means unknown.
//
// An account that waits for a slot of its cadence becomes due at the next slot. So
// accounts stay spread, and no time that a cadence names comes early. An account in
// another wait retains the rest of it, without the time that the clock stepped back; if
// that time is unknown, it is due now.
func Beyond(f circulate.Far, now time.Time, back time.Duration) (due time.Time, beyond bool) {
	var a Account
	var rhythm cadence.Cadence
	err := json.Unmarshal(f.Record, &a)
	if err == nil {
		rhythm, err = cadence.Parse(a.Cadence)
	}
	if err == nil && slotted(f.Rule, rhythm) {
		memory, _ := ReadMemory(f.State) // an unreadable cadence begins anew, as it does in a poller
		if latest, ok := rhythm.After(f.ID, now.Add(slotMargin), memory.Cadence); ok {
			next, _ := rhythm.After(f.ID, now, memory.Cadence)
			return next, latest.Before(f.Due)
		}
	}
	ahead := f.Due.Sub(now)
	if back > 0 {
		// Accounts due by the old clock are ahead by about the whole step or more, and most
		// that were corrected already by less than half of it.
		return now.Add(max(0, ahead-back)), ahead > back/2
	}
	return now, err == nil && f.Rule != circulate.RuleSlot && ahead > max(longestWait, rhythm.Longest())
}

// slotted reports whether a rule stands for a slot of the cadence.
func slotted(rule circulate.Rule, rhythm cadence.Cadence) bool {
	switch RuleWord(rule) {
	case cadence.RuleCadence, cadence.RuleAdaptive, cadence.RuleBudget, cadence.RuleCron, cadence.RuleAt, cadence.RuleMore:
		return true
	case RuleRegistered, RuleResumed, RuleProbed:
		return rhythm.Timed() // with another cadence it was due at once, or at a requested time
	}
	return false
}
