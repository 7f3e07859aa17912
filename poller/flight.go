package poller

import (
	"context"
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
	limits  limitsOfCheck // that it is under, whatever becomes of them
	checkID string

	localAt time.Time // our clock at the claim

	skip    time.Time // messages from before are passed over; zero: none is
	skipped int
	first   bool // the account was claimed without a cursor

	held    held      // until what was found is written
	found   bool      // a page before brought messages
	used    time.Time // until when what it brought uses up the account's share
	suspect bool      // it has the one place for those

	owner atomic.Int32 // who settles it: the first to claim that

	written atomic.Pointer[chan struct{}] // closed when the page is that is being written, or was last
	unsure  bool                          // the claim's entry is not known any more
}

// Codes of failures that have marks of their own.
const (
	codeHung  = "hung"
	codePanic = "panic"
)

// Who may settle a flight.
const (
	settledBySelf     int32 = iota + 1
	settledByWatch          // abandoned: the checker did not come back in time
	settledByShutdown       // released: the replica is going down
)

// settledBy makes the caller the one who settles the flight, unless someone is
// already.
func (f *flight) settledBy(who int32) bool { return f.owner.CompareAndSwap(0, who) }

// isSettled reports whether the account is returned or released: what its checker
// brings after that is not to be written.
func (f *flight) isSettled() bool { return f.owner.Load() != 0 }

// end ends the flight, unless it is settled already: then it does nothing and
// reports false. Account says what becomes of the account, before anything of the
// flight is free: it is returned, or forgotten, or left to the shutdown.
func (f *flight) end(by int32, account func()) bool {
	if !f.settledBy(by) {
		return false
	}
	account()
	f.flights.running.remove(f)
	f.cleared()
	f.flights.places.give(1)
	return true
}

// now is the time by Redis' clock: what it was at the last claim of the shard, and
// what has passed since then here. It is the last one and not the flight's own:
// Redis' clock may have been put right since.
func (f *flight) now() time.Time { return f.flights.clocks.nowOf(f.claim.Shard) }

func (f *flight) run() {
	fs := f.flights
	written := false // or about to be
	defer func() {
		if f.owner.Load() == settledByWatch {
			fs.abandoned.Add(-1)
		}
		if !written {
			f.held.end()
		}
		fs.limiter.left(f.limits, f.checkID) // not before: a check that was abandoned still runs
	}()
	late := max(0, f.now().Sub(f.claim.Due))
	fs.metrics.lateness.Observe(late.Seconds())
	fs.tally.late(late)
	if f.record.fault != "" {
		f.fail(&CheckError{Kind: ConfigInvalid, Scope: ScopeAccount, Code: "record", Message: f.record.fault})
		return
	}
	began, empty := time.Now(), 0
	for page := 1; ; page++ {
		result, err := f.page()
		if f.isSettled() {
			return // settled without us: what was found is not to be written
		}
		if err != nil {
			f.fail(classify(err))
			return
		}
		if empty++; len(result.Messages) > 0 {
			empty = 0
		}
		f.passOver(&result)
		if len(result.Messages) > 0 && fs.room.short(f.claim.Shard) {
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

// page makes one call of the checker. A checker that goes on after its context
// is done is abandoned: its account returns as failed, its place is free, and
// its result, if it ever comes, is dropped.
func (f *flight) page() (result Result, err error) {
	fs := f.flights
	ctx, cancel := context.WithTimeout(context.WithValue(fs.checks, heldKey{}, &f.held), fs.config.CheckTimeout)
	defer cancel()
	fired := make(chan struct{})
	watch := time.AfterFunc(fs.config.CheckTimeout+abandonAfter, func() {
		defer close(fired)
		f.abandon()
	})
	defer func() {
		if !watch.Stop() {
			<-fired // the claim is not to be touched by two
		}
	}()
	defer func() {
		if reason := recover(); reason != nil {
			fs.metrics.panics.WithLabelValues(f.record.account.Kind).Inc()
			fs.log.Error("a checker panicked", "kind", f.record.account.Kind, "account", f.claim.ID, "panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
			err = &CheckError{Kind: Transient, Scope: ScopeAccount, Code: codePanic, Message: "the checker panicked"}
		}
	}()
	result, err = f.record.checker.Check(ctx, Request{
		Account: f.claim.ID,
		CheckID: f.checkID,
		Config:  orEmpty(f.record.account.Config),
		Cursor:  f.claim.Cursor,
		Hint:    f.claim.Hint,
		Limit:   fs.config.PageLimit,
		Attempt: f.claim.Failures + 1,
	})
	if err == nil {
		err = validateResult(&result)
	} else if ctx.Err() == context.DeadlineExceeded {
		err = timedOut(err, fs.config.CheckTimeout)
	}
	return result, err
}

// abandon ends a flight whose checker does not come back.
func (f *flight) abandon() {
	f.end(settledByWatch, func() {
		fs := f.flights
		fs.abandoned.Add(1)
		fs.metrics.abandoned.Inc()
		fs.log.Warn("a check goes on past its time and was abandoned", "kind", f.record.account.Kind, "account", f.claim.ID, "check", f.checkID)
		err := &CheckError{Kind: Transient, Scope: ScopeAccount, Code: codeHung, Message: "the checker did not come back in time"}
		f.hand(f.failed(err), string(err.Kind), nil)
	})
}

// progress writes a page of several and reports whether the claim still holds.
// Who settles the flight meanwhile waits for it: the claim has another entry then.
func (f *flight) progress(result Result) bool {
	written := make(chan struct{})
	defer close(written)
	f.written.Store(&written)
	if f.isSettled() { // not before: who settles the flight has seen it, or is seen
		return false
	}
	w := f.flights.writer
	err := w.page(f.claim, circulate.Page{Kind: f.record.account.Kind, Messages: result.Messages, Cursor: result.Cursor})
	switch {
	case err == nil:
		f.found = f.found || len(result.Messages) > 0
		return true
	case circulate.Full(err):
		f.unwritten()
		return false
	}
	// Lost, or nobody knows: either way the entry that we have is not to be
	// returned, and the account is in good hands or will be found.
	f.flights.metrics.returns.WithLabelValues(outcomeLabel(err)).Inc()
	f.flights.log.Debug("a page was not committed", "account", f.claim.ID, "error", err)
	f.unsure = true
	f.end(settledBySelf, func() { w.forget(f.claim) })
	return false
}

// unwritten returns the account as it was before the page: Redis has no room for
// what it brought, and the next check finds that again.
func (f *flight) unwritten() {
	f.end(settledBySelf, func() {
		f.putBack(accounts.RuleMemory, f.now().Add(f.flights.room.pause(f.claim.Shard)))
	})
}

// isWriting reports whether a page is being written.
func (f *flight) isWriting() bool {
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

// awaitWriting waits until no page is being written. As the flight is settled,
// none will be after that.
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
