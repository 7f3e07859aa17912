package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// flight is one claimed account on its way through its check.
type flight struct {
	flights *flights
	claim   *circulate.Claim
	record  *record
	limits  limitsOfCheck // the limits that it started under, even if they change
	checkID string

	localAt time.Time // our clock at the claim
	due     time.Time // as claimed: a shutdown sets the claim's

	skip    time.Time // older messages are dropped; zero: none are
	skipped int
	first   bool // the account was claimed without a cursor

	box   *Box // bounds its calls in time
	held  held // what it holds until its messages are written
	found bool // an earlier page had messages

	unsynced bool        // the next call has the third party forget what may not be on Redis' disk yet
	used     time.Time   // until when its messages use up the account's share, by Redis' clock
	asked    instant     // when that was last looked at
	suspect  atomic.Bool // it has the one place for suspects

	calls      context.Context // of a held check's calls; nil: it is not held
	endCalls   context.CancelFunc
	call       int                        // how many calls it has made
	renewed    time.Time                  // when a held check's claim was last written
	ticket     atomic.Pointer[string]     // the claim's, as of its last write
	division   int                        // of the shards, when a held check was claimed
	limitsLeft atomic.Bool                // its leases of limits are ended
	beginning  atomic.Pointer[time.Timer] // it has a place among the calls that begin
	heldSince  atomic.Int64               // when its call has reached the third party, unix ns; 0: not yet
	acquitted  bool                       // its strikes are forgotten; of who watches alone

	state state
}

// Codes of failures that have marks of their own.
const (
	codeHung  = "hung"
	codePanic = "panic"
)

// settle ends the flight. If the mover is refused, it does nothing and returns false. It calls
// account, which gives the account back, before it frees what the flight holds.
func (f *flight) settle(m move, account func()) bool {
	if _, ok := f.state.move(m); !ok {
		return false
	}
	account()
	f.over()
	return true
}

// over frees what a settled flight holds.
func (f *flight) over() {
	f.set().remove(f)
	f.cleared()
	if f.isHeld() {
		f.flights.metrics.held.Dec()
		f.flights.keeper.places.give(1)
	} else {
		f.flights.places.give(1)
	}
}

// set returns the flights to which this one belongs.
func (f *flight) set() *running {
	if f.isHeld() {
		return f.flights.keeper.flights
	}
	return f.flights.running
}

// now returns the time by Redis' clock: the time at the last claim of the shard, and what has
// passed here since. It uses the last claim and not the flight's own, because Redis' clock
// may have been corrected since.
func (f *flight) now() time.Time { return f.flights.clocks.nowOf(f.claim.Shard) }

// run makes the check. Box bounds its calls in time.
func (f *flight) run(box *Box) {
	fs := f.flights
	f.box = box
	written := false // the writer has what was found
	defer func() {
		f.state.move(commits)
		if f.state.now() == (status{settled, byWatchdog}) {
			fs.abandoned.Add(-1)
		}
		if !written {
			f.held.end()
		}
		f.freeLimits() // only now: an abandoned check still runs
	}()
	if late := max(0, f.now().Sub(f.due)); !f.isHeld() || f.claim.Strikes == 0 { // else due is when its dead holder last wrote
		fs.metrics.lateness.Observe(late.Seconds())
		fs.tally.late(late)
	}
	if f.record.fault != "" {
		f.fail(&CheckError{Kind: ConfigInvalid, Scope: ScopeAccount, Code: "record", Message: f.record.fault})
		return
	}
	if f.isHeld() {
		written = f.keep()
		return
	}
	began, empty := time.Now(), 0
	for page := 1; ; page++ {
		var result Result
		err := f.synced()
		if err == nil {
			result, err = f.page()
		}
		if !f.took(&result, err) {
			return
		}
		if err != nil {
			if failed := classify(err); failed.Kind == Unsupported {
				f.settle(ends, func() { f.leave(cmp.Or(failed.Code, reasonField), failed.Message) })
			} else {
				f.fail(failed)
			}
			return
		}
		if empty++; len(result.Messages) > 0 {
			empty = 0
		}
		f.passOver(&result)
		if len(result.Messages) > 0 && !givenOnce(f.record.checker) && fs.room.short(f.claim.Shard) {
			f.unwritten()
			return
		}
		f.uses(&result)
		switch {
		case result.HasMore && empty >= maxEmptyPages:
			f.fail(&CheckError{Kind: Protocol, Scope: ScopeAccount, Code: "empty_pages",
				Message: fmt.Sprintf("%d empty pages in a row that say there is more", empty)})
			return
		case !result.HasMore || result.NextPollAfter > 0 || page >= maxPages || time.Since(began) >= maxDrain || fs.stopping() || f.usedUp():
			written = f.finish(result)
			return
		}
		if !f.progress(result) {
			return
		}
		f.state.move(commits)
		f.held.free()
	}
}

// took takes the page of a call in hand, if the call has brought one, and reports whether the
// flight goes on. If another has settled the flight, the page must not be written.
func (f *flight) took(result *Result, err error) bool {
	if err != nil {
		return f.state.now().at != settled
	}
	if _, ok := f.state.move(finds); ok {
		return true
	}
	if len(result.Messages) > 0 {
		f.flights.writer.late(&circulate.Return{Claim: f.claim, Kind: f.record.account.Kind, Messages: result.Messages})
	}
	return false
}

// finish returns the account with its last page. If the shutdown has seized the account while the
// page was in hand, finish writes the page alone, and the shutdown releases the account. It reports
// whether the writer has taken over what was found.
func (f *flight) finish(result Result) (written bool) {
	if f.succeed(result) {
		return true
	}
	if len(result.Messages) > 0 || result.Cursor != nil {
		f.progress(result)
	}
	return false
}

// page makes one call of the checker. A checker that goes on after its context is done is
// abandoned: its account is returned as failed, its place is free, and a late result is
// dropped.
func (f *flight) page() (result Result, err error) {
	fs := f.flights
	hold, timeout := f.holds()
	ctx := f.box.Begin(callLimits{Timeout: timeout, Grace: abandonAfter, Overrun: f}, heldKey{}, &f.held)
	defer f.box.End(ctx) // two must not touch the claim at once
	defer func() {
		if reason := recover(); reason != nil {
			fs.metrics.panics.WithLabelValues(f.record.account.Kind).Inc()
			fs.log.Error("a checker panicked", "kind", f.record.account.Kind, "account", f.claim.ID, "panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
			err = &CheckError{Kind: Transient, Scope: ScopeAccount, Code: codePanic, Message: "the checker panicked"}
		}
	}()
	asked := Request{
		Account: f.claim.ID,
		CheckID: f.callID(),
		Config:  orEmpty(f.record.account.Config),
		Cursor:  f.claim.Cursor,
		Hint:    f.claim.Hint,
		Limit:   fs.config.PageLimit,
		Attempt: f.claim.Failures + 1,
		Hold:    hold,
	}
	result, err = f.record.checker.Check(ctx, asked)
	if err == nil {
		f.record.told.Store(int64(result.Hold))
		err = f.judged(asked, &result)
	} else if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = timedOut(err, timeout)
	}
	return result, err
}

// Overrun abandons a flight whose checker does not return.
func (f *flight) Overrun() {
	f.settle(abandons, func() {
		fs := f.flights
		fs.abandoned.Add(1)
		fs.metrics.abandoned.Inc()
		fs.log.Warn("a check exceeded its time and was abandoned", "kind", f.record.account.Kind, "account", f.claim.ID, "check", f.checkID)
		err := &CheckError{Kind: Transient, Scope: ScopeAccount, Code: codeHung, Message: "the checker did not return in time"}
		f.hand(f.failed(err), string(err.Kind), nil)
	})
}

// progress writes the page in hand, one of several, and reports whether the claim still holds. If
// the shutdown seizes the account meanwhile, it waits for this write, after which the claim has
// another entry.
func (f *flight) progress(result Result) bool {
	w := f.flights.writer
	tried, err := w.page(f.claim, circulate.Page{Kind: f.record.account.Kind, Messages: result.Messages, Cursor: result.Cursor, Succeeded: f.isHeld()}, f.patience())
	switch {
	case err == nil:
		f.found = f.found || len(result.Messages) > 0
		f.unsynced = f.unsynced || len(result.Messages) > 0 && confirms(f.record.checker)
		f.noteTicket()
		return true
	case circulate.Full(err) && givenOnce(f.record.checker):
		result.HasMore = false
		if !f.succeed(result) { // if it does, the writer goes on trying
			w.late(&circulate.Return{Claim: f.claim, Kind: f.record.account.Kind, Messages: result.Messages})
		}
		return false
	case circulate.Full(err):
		f.unwritten()
		return false
	}
	// The claim is lost, or that is unknown. Either way our entry must not be returned: another
	// has the account, or reclaim will find it.
	f.flights.metrics.returns.WithLabelValues(outcomeLabel(err)).Inc()
	if errors.Is(err, circulate.ErrClaimLost) && !tried {
		w.late(&circulate.Return{Claim: f.claim, Kind: f.record.account.Kind, Messages: result.Messages})
	}
	f.flights.log.Debug("a page was not committed", "account", f.claim.ID, "error", err)
	if was, ok := f.state.move(loses); ok && was.at != seized { // else the shutdown forgets it
		w.forget(f.claim)
		f.over()
	}
	return false
}

// noteTicket notes the claim's ticket for others than the flight itself.
func (f *flight) noteTicket() {
	ticket := f.claim.Ticket()
	f.ticket.Store(&ticket)
}

// patience returns until when a page of unknown outcome is tried again: few times, or, of a held
// check, whose third party may not give the page again, as long as the claim lasts.
func (f *flight) patience() time.Time {
	if !f.isHeld() {
		return time.Time{}
	}
	return f.renewed.Add(f.flights.config.LongTimeout)
}

// unwritten returns the account as it was before the page: Redis has no room for its
// messages, and the next check finds them again.
func (f *flight) unwritten() {
	f.settle(ends, func() {
		f.putBack(accounts.RuleMemory, f.now().Add(f.flights.room.pause(f.claim.Shard)))
	})
}

func outcomeLabel(err error) string {
	if circulate.Unknown(err) {
		return "unknown"
	}
	return circulate.Fenced.String()
}
