package poller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

// succeed returns the account with its last page. It reports whether the writer has taken it
// over: then what the flight holds is released once it is written.
func (f *flight) succeed(result Result) bool {
	mark := accounts.MarkOK
	if result.HasMore {
		mark = accounts.MarkMore
	} else {
		f.caughtUp()
	}
	f.flights.outage.reached(f.host(), time.Now())
	item := f.decide(cadence.Outcome{
		Class: cadence.Succeeded, Found: f.found || len(result.Messages) > 0, More: result.HasMore, PollAfter: result.NextPollAfter,
	}, mark)
	item.Messages, item.Cursor = result.Messages, result.Cursor
	item.State = f.withWarnings(item.State, result.Warnings)
	return f.giveBack(item, "ok", f.moving(result.MovedTo, f.held.whenWritten()))
}

// fail returns the account with a failure. If the check is called off, which may be the cause, it
// complies instead.
func (f *flight) fail(err *CheckError) {
	f.state.move(commits) // nothing of a page is written
	if f.comply() {
		return
	}
	kind := f.record.account.Kind
	f.flights.log.Debug("a check failed", "account", f.claim.ID, "kind", kind, "error", err)
	f.flights.failures.add(failureSort{kind, err.Code, f.record.rateKey}, f.claim.ID, err)
	f.flights.metrics.failures.WithLabelValues(kind, classOf(err)).Inc()
	f.giveBack(f.failed(err), string(err.Kind), nil)
}

// failed returns the Return of a failure. While our own network seems to be down, a failure
// that may come from it does not count against the account.
func (f *flight) failed(err *CheckError) circulate.Return {
	fs, now := f.flights, time.Now()
	down := false
	if err.Network {
		down = fs.outage.unreached(f.host(), now)
	} else if err.Scope == ScopeAccount || err.Scope == ScopeRateKey {
		fs.outage.reached(f.host(), now)
	}
	outcome, mark := outcomeOf(err), markOf(err)
	if down {
		outcome.Class, mark = cadence.Blameless, accounts.MarkBlameless
	}
	item := f.decide(outcome, mark)
	if down {
		item.Due, item.Rule = f.afterOutage(), fs.codes.Rule(accounts.RuleOutage)
	}
	item.Error = outcome.Text
	item.DropCursor = err.Kind == CursorInvalid
	return item
}

// markOf returns the word for a failure in the account's history.
func markOf(err *CheckError) string {
	switch {
	case err.Code == codeHung || err.Code == codePanic:
		return err.Code
	case err.Scope != ScopeAccount && err.Kind != RateLimited:
		return accounts.MarkBlameless
	}
	return string(err.Kind)
}

// decide returns the Return of an outcome, with the account's next due time.
func (f *flight) decide(o cadence.Outcome, mark string) circulate.Return {
	before, err := cadence.ParseState(f.claim.State)
	if err != nil {
		f.flights.log.Warn("an account's cadence begins anew: its state cannot be read", "account", f.claim.ID, "error", err)
	}
	before.Failures = f.claim.Failures
	next := cadence.Decide(f.record.cadence, f.record.account.Policy(), f.claim.ID, before, o, f.now(), rand.Float64)
	kept := f.withinShare(&next)
	return circulate.Return{
		Claim: f.claim, Kind: f.record.account.Kind, Due: next.Due, Park: next.Park,
		Failures: next.State.Failures, State: accounts.WithSkip(kept, f.skip),
		Rule: f.flights.codes.Rule(next.Rule), Mark: f.flights.codes.Mark(mark),
	}
}

// giveBack hands over the return, unless another has settled the flight.
func (f *flight) giveBack(item circulate.Return, outcome string, written func()) bool {
	return f.settle(ends, func() { f.hand(item, outcome, written) })
}

// hand counts a check and hands over its return.
func (f *flight) hand(item circulate.Return, outcome string, written func()) {
	fs := f.flights
	fs.metrics.checks.WithLabelValues(f.record.account.Kind, outcome).Inc()
	if !f.isHeld() {
		fs.metrics.checkSeconds.WithLabelValues(f.record.account.Kind).Observe(time.Since(f.localAt).Seconds())
	}
	fs.tally.checked(outcome == "ok")
	fs.meter.add(time.Now())
	if item.Park != "" {
		fs.metrics.parked.WithLabelValues(f.record.account.Kind).Inc()
		fs.log.Warn("an account is parked", "account", f.claim.ID, "kind", f.record.account.Kind, "reason", item.Park)
	}
	fs.writer.submit(item, written)
}

// outcomeOf returns what a failure means for the next check. Only failures of the account
// itself count against it.
func outcomeOf(err *CheckError) cadence.Outcome {
	return cadence.Outcome{Class: err.Class(), RetryAfter: err.RetryAfter, Final: err.Final, Text: err.Code + ": " + err.Message}
}

func timedOut(err error, after time.Duration) error {
	var known *CheckError
	if errors.As(err, &known) {
		return err // the checker knows the cause better
	}
	return &CheckError{Kind: Transient, Scope: ScopeAccount, Code: "timeout", Message: fmt.Sprintf("no answer within %v", after), Err: err}
}

// Validate checks the bounds that the ring and its readers rely on. Its error is a
// *CheckError.
func (r *Result) Validate() error {
	broken := func(format string, args ...any) error {
		return &CheckError{Kind: Protocol, Scope: ScopeAccount, Code: "bad_result", Message: fmt.Sprintf(format, args...)}
	}
	if len(r.Cursor) > maxCursor {
		return broken("cursor: has %d bytes, at most %d may be kept", len(r.Cursor), maxCursor)
	}
	for i := range r.Messages {
		switch m := &r.Messages[i]; {
		case m.ID == "" || len(m.ID) > circulate.MaxIDLength:
			return broken("messages[%d].id: must have 1 to %d bytes, has %d", i, circulate.MaxIDLength, len(m.ID))
		case len(m.Data) > maxData:
			return broken("messages[%d].data: has %d bytes, at most %d may be kept", i, len(m.Data), maxData)
		}
	}
	return nil
}
