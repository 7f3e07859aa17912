package accounts

import (
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// slotMargin is how far a replica's reckoning of Redis' clock may be ahead of it.
	slotMargin = 10 * time.Second
	// longestWait is as long as a wait may be that is no slot of a cadence: a day, which
	// is the longest pause that an upstream may ask for, and a tenth of it.
	longestWait = 27 * time.Hour
)

// ClockStep is what monitors found of the steps of Redis' clock.
type ClockStep struct {
	Steps   int       `json:"steps" doc:"How often it went ahead or back by 10 seconds or more, as monitors have seen it."`
	At      time.Time `json:"at" doc:"When it last did, by the clock as it is since then."`
	Seconds float64   `json:"seconds" doc:"How far; negative: back."`
	Moved   int       `json:"moved" doc:"Accounts that were due by the clock before it went back, and are due earlier since then."`
}

// Beyond says whether an account is scheduled later than its cadence, or what it was
// told to wait for, can have decided by a clock that shows now, and when it is due
// instead. Back is how far the clock is known to have gone back, 0 where nothing is
// known of that.
//
// An account that waits for a slot of its cadence is due at the next one, so that
// accounts keep apart as they were, and nothing named by the clock is done before its
// time. An account that was told to wait waits for as long as it would have, without
// what the clock went back by.
func Beyond(f circulate.Far, now time.Time, back time.Duration) (due time.Time, beyond bool) {
	var a Account
	var rhythm cadence.Cadence
	err := json.Unmarshal(f.Record, &a)
	if err == nil {
		rhythm, err = cadence.Parse(a.Cadence)
	}
	if err == nil && slotted(f.Rule, rhythm) {
		state, _ := cadence.ParseState(f.State) // what cannot be read begins anew, here as in a poller
		if latest, ok := rhythm.After(f.ID, now.Add(slotMargin), state); ok {
			next, _ := rhythm.After(f.ID, now, state)
			return next, latest.Before(f.Due)
		}
	}
	ahead := f.Due.Sub(now)
	if back > 0 {
		// Half of it tells apart, well enough, who was put right before.
		return now.Add(max(0, ahead-back)), ahead > back/2
	}
	return now, err == nil && f.Rule != circulate.RuleSlot && ahead > max(longestWait, rhythm.Longest())
}

// slotted reports whether a rule is that of a slot of the cadence.
func slotted(rule circulate.Rule, rhythm cadence.Cadence) bool {
	switch RuleWord(rule) {
	case cadence.RuleCadence, cadence.RuleAdaptive, cadence.RuleCron, cadence.RuleAt, cadence.RuleMore:
		return true
	case RuleRegistered, RuleResumed, RuleProbed:
		return rhythm.Timed() // any other one was due at once, or at a time that was asked for
	}
	return false
}
