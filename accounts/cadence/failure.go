package cadence

import "time"

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
	// RetryBudget is how many failures in a row park an account whose Policy
	// says nothing else.
	RetryBudget = 16
	// MaxRetryBudget is the most that a Policy may say.
	MaxRetryBudget = 1000
	// AuthBudget is how many refusals of its credential park an account, if they
	// go over AuthOver at least.
	AuthBudget = 3
	// AuthOver is over how long refusals go at least before they park.
	AuthOver = (AuthBudget - 1) * AuthRetry
	// AuthRetry is how far refusals are apart at least, unless somebody nudges: an
	// upstream may ban who tries a wrong secret too often.
	AuthRetry = 5 * time.Minute

	backoffBase = 30 * time.Second
	backoffCap  = time.Hour
	// throttleSpread is the part of a Retry-After that is added by chance, so
	// that those told to wait do not come back all at once.
	throttleSpread = 0.1
)

// Policy is what an account may set of how its failures are dealt with.
type Policy struct {
	RetryBudget int // 0 means the default
}

func (p Policy) retryBudget() int {
	if p.RetryBudget == 0 {
		return RetryBudget
	}
	return p.RetryBudget
}

// Outcome is what a check came to.
type Outcome struct {
	Class      Class
	Found      bool          // messages came, with any page of the check
	More       bool          // the upstream has more: again at once, behind the others
	RetryAfter time.Duration // the upstream's wish; honoured in full
	PollAfter  time.Duration // a success that asks for a pause: a floor
	Final      bool          // of AuthFailed: nothing will come of trying again; parked at once
	Text       string        // of the failure; goes into the reason of parking
}

// backoff after the n-th failure in a row is U(½,1) · min(cap, 30 s · 2^(n-1)),
// the cap being an hour or the longest interval, whichever is longer.
func backoff(n int, longest time.Duration, chance float64) time.Duration {
	wait := max(backoffCap, longest)
	if n = max(1, n); n-1 < 21 { // 30 s · 2^20 is 364 days, the last below the longest cap
		wait = min(wait, backoffBase<<(n-1))
	}
	return time.Duration((0.5 + chance/2) * float64(wait))
}
