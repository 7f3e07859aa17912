package poller

import (
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

// An account has a share: the bytes of messages that it may bring in an hour, or all at once. Used
// bytes are counted as the time that the share takes to refill. That time is stored with the
// account, so that the share counts across all replicas. For an account that brings little, nothing
// is stored.
const (
	shareWindow = time.Hour
	shareMost   = 2 * time.Hour    // the longest refill time that counts: a clock that steps back must not stop an account for long
	shareSmall  = 10 * time.Second // a shorter refill time is not stored
)

// uses counts a page's messages against the share.
func (f *flight) uses(result *Result) {
	share := f.flights.config.AccountShare
	if share < 0 || len(result.Messages) == 0 {
		return
	}
	now := f.shareNow()
	if f.memory.UsedUntil.Before(now) {
		f.memory.UsedUntil = now
	}
	part := min(shareMost.Hours(), float64(sizeOf(result.Messages))/float64(share))
	f.memory.UsedUntil = f.memory.UsedUntil.Add(time.Duration(part * float64(shareWindow)))
}

// shareNow returns the time by Redis' clock. If that clock has stepped since the last call, the
// used share steps with it: an account whose calls are held may stay under one claim for long.
func (f *flight) shareNow() time.Time {
	now, local := f.now(), time.Now()
	if step := now.Sub(f.asked.server) - local.Sub(f.asked.local); !f.asked.local.IsZero() && step.Abs() >= circulate.ClockStep {
		f.memory.UsedUntil = f.memory.UsedUntil.Add(step)
	}
	f.asked = instant{now, local}
	return now
}

// owes returns when the share is full again, at most shareMost from now.
func (f *flight) owes() time.Time {
	if most := f.shareNow().Add(shareMost); f.memory.UsedUntil.After(most) {
		f.memory.UsedUntil = most
	}
	return f.memory.UsedUntil
}

// usedUp reports whether the account has used up its share.
func (f *flight) usedUp() bool {
	return f.flights.config.AccountShare > 0 && !f.memory.UsedUntil.IsZero() && f.owes().After(f.now().Add(shareWindow))
}

// shareAgain returns when the account may be checked again. It rounds up to the ring's
// milliseconds, so that the account is not claimed too early.
func (f *flight) shareAgain() time.Time {
	return f.owes().Add(-shareWindow).Truncate(time.Millisecond).Add(time.Millisecond)
}

// withinShare delays an account that has used up its share. It returns until when the use must be
// remembered, or the zero time if it need not be.
func (f *flight) withinShare(next *cadence.Next) time.Time {
	if f.flights.config.AccountShare < 0 || f.memory.UsedUntil.IsZero() {
		return time.Time{}
	}
	if next.Park == "" && f.shareAgain().After(next.Due) {
		next.Due, next.Rule = f.shareAgain(), accounts.RuleShare
	}
	if used := f.owes(); used.After(next.Due) || used.Sub(f.now()) > shareSmall {
		return used
	}
	return time.Time{}
}
