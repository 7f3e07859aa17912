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
	"github.com/rounds-dev/rounds/poller/timebox"
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

	box   *timebox.Box // bounds its calls in time
	held  held         // what it holds until its messages are written
	found bool         // an earlier page had messages

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
	inHand     atomic.Bool                // a held call has brought messages that are not written
	heldSince  atomic.Int64               // when its call has reached the third party, unix ns; 0: not yet
	acquitted  bool                       // its strikes are forgotten; of who watches alone

	owner atomic.Int32 // what settles the flight: the first to claim that

	written atomic.Pointer[chan struct{}] // of the page that is being written, or was last; closed when it is written
	unsure  bool                          // the claim's entry is no longer known
}

// Codes of failures that have marks of their own.
const (
	codeHung  = "hung"
	codePanic = "panic"
)

// What may settle a flight.
const (
	settledBySelf     int32 = iota + 1
	settledByWatch          // abandoned: the checker did not return in time
	settledByShutdown       // released: the replica is going down
	settledByLoss           // forgotten: another has the account
	settledBySecret         // returned: a secret that it uses has changed
)

// settledBy reports whether the caller is the first that settles the flight.
func (f *flight) settledBy(who int32) bool { return f.owner.CompareAndSwap(0, who) }

// isSettled reports whether the account is returned or released. Later results of its checker
// must not be written.
func (f *flight) isSettled() bool { return f.owner.Load() != 0 }

// end ends the flight. If the flight is settled already, it does nothing and returns false.
// It calls account, which returns the account, forgets it, or leaves it to the shutdown,
// before it frees what the flight holds.
func (f *flight) end(by int32, account func()) bool {
	if !f.settledBy(by) {
		return false
	}
	account()
	f.set().remove(f)
	f.cleared()
	if f.isHeld() {
		f.flights.metrics.held.Dec()
		f.flights.keeper.places.give(1)
	} else {
		f.flights.places.give(1)
	}
	return true
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
func (f *flight) run(box *timebox.Box) {
	fs := f.flights
	f.box = box
	written := false // the writer has what was found
	defer func() {
		if f.owner.Load() == settledByWatch {
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
		if f.isSettled() {
			return // settled by another: what was found must not be written
		}
		if err != nil {
			if failed := classify(err); failed.Kind == Unsupported {
				f.end(settledBySelf, func() { f.leave(cmp.Or(failed.Code, reasonField), failed.Message) })
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
			written = f.succeed(result)
			return
		}
		if !f.progress(result) {
			return
		}
		f.held.free()
	}
}

// page makes one call of the checker. A checker that goes on after its context is done is
// abandoned: its account is returned as failed, its place is free, and a late result is
// dropped.
func (f *flight) page() (result Result, err error) {
	fs := f.flights
	hold, timeout := f.holds()
	ctx := f.box.Begin(timebox.Limits{Timeout: timeout, Grace: abandonAfter, Overrun: f}, heldKey{}, &f.held)
	defer f.box.End(ctx) // two must not touch the claim at once
	defer func() {
		if reason := recover(); reason != nil {
			fs.metrics.panics.WithLabelValues(f.record.account.Kind).Inc()
			fs.log.Error("a checker panicked", "kind", f.record.account.Kind, "account", f.claim.ID, "panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
			err = &CheckError{Kind: Transient, Scope: ScopeAccount, Code: codePanic, Message: "the checker panicked"}
		}
	}()
	result, err = f.record.checker.Check(ctx, Request{
		Account: f.claim.ID,
		CheckID: f.callID(),
		Config:  orEmpty(f.record.account.Config),
		Cursor:  f.claim.Cursor,
		Hint:    f.claim.Hint,
		Limit:   fs.config.PageLimit,
		Attempt: f.claim.Failures + 1,
		Hold:    hold,
	})
	if err == nil {
		f.record.told.Store(int64(result.Hold))
		err = result.Validate()
	} else if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = timedOut(err, timeout)
	}
	return result, err
}

// Overrun abandons a flight whose checker does not return.
func (f *flight) Overrun() {
	f.end(settledByWatch, func() {
		fs := f.flights
		fs.abandoned.Add(1)
		fs.metrics.abandoned.Inc()
		fs.log.Warn("a check exceeded its time and was abandoned", "kind", f.record.account.Kind, "account", f.claim.ID, "check", f.checkID)
		err := &CheckError{Kind: Transient, Scope: ScopeAccount, Code: codeHung, Message: "the checker did not return in time"}
		f.hand(f.failed(err), string(err.Kind), nil)
	})
}

// progress writes one of several pages and reports whether the claim still holds. If another
// settles the flight meanwhile, it waits for this write, after which the claim has another
// entry.
func (f *flight) progress(result Result) bool {
	written := make(chan struct{})
	defer close(written)
	f.written.Store(&written)
	if f.isSettled() { // only now: a settler has seen written, or is seen here
		return false
	}
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
		f.succeed(result) // the writer goes on trying
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
	f.unsure = true
	f.end(settledBySelf, func() { w.forget(f.claim) })
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
	f.end(settledBySelf, func() {
		f.putBack(accounts.RuleMemory, f.now().Add(f.flights.room.pause(f.claim.Shard)))
	})
}

// isWriting reports whether a page is being written, or is about to be.
func (f *flight) isWriting() bool {
	if f.inHand.Load() {
		return true
	}
	written := f.written.Load()
	if written == nil {
		return false
	}
	select {
	case <-*written:
		return false
	default:
		return true
	}
}

// awaitWriting waits until no page is being written. The flight is settled, so no further
// page will be.
func (f *flight) awaitWriting() {
	if written := f.written.Load(); written != nil {
		<-*written
	}
}

func outcomeLabel(err error) string {
	if circulate.Unknown(err) {
		return "unknown"
	}
	return circulate.Fenced.String()
}
