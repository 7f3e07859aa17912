package poller

import (
	"cmp"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

// Codes of failures that are not the third party's answer. The first two have marks of their own.
const (
	codeHung    = "hung"
	codePanic   = "panic"
	codeTimeout = "timeout"
)

// codeBadResult is the code of a result or an error that no checker may return.
const codeBadResult = "bad_result"

// The warning about a third party that began anew.
const (
	codeCursorReset = "cursor_reset"
	cursorReset     = "the third party no longer knew the cursor and began anew: messages may be missing, or come again"
)

// settle ends the check. It calls account, which gives the account back, and then frees what the
// check has taken. If the move is refused, it does nothing and returns false.
func (f *flight) settle(m move, account func()) bool {
	if _, ok := f.state.move(m); !ok {
		return false
	}
	account()
	f.over()
	return true
}

// over frees what a settled check has taken.
func (f *flight) over() {
	f.trace.end(outcomeUnchecked)
	f.set().remove(f)
	f.cleared()
	f.leaveCrowd()
	if f.hold != nil {
		f.flights.metrics.held.Dec()
		f.flights.held.places.give(1)
	} else {
		f.flights.places.give(1)
	}
}

// set returns the flights to which this one belongs.
func (f *flight) set() *running {
	if f.hold != nil {
		return f.flights.held.running
	}
	return f.flights.running
}

// callOff ends the calls of a held check, by one of the moves that call a check off. A page that
// has arrived, or whose answer has begun, is written before the check complies. If the checker does
// not return, the check complies without it.
func (f *flight) callOff(m move) {
	if _, ok := f.state.move(m); ok {
		f.hold.endCalls()
		time.AfterFunc(abandonAfter, func() { f.comply() })
	}
}

// comply settles a check in favour of the party that called it off. It reports false if no party
// did, or if a page is in hand: then the check itself complies once the page is written.
func (f *flight) comply() bool {
	was, ok := f.state.move(complies)
	if !ok {
		return false
	}
	fs := f.flights
	switch was.by {
	case bySecret:
		f.putOff("secret_changed", f.now().Add(secretPause))
	case byLoss:
		fs.writer.forget(f.claim)
		f.trace.end(circulate.Fenced.String())
		fs.metrics.returns.WithLabelValues(circulate.Fenced.String()).Inc()
		fs.log.Debug("a held call is ended: its account was changed, or another replica has it", "account", f.claim.ID)
	default:
		f.trace.end(outcomeReleased)
		f.set().stopped(f) // it is released with the others
	}
	f.over()
	return true
}

// Overrun abandons a check whose checker does not return.
func (f *flight) Overrun() {
	f.settle(abandons, func() {
		fs := f.flights
		fs.abandoned.Add(1)
		fs.metrics.abandoned.Inc()
		fs.log.Warn("a check exceeded its time and was abandoned", "kind", f.record.account.Kind, "account", f.claim.ID, "check", f.checkID)
		err := &CheckError{Kind: Transient, Scope: ScopeAccount, Code: codeHung, Message: "the checker did not return in time"}
		f.submit(f.failed(err, f.flights.maintained.covers(f.record, f.now())), string(err.Kind), codeHung, nil)
	})
}

// finish returns the account with its last page. If the shutdown has seized the account while the
// page was in hand, finish writes the page alone, and the shutdown releases the account. It reports
// whether the writer has taken over what was found.
func (f *flight) finish(page Result) (written bool) {
	if f.succeed(page) {
		return true
	}
	if len(page.Messages) > 0 || page.Cursor != nil {
		f.commit(page)
	}
	return false
}

// release settles the check and releases its account to another replica.
func (f *flight) release() {
	f.settle(ends, func() {
		f.claim.Due = f.now() // it was held until now
		w := f.flights.writer
		w.release(w.writes, f.claim.Shard, []*circulate.Claim{f.claim})
	})
}

// unwritten puts the account off, as it was before the page. Redis has no room for the page's
// messages, and the next check finds them again.
func (f *flight) unwritten() {
	f.settle(ends, func() {
		f.putOff(accounts.RuleMemory, f.now().Add(f.flights.room.pause(f.claim.Shard)))
	})
}

// succeed returns the account with its last page. It reports whether the writer has taken the page
// over, in which case the writer calls the cleanups once it is written.
func (f *flight) succeed(result Result) bool {
	mark := accounts.MarkOK
	if result.HasMore {
		mark = accounts.MarkMore
	} else {
		f.caughtUp()
	}
	f.outage().reached(f.host(), time.Now())
	warnings, reset := result.Warnings, ""
	if f.reset || result.CursorReset {
		warnings = append([]Warning{{Code: codeCursorReset, Message: cursorReset}}, warnings...)
		if !strings.HasPrefix(f.memory.Warning, codeCursorReset+": ") { // otherwise it is no news
			reset = cursorReset
		}
	}
	item := f.decide(cadence.Outcome{
		Class: cadence.Succeeded, Found: f.found || len(result.Messages) > 0, Messages: f.messages + len(result.Messages), More: result.HasMore, PollAfter: result.NextPollAfter,
	}, mark, warnings)
	item.Messages, item.Cursor, item.Reset, item.Remember = result.Messages, result.Cursor, reset, f.remember(result.Messages)
	return f.giveBack(item, "ok", "", f.moving(result.MovedTo, f.cleanups.whenWritten()))
}

// fail returns the account with a failure. If the check was called off, which may be the cause, it
// complies instead.
func (f *flight) fail(err error) {
	f.state.move(commits) // no page is written
	if f.comply() || f.state.now().at == settled {
		return
	}
	failed, kind := Classify(err), f.record.account.Kind
	if failed.Kind == Unsupported {
		f.settle(ends, func() { f.putOffUnknown(cmp.Or(failed.Code, reasonField), failed.Message) })
		return
	}
	f.flights.log.Debug("a check failed", "account", f.claim.ID, "kind", kind, "error", logged(failed))
	f.flights.failures.add(failureSort{kind, failed.Code, f.record.rateKey}, f.claim.ID, logged(failed))
	class, waived := classOf(failed), f.flights.maintained.covers(f.record, f.now())
	if waived {
		class = classMaintenance
	}
	f.flights.metrics.failures.WithLabelValues(kind, class).Inc()
	f.giveBack(f.failed(failed, waived), string(failed.Kind), class, nil)
}

// failed returns the Return for a failure. While our own network seems to be down, a failure that
// it may have caused does not count against the account. Neither does a failure that is waived
// because the account is in a maintenance window.
func (f *flight) failed(err *CheckError, waived bool) circulate.Return {
	fs, now := f.flights, time.Now()
	down := false
	if err.Network {
		down = f.outage().unreached(f.host(), now)
	} else if err.Scope == ScopeAccount || err.Scope == ScopeRateKey {
		f.outage().reached(f.host(), now)
	}
	outcome, mark := outcomeOf(err), markOf(err)
	f.noteRefusal(err)
	if down {
		outcome.Class, mark = cadence.Blameless, accounts.MarkBlameless
	} else {
		outcome.Shared = fs.troubles.failed(f.record, err, f.probes)
	}
	if waived {
		mark = accounts.MarkMaintenance
		if outcome.Class != cadence.Throttled {
			outcome.Class = cadence.Blameless
		}
	}
	item := f.decide(outcome, mark, nil)
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

// decide returns the Return for an outcome, with the account's next due time and what the next
// check should remember.
func (f *flight) decide(o cadence.Outcome, mark string, warnings []Warning) circulate.Return {
	if f.forgot != nil {
		f.flights.log.Warn("an account's cadence begins anew: its state cannot be read", "account", f.claim.ID, "error", f.forgot)
	}
	before := f.memory.Cadence
	before.Failures = f.claim.Failures
	policy := f.record.account.Policy()
	policy.Budget = f.flights.pricing.now()
	next := cadence.Decide(f.record.cadence, policy, f.claim.ID, before, o, f.now(), rand.Float64)
	if policy.Budget.Learns && f.hold == nil {
		f.flights.tally.spend(f.record.cadence.Spending(before, next.State))
	}
	memory := accounts.Memory{SkipBefore: f.memory.SkipBefore, UsedUntil: f.withinShare(&next), PolledUntil: f.polledUntil(), Cadence: next.State, Warning: f.warn(warnings)}
	return circulate.Return{
		Claim: f.claim, Kind: f.record.account.Kind, Due: next.Due, Park: next.Park,
		Failures: next.State.Failures, State: memory.Encode(),
		Rule: f.flights.codes.Rule(next.Rule), Mark: f.flights.codes.Mark(mark),
	}
}

// giveBack settles the check with a return, unless another has settled it. class is what kind of
// failure it was, or empty.
func (f *flight) giveBack(item circulate.Return, outcome, class string, written func()) bool {
	return f.settle(ends, func() { f.submit(item, outcome, class, written) })
}

// submit counts a check, and has the writer write its return.
func (f *flight) submit(item circulate.Return, outcome, class string, written func()) {
	fs := f.flights
	fs.metrics.checks.WithLabelValues(f.record.account.Kind, outcome).Inc()
	if f.hold == nil {
		fs.metrics.checkSeconds.WithLabelValues(f.record.account.Kind).Observe(time.Since(f.localAt).Seconds())
	}
	fs.tally.checked(outcome == "ok")
	f.counted(outcome == "ok", len(item.Messages))
	found := len(item.Messages)
	if f.hold == nil {
		found += f.messages
	}
	f.ran(item.Mark, item.Error, found)
	fs.meter.add(time.Now())
	if item.Park != "" {
		fs.metrics.parked.WithLabelValues(f.record.account.Kind).Inc()
		fs.log.Warn("an account is parked", "account", f.claim.ID, "kind", f.record.account.Kind, "reason", item.Park)
	}
	if f.trace != nil {
		write := f.trace.write(f.claim.ID, len(item.Messages))
		item.Trace = write.Traceparent()
		f.trace.settled(f, outcome, class, f.messages+len(item.Messages))
		fs.writer.recorded.take(f.claim, f.trace, write)
	}
	fs.writer.submit(item, written)
}

// warn counts the warnings of a check, and returns them in their stored form, one for each code.
func (f *flight) warn(warnings []Warning) string {
	texts := make([]string, 0, len(warnings))
	told := make(map[string]bool, len(warnings))
	for _, w := range warnings {
		if told[w.Code] {
			continue
		}
		told[w.Code] = true
		f.flights.metrics.warnings.WithLabelValues(f.record.account.Kind, w.Code).Inc()
		f.flights.warned.add(recentSort{f.record.account.Kind, w.Code}, f.claim.ID, time.Now())
		if f.flights.warnings.first(recentSort{f.record.account.Kind, w.Code}) {
			f.flights.log.Warn("a check succeeded with a warning; further ones of this code are only counted", "kind", f.record.account.Kind, "code", w.Code, "for_example", f.claim.ID, "warning", w.Message)
		}
		texts = append(texts, w.String())
	}
	return strings.Join(texts, "; ")
}

// outcomeOf returns what a failure means for the next check. Only failures of the account
// itself count against it.
func outcomeOf(err *CheckError) cadence.Outcome {
	return cadence.Outcome{Class: err.Class(), RetryAfter: err.RetryAfter, Final: err.Final, Text: err.Code + ": " + err.Message}
}
