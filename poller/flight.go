package poller

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// flight is one claimed account on its way through its check.
type flight struct {
	pool    *Pool
	claim   *circulate.Claim
	record  *record
	checkID string

	localAt time.Time // our clock at the claim

	skip    time.Time // messages from before are passed over; zero: none is
	skipped int

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

// now is the time by Redis' clock: what it was at the last claim of the shard, and what
// has passed since then here. The two clocks are never held against each other. It is
// the last one and not the flight's own: Redis' clock may have been put right since.
func (f *flight) now() time.Time {
	read := f.pool.clocks[f.claim.Shard].Load()
	return read.server.Add(time.Since(read.local))
}

// start begins a check in a goroutine of its own.
func (p *Pool) start(f *flight) {
	p.running.add(f)
	go f.run()
}

func (f *flight) run() {
	p := f.pool
	written := false // or about to be
	defer func() {
		if f.owner.Load() == settledByWatch {
			p.abandoned.Add(-1)
		}
		if !written {
			f.held.end()
		}
		p.limiter.left(f.record.limits, f.checkID) // not before: a check that was abandoned still runs
	}()
	late := max(0, f.now().Sub(f.claim.Due))
	p.metrics.lateness.Observe(late.Seconds())
	p.tally.late(late)
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
		if len(result.Messages) > 0 && p.room.short(f.claim.Shard) {
			f.unwritten()
			return
		}
		f.uses(&result)
		switch {
		case result.HasMore && empty >= maxEmptyPages:
			f.fail(&CheckError{Kind: Protocol, Scope: ScopeAccount, Code: "empty_pages",
				Message: fmt.Sprintf("%d empty pages in a row that say there is more", empty)})
			return
		case !result.HasMore || result.NextPollAfter > 0 || page >= maxPages || time.Since(began) >= maxDrain || p.stopping() || f.usedUp():
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
	p := f.pool
	ctx, cancel := context.WithTimeout(context.WithValue(p.checks, heldKey{}, &f.held), p.config.CheckTimeout)
	defer cancel()
	fired := make(chan struct{})
	watch := time.AfterFunc(p.config.CheckTimeout+abandonAfter, func() {
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
			p.metrics.panics.WithLabelValues(f.record.account.Kind).Inc()
			p.log.Error("a checker panicked", "kind", f.record.account.Kind, "account", f.claim.ID, "panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
			err = &CheckError{Kind: Transient, Scope: ScopeAccount, Code: codePanic, Message: "the checker panicked"}
		}
	}()
	result, err = f.record.checker.Check(ctx, Request{
		Account: f.claim.ID,
		CheckID: f.checkID,
		Config:  orEmpty(f.record.account.Config),
		Cursor:  f.claim.Cursor,
		Hint:    f.claim.Hint,
		Limit:   p.config.PageLimit,
		Attempt: f.claim.Failures + 1,
	})
	if err == nil {
		err = validateResult(&result)
	} else if ctx.Err() == context.DeadlineExceeded {
		err = timedOut(err, p.config.CheckTimeout)
	}
	return result, err
}

// abandon settles a flight whose checker does not come back.
func (f *flight) abandon() {
	p := f.pool
	if !f.settledBy(settledByWatch) {
		return
	}
	p.abandoned.Add(1)
	p.metrics.abandoned.Inc()
	p.log.Warn("a check goes on past its time and was abandoned", "kind", f.record.account.Kind, "account", f.claim.ID, "check", f.checkID)
	err := &CheckError{Kind: Transient, Scope: ScopeAccount, Code: codeHung, Message: "the checker did not come back in time"}
	f.hand(f.failed(err), string(err.Kind), nil)
}

// progress commits a page of several and reports whether the claim still holds.
// Who settles the flight meanwhile waits for it: the claim has another entry then.
func (f *flight) progress(result Result) bool {
	p := f.pool
	written := make(chan struct{})
	defer close(written)
	f.written.Store(&written)
	if f.isSettled() { // not before: who settles the flight has seen it, or is seen
		return false
	}
	page := circulate.Page{Kind: f.record.account.Kind, Messages: result.Messages, Cursor: result.Cursor}
	err := p.ring.Progress(p.commits, f.claim, page)
	for try := 0; try < progressRetries && circulate.Unknown(err); try++ {
		// Safe to repeat: had it been done, the entry is another and this is lost.
		sleep(p.commits, commitRetry<<try)
		err = p.ring.Progress(p.commits, f.claim, page)
	}
	if circulate.Full(err) {
		p.room.refused(f.claim.Shard)
		f.unwritten()
		return false
	}
	if err == nil {
		p.counted(f.record.account.Kind, len(result.Messages))
		p.room.wrote(sizeOf(result.Messages))
		f.found = f.found || len(result.Messages) > 0
		return true
	}
	// Lost, or nobody knows: either way the entry that we have is not to be
	// returned, and the account is in good hands or will be found.
	p.metrics.returns.WithLabelValues(outcomeLabel(err)).Inc()
	p.log.Debug("a page was not committed", "account", f.claim.ID, "error", err)
	f.unsure = true
	if f.settledBy(settledBySelf) {
		p.running.remove(f)
		f.cleared()
		p.places.give(1)
		f.forgo()
	}
	return false
}

// forgo lets go of a claim whose entry is not known. Lost after a reply that did
// not come it may be held under another one, which is looked for.
func (f *flight) forgo() {
	f.pool.holding.remove(f.claim.ID)
	f.pool.holding.lose(f.claim.Shard)
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
