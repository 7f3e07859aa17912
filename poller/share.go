package poller

import (
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
)

// An account may bring so many bytes of messages an hour, by as much at once. What it
// brought counts as time, by how long the share takes to refill; that time is kept
// with the account, so that all replicas hold it to the one share. Nothing is kept of
// an account that brings little.
const (
	shareWindow = time.Hour
	shareMost   = 2 * time.Hour    // of refilling that is owed: a clock that goes back must not hold an account for long
	shareSmall  = 10 * time.Second // likewise: not worth keeping
)

// uses counts a page's messages.
func (f *flight) uses(result *Result) {
	share := f.flights.config.AccountShare
	if share < 0 || len(result.Messages) == 0 {
		return
	}
	now := f.now()
	if f.used.Before(now) {
		f.used = now
	}
	part := min(shareMost.Hours(), float64(sizeOf(result.Messages))/float64(share))
	f.used = f.used.Add(time.Duration(part * float64(shareWindow)))
}

// owes caps what is owed.
func (f *flight) owes() time.Time {
	if most := f.now().Add(shareMost); f.used.After(most) {
		f.used = most
	}
	return f.used
}

// usedUp reports whether the account has nothing left of its share.
func (f *flight) usedUp() bool {
	return f.flights.config.AccountShare > 0 && !f.used.IsZero() && f.owes().After(f.now().Add(shareWindow))
}

// shareAgain is from when on the account may bring something again. The ring's
// milliseconds are cut off, and it must not be claimed again before that.
func (f *flight) shareAgain() time.Time {
	return f.owes().Add(-shareWindow).Truncate(time.Millisecond).Add(time.Millisecond)
}

// withinShare has an account that used up its share wait, and returns what is kept of
// it from now on: what its cadence keeps, and how much of the share is used.
func (f *flight) withinShare(next *cadence.Next) string {
	state := next.State.Encode()
	if f.flights.config.AccountShare < 0 || f.used.IsZero() {
		return state
	}
	if next.Park == "" && f.shareAgain().After(next.Due) {
		next.Due, next.Rule = f.shareAgain(), accounts.RuleShare
	}
	if used := f.owes(); used.After(next.Due) || used.Sub(f.now()) > shareSmall {
		return accounts.WithUsed(state, used)
	}
	return state
}
