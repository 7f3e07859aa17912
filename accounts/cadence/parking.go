package cadence

import "time"

// Parking says what parks an account whose checks go on failing like the last one.
type Parking struct {
	Rule  string        // RuleRetryBudget, RuleAuth, RuleGone or RuleConfig; empty: nothing parks it
	After int           // how many failures in a row, or refusals of the credential, park it
	Over  time.Duration // the least time from the first refusal to the one that parks; 0: none
	Left  int           // how many more park it, at least 1
	From  time.Time     // the earliest time at which it is parked; zero: any
}

// Parking returns what parks an account in a state whose last check ended with a class.
func (p Policy) Parking(c Class, s State) Parking {
	switch c {
	case Transient:
		return Parking{Rule: RuleRetryBudget, After: p.budget(), Left: max(1, p.budget()-s.Failures)}
	case AuthFailed:
		parking := Parking{Rule: RuleAuth, After: AuthBudget, Over: AuthOver, Left: max(1, AuthBudget-s.Refusals)}
		if s.Refusals > 0 {
			parking.From = s.FirstRefusal.Add(AuthOver)
		}
		return parking
	case Gone:
		return Parking{Rule: RuleGone, After: 1, Left: 1}
	case ConfigInvalid:
		return Parking{Rule: RuleConfig, After: 1, Left: 1}
	}
	return Parking{}
}

// LongestPause returns the longest possible pause by RuleBackoff between an account's checks until
// it is parked, if they go on ending with a class. A failure that the account did not
// cause has no growing pauses. Failures is how many there were in a row, and longest the
// longest interval of the account's cadence.
func (p Policy) LongestPause(c Class, failures int, longest time.Duration) time.Duration {
	switch c {
	case Blameless:
		return backoff(backoffMost, failures, longest, 1)
	case AuthFailed:
		return max(AuthRetry, backoff(backoffMost, failures+AuthBudget, longest, 1))
	}
	return backoff(backoffMost, max(failures, p.budget()-1), longest, 1)
}
