package cadence

import (
	"fmt"
	"time"
)

// The rules that decide when an account is due next, or that it is parked. Operators see
// these words, so they never change.
const (
	RuleCadence     = "cadence"      // a slot of its interval
	RuleAdaptive    = "adaptive"     // a slot of its adaptive interval
	RuleBudget      = "budget"       // a slot of its adaptive interval, which the budget of all accounts decided
	RuleCron        = "cron"         // its schedule
	RuleAt          = "at"           // its one time
	RuleMore        = "more"         // the upstream has more: at once
	RulePollAfter   = "poll-after"   // the upstream asked for a pause
	RuleRetryAfter  = "retry-after"  // the upstream told a check to wait
	RuleBackoff     = "backoff"      // failures in a row
	RuleRetryBudget = "retry-budget" // parked: too many failures in a row
	RuleAuth        = "auth"         // parked: the credential is refused
	RuleGone        = "gone"         // parked: the account is gone upstream
	RuleConfig      = "config"       // parked: its record cannot be used
	RuleFinished    = "finished"     // parked: its one check is done
)

// Next is the decision.
type Next struct {
	Due   time.Time // zero if parked
	State State     // the state for the next decision
	Park  string    // the reason of parking; empty: not parked
	Rule  string    // the rule that decided: one of the Rule constants
}

// Decide returns when an account is due next after a check with that outcome, or that it is
// parked. Chance returns a number in [0, 1) and is called at most once.
func Decide(c Cadence, p Policy, id string, s State, o Outcome, now time.Time, chance func() float64) Next {
	next := Next{State: c.learn(p.Budget, s, o, now)}
	slot, again := c.After(id, now, next.State)
	if next.Rule, next.Park = p.park(next.State, o, now); next.Park != "" {
		return next
	}
	if o.Class == Succeeded && !o.More && !again {
		next.Rule, next.Park = RuleFinished, "finished: it was to be checked once, "+c.String()
		return next
	}
	next.Due, next.Rule = slot, c.get().rule()
	if next.State.Budgeted {
		next.Rule = RuleBudget
	}
	later := func(by time.Duration, rule string) {
		if t := roundUp(now.Add(by)); by > 0 && t.After(next.Due) {
			next.Due, next.Rule = t, rule
		}
	}
	switch o.Class {
	case Succeeded:
		if o.More {
			next.Due, next.Rule = now, RuleMore
		}
		later(o.PollAfter, RulePollAfter)
	case Throttled:
		wait := o.RetryAfter
		if wait <= 0 {
			wait = ThrottlePause
		}
		spread := throttleSpread * float64(min(wait, MaxInterval)) // a longer wait would overflow
		later(wait+time.Duration(chance()*spread), RuleRetryAfter)
	default:
		wait := c.backoff(next.State, o, chance())
		if o.Class == AuthFailed {
			wait = max(wait, AuthRetry)
		}
		later(wait, RuleBackoff)
		later(o.RetryAfter, RuleRetryAfter)
	}
	return next
}

// backoff returns the wait after a failure. It begins with the account's own pace, and so costs a
// fast account little. What the account did not cause, and nothing else keeps checks from, is not
// tried at the pace of fast accounts. Neither is a credential that was refused.
func (c Cadence) backoff(s State, o Outcome, chance float64) time.Duration {
	first, failures := c.FirstPause(s), s.Failures
	switch {
	case o.Class == Blameless && o.Shared:
		failures = 1
	case o.Class == Blameless, o.Class == AuthFailed:
		first = backoffMost
	}
	return backoff(first, failures, c.get().longest(), chance)
}

// learn returns the state after a check.
func (c Cadence) learn(b Budget, s State, o Outcome, now time.Time) State {
	switch o.Class {
	case Blameless, Throttled:
		return s
	case Succeeded:
		after := State{}
		if a, ok := c.get().(adaptive); ok {
			after.Interval = a.current(s)
			if o.Found || !o.More { // an empty page with more behind it decides nothing yet
				after.Interval = a.follow(s, o.Found)
			}
			if b.Learns {
				after.Rate = a.learnRate(s, o, now)
			}
			if every := a.spend(after.Rate, b); every > 0 {
				after.Interval, after.Budgeted = every, true
			}
		}
		return after
	}
	s.Failures = min(s.Failures, maxFailures) + 1
	if o.Class == AuthFailed {
		if s.Refusals == 0 || s.FirstRefusal.After(now) { // the clock stepped back since
			s.FirstRefusal = now
		}
		s.Refusals++
	}
	return s
}

// park returns the rule and the reason if a failure parks the account. The state is the one
// after the failure.
func (p Policy) park(s State, o Outcome, now time.Time) (rule, reason string) {
	switch {
	case o.Class == Gone:
		return RuleGone, "gone: " + o.Text
	case o.Class == ConfigInvalid:
		return RuleConfig, "config: " + o.Text
	case o.Class == AuthFailed && (o.Final || s.Refusals >= AuthBudget && now.Sub(s.FirstRefusal) >= AuthOver):
		return RuleAuth, "auth: " + o.Text
	case o.Class == Transient && s.Failures >= p.budget():
		return RuleRetryBudget, fmt.Sprintf("retry budget: %d failures in a row, the last: %s", s.Failures, o.Text)
	}
	return "", ""
}
