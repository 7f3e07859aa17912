package cadence

import "time"

// Class is the result of a check, as far as it matters for the next one.
type Class uint8

// The classes.
const (
	Succeeded     Class = iota
	Transient           // a failure that may pass; counts toward the retry budget
	Blameless           // a failure that the account did not cause; backoff without a count
	Throttled           // the upstream asked to wait; counts toward nothing
	AuthFailed          // the credential was refused; parked after AuthBudget
	Gone                // parked at once
	ConfigInvalid       // parked at once
)

const (
	// RetryBudget is the number of failures in a row that parks an account whose Policy
	// sets none.
	RetryBudget = 16
	// MaxRetryBudget is the highest number that a Policy may set.
	MaxRetryBudget = 1000
	// AuthBudget is the number of refusals of its credential that parks an account, if
	// AuthOver lies between the first and the last.
	AuthBudget = 3
	// AuthOver is the least time between the first and the last refusal that park.
	AuthOver = (AuthBudget - 1) * AuthRetry
	// AuthRetry is the least time between two tries of a refused credential, unless
	// somebody nudges: an upstream may ban clients that try a wrong secret too often.
	AuthRetry = 5 * time.Minute

	// BackoffCap is the longest pause after failures in a row, unless the longest interval of
	// the account's cadence is longer.
	BackoffCap = time.Hour

	// ThrottlePause is the pause of an account whose upstream limits checks without a time to
	// wait.
	ThrottlePause = 30 * time.Second

	// The first pause after failures in a row, of which up to a half is taken off.
	backoffLeast = 2 * time.Second
	backoffMost  = 30 * time.Second
	// throttleSpread is the largest part of a Retry-After that is added at random, so
	// that throttled accounts do not come back all at once.
	throttleSpread = 0.1
)

// Policy is an account's own settings for its failures, and the budget that it shares with others.
type Policy struct {
	RetryBudget int // 0 means the default
	Budget      Budget
}

// budget returns the number of failures in a row that parks the account.
func (p Policy) budget() int {
	if p.RetryBudget == 0 {
		return RetryBudget
	}
	return p.RetryBudget
}

// Outcome is the result of a check.
type Outcome struct {
	Class      Class
	Found      bool          // a page of the check had messages
	Messages   int           // of all its pages
	More       bool          // the upstream has more: check again at once, behind the others
	RetryAfter time.Duration // the wait that the upstream asked for after a failure; it is honoured in full
	PollAfter  time.Duration // the least wait that the upstream asked for after a success
	Final      bool          // with AuthFailed: trying again is useless; parked at once
	Shared     bool          // with Blameless: the cause has a state that replicas share, which keeps checks from it
	Text       string        // the failure's text; goes into the reason of parking
}

// backoff returns the wait after the n-th failure in a row: U(½,1) · min(cap, first · 2^(n-1)).
// The cap is an hour or the longest interval, whichever is longer.
func backoff(first time.Duration, n int, longest time.Duration, chance float64) time.Duration {
	wait := max(BackoffCap, longest)
	if n = max(1, n); n-1 < 26 { // 2 s · 2^25 is 776 days, longer than any cap
		wait = min(wait, first<<(n-1))
	}
	return time.Duration((0.5 + chance/2) * float64(wait))
}
