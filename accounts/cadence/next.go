package cadence

import (
	"fmt"
	"time"
)

// Class is what a check came to, as far as the next one is concerned.
type Class uint8

// The classes.
const (
	Succeeded     Class = iota
	Transient           // a failure that may pass; counts to the retry budget
	Blameless           // a failure that is not the account's: backoff, but no count
	Throttled           // the upstream asked to wait; counts to nothing
	AuthFailed          // the credential was refused; parked after AuthBudget
	Gone                // parked at once
	ConfigInvalid       // parked at once
)

const (
	// RetryBudget is how many failures in a row park an account.
	RetryBudget = 16
	// AuthBudget is how many refused credentials in a row park an account. They
	// are at least AuthRetry apart.
	AuthBudget = 3
	AuthRetry  = 5 * time.Minute

	backoffBase = 30 * time.Second
	backoffCap  = time.Hour
	// throttleSpread is the part of a Retry-After that is added by chance, so
	// that those told to wait do not come back all at once.
	throttleSpread = 0.1
)

// Outcome is what a check came to.
type Outcome struct {
	Class      Class
	More       bool          // the upstream has more: again at once, behind the others
	RetryAfter time.Duration // the upstream's wish; honoured in full
	PollAfter  time.Duration // a success that asks for a pause: a floor
	Text       string        // of the failure; goes into the reason of parking
}

// Next is the decision.
type Next struct {
	Due      time.Time
	Failures int    // in a row
	Park     string // not empty: parked, with this reason
	Rule     string // what decided: cadence, more, retry-after, poll-after, backoff
}

// Decide says when the account is due next. Failures are those in a row before
// this check. Chance gives a number in [0, 1) and is called at most once.
//
// Backoff after the n-th failure in a row is U(½,1) · min(cap, 30 s · 2^(n-1)),
// the cap being an hour or the interval, whichever is longer.
func Decide(c Cadence, id string, failures int, o Outcome, now time.Time, chance func() float64) Next {
	next := Next{Due: c.After(id, now), Rule: "cadence"}
	later := func(by time.Duration, rule string) {
		if t := now.Add(by); by > 0 && t.After(next.Due) {
			next.Due, next.Rule = t, rule
		}
	}
	switch o.Class {
	case Succeeded:
		if o.More {
			next.Due, next.Rule = now, "more"
		}
		later(o.PollAfter, "poll-after")
		return next
	case Throttled:
		next.Failures = failures
		wait := o.RetryAfter
		if wait == 0 {
			wait = backoffBase
		}
		later(wait+time.Duration(chance()*throttleSpread*float64(wait)), "retry-after")
		return next
	case Gone, ConfigInvalid:
		next.Failures = failures + 1
		next.Park = o.reason()
		return next
	}

	next.Failures = failures
	if o.Class != Blameless {
		next.Failures++
	}
	switch {
	case o.Class == AuthFailed && next.Failures >= AuthBudget:
		next.Park = o.reason()
		return next
	case next.Failures >= RetryBudget && o.Class == Transient:
		next.Park = fmt.Sprintf("retry budget: %d failures in a row, the last: %s", next.Failures, o.Text)
		return next
	}
	wait := backoff(max(1, next.Failures), c.interval, chance())
	if o.Class == AuthFailed {
		wait = max(wait, AuthRetry)
	}
	later(wait, "backoff")
	later(o.RetryAfter, "retry-after")
	return next
}

func (o Outcome) reason() string {
	name := map[Class]string{AuthFailed: "auth", Gone: "gone", ConfigInvalid: "config"}[o.Class]
	return name + ": " + o.Text
}

func backoff(n int, interval time.Duration, chance float64) time.Duration {
	limit := max(backoffCap, interval)
	wait := limit
	if n-1 < 20 { // 30 s · 2^20 is a year, past every cap that leaves a choice
		wait = min(limit, backoffBase<<(n-1))
	}
	return time.Duration((0.5 + chance/2) * float64(wait))
}
