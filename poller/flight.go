package poller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/activity"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/internal/conceal"
	"github.com/rounds-dev/rounds/poller/internal/panics"
)

// flight is one claimed account on its way through its check.
type flight struct {
	flights *flights
	claim   *circulate.Claim
	record  *record
	limits  limitsOfCheck // the limits that it started under, even if the settings change since
	checkID string

	localAt time.Time     // our clock at the claim
	late    time.Duration // how late it began
	due     time.Time     // as claimed; a shutdown changes the claim's

	memory  accounts.Memory // of earlier checks; the check changes SkipBefore and UsedUntil
	forgot  error           // the memory's cadence could not be read
	skipped int             // messages from before SkipBefore
	first   bool            // the account was claimed without a cursor

	box      *box            // bounds its calls in time
	cleanups cleanups        // called when its messages are written
	found    bool            // an earlier page had messages
	messages int             // how many earlier pages had
	reset    bool            // an earlier page began anew
	cut      bool            // the last call ended without an answer
	answered bool            // an earlier call of this claim brought an answer
	secrets  conceal.Secrets // that it has resolved
	answers  answers
	called   time.Time // when its first call began; of a held check, the one under way

	unsynced    bool        // the next call makes the third party forget messages that may not be on Redis' disk yet
	asked       instant     // when the used-up share was last looked at
	probes      []string    // what it shares with others is in trouble, and it tries that: keys of limit.TroubleKey
	connects    bool        // limits count its connection
	polled      string      // why it is polled though it could be held; empty: it is not
	suspect     atomic.Bool // it has the one place for suspects
	inCrowd     atomic.Bool // it counts among the checks of its rate key
	limitsFreed atomic.Bool // its leases of limits are ended

	trace *trace // nil: it is not recorded
	state state
	hold  *hold // its policy, if a third party holds its calls; otherwise nil
	drain drain // its policy otherwise
}

// policy is what differs between a check whose third party holds its calls and any other check: the
// waits between calls, their time-outs, what their ends mean, and how many calls one claim lasts.
type policy interface {
	// begin begins the check. It returns how long the first call waits.
	begin() (wait time.Duration)
	// ready returns when the next call may be made, after a wait. An error ends the check.
	ready(wait time.Duration) error
	// bounds returns the next call's check id, how long the third party may hold it, and how long it
	// may take.
	bounds() (id string, hold, timeout time.Duration)
	// judge says what the end of a call means. Either it is a page, perhaps an empty one, which the
	// next call follows after a wait; or the call is made again; or it is a failure.
	judge(page Result, err error) (wait time.Duration, again bool, failed error)
	// next returns the page as it is to be written, what follows it, and whether it must be written
	// first.
	next(page Result, wait time.Duration) (_ Result, then verdict, commit bool)
	// close ends the check.
	close()
}

// verdict is what follows a page.
type verdict uint8

const (
	toReturn  verdict = iota // the account is returned with the page
	toPutOff                 // the account is put off, as it was before the page
	toStay                   // the account stays for the next call
	toRelease                // the account is released to another replica
)

// policy returns the check's policy.
func (f *flight) policy() policy {
	if f.hold != nil {
		return f.hold
	}
	f.drain.f = f
	return &f.drain
}

// run makes the check: make a call, write its page, and go on or give the account back. box limits
// how long each call may take.
func (f *flight) run(box *box) {
	f.box = box
	p := f.policy()
	written := false // the writer has taken over what was found
	defer func() {
		p.close()
		f.state.move(commits)
		if f.state.now() == (status{settled, byWatchdog}) {
			f.flights.abandoned.Add(-1)
		}
		if !written {
			f.cleanups.end()
		}
		f.freeLimits() // only now: an abandoned check still runs
	}()
	wait := p.begin()
	if f.record.fault != "" {
		f.fail(&CheckError{Kind: ConfigInvalid, Scope: ScopeAccount, Code: "record", Message: f.record.fault})
		return
	}
	for {
		if err := p.ready(wait); err != nil {
			f.fail(err)
			return
		}
		page, err := f.call(p)
		if !f.takes(&page, err) || err != nil && f.comply() {
			return
		}
		var again bool
		var failed error
		if wait, again, failed = p.judge(page, err); failed != nil {
			f.fail(failed)
			return
		}
		if again {
			continue
		}
		if err != nil { // an end that counts as an empty page
			if _, ok := f.state.move(finds); !ok {
				return
			}
		}
		if err := f.flights.sends.fail(f.flights.writer.writes, f.claim.ID, page.FailedSends); err != nil {
			f.fail(&CheckError{Kind: Transient, Scope: ScopeChecker, Code: "outbox", Message: "Redis did not take what the page says about failed sends", Err: err})
			return
		}
		f.passOver(&page)
		f.flights.sealTokens(f.claim.ID, &page)
		f.uses(&page)
		page, then, commit := p.next(page, wait)
		switch then {
		case toReturn:
			written = f.finish(page)
			return
		case toPutOff:
			f.unwritten()
			return
		}
		if commit && !f.commit(page) {
			return
		}
		f.state.move(commits)
		f.reset = f.reset || page.CursorReset
		f.cleanups.call()
		if then == toRelease || f.hold != nil && f.flights.stopping() {
			f.release()
			return
		}
	}
}

// takes takes the call's page in hand, if the call has brought one, and reports whether the check
// goes on. If another party has settled the check, the page must not be written.
func (f *flight) takes(page *Result, err error) bool {
	if err != nil {
		return f.state.now().at != settled
	}
	if _, ok := f.state.move(finds); ok {
		return true
	}
	if len(page.Messages) > 0 {
		f.flights.writer.late(&circulate.Return{Claim: f.claim, Kind: f.record.account.Kind, Messages: page.Messages})
	}
	return false
}

// call makes one call of the checker. A checker that goes on after its context is done is
// abandoned: its account is returned as failed, its place is free, and a late result is
// dropped.
func (f *flight) call(p policy) (result Result, err error) {
	fs := f.flights
	id, hold, timeout := p.bounds()
	recorded := f.trace.call()
	if f.called.IsZero() {
		f.called = time.Now()
	}
	ctx := f.box.Begin(callLimits{Timeout: timeout, Grace: abandonAfter, Overrun: f, Secrets: &f.secrets, Egress: &f.record.egress, Span: recorded, Answers: &f.answers}, cleanupsKey{}, &f.cleanups)
	panicked := func(text, what string) *CheckError {
		fs.metrics.panics.WithLabelValues(f.record.account.Kind).Inc()
		fs.log.Error("a checker panicked", "kind", f.record.account.Kind, "account", f.claim.ID, "panic", what, "stack", string(debug.Stack()))
		return &CheckError{Kind: Transient, Scope: ScopeAccount, Code: codePanic, Message: text}
	}
	returned := false
	var ended *CheckError
	defer func() {
		if ended != nil { // the goroutine runs its deferred calls and no more
			f.fail(ended)
		}
	}()
	defer f.box.End(ctx) // before the next: two parties must not touch the claim at once
	defer func() { endCall(recorded, &result, err, ended) }()
	defer func() {
		switch reason := recover(); {
		case reason != nil:
			err = panicked("the checker panicked", panics.Type(reason))
		case !returned:
			ended = panicked(panics.Ended, "runtime.Goexit")
		}
	}()
	asked := Request{
		Account: f.claim.ID,
		CheckID: id,
		Config:  orEmpty(f.record.account.Config),
		Cursor:  f.claim.Cursor,
		Hint:    f.claim.Hint,
		Limit:   fs.config.PageLimit,
		Attempt: f.claim.Failures + 1,
		Hold:    hold,

		MayHaveLost: f.mayHaveLost(),
	}
	result, err = f.record.checker.Check(ctx, asked)
	if err == nil {
		f.record.told.Store(int64(result.Hold))
		err = f.judged(asked, &result)
	} else if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = timedOut(err, timeout)
	}
	if err != nil {
		failed := Classify(err) // here, where a panic in the error's own methods is caught
		failed.Code, failed.Message = f.secrets.Scrub(failed.Code), f.secrets.Scrub(failed.Message)
		err = failed
	}
	if err == nil {
		fs.troubles.succeeded(f.record)
	}
	f.cut, f.answered = err != nil, f.answered || err == nil
	returned = true
	return result, err
}

// commit writes the page in hand, and reports whether the claim is still ours. If the shutdown
// seizes the account meanwhile, it waits for the write, which gives the claim another entry.
func (f *flight) commit(page Result) bool {
	w := f.flights.writer
	// A page of unknown outcome is tried again a few times. A third party that holds calls may never
	// give the page again, so it is then tried as long as the claim lasts.
	var until time.Time
	if f.hold != nil {
		until = f.hold.renewed.Add(f.flights.config.LongTimeout)
	}
	write := f.trace.write(f.claim.ID, len(page.Messages))
	tried, err := w.commit(f.claim, circulate.Page{Kind: f.record.account.Kind, Messages: page.Messages, Trace: traceparent(write), Cursor: page.Cursor, Succeeded: f.hold != nil, Remember: f.remember(page.Messages)}, until)
	endWrite(write, writeOutcome(err))
	switch {
	case err == nil:
		written := max(0, len(page.Messages)-f.claim.Judged.Repeated)
		f.found = f.found || written > 0
		f.messages += written
		f.flights.activity.Found(&f.record.subject, f.claim.ID, written)
		f.unsynced = f.unsynced || len(page.Messages) > 0 && confirms(f.record.checker)
		if f.hold != nil {
			f.hold.renew()
		}
		return true
	case circulate.Full(err) && givenOnce(f.record.checker):
		page.HasMore = false
		if !f.succeed(page) { // if it succeeds, the writer goes on trying
			w.late(&circulate.Return{Claim: f.claim, Kind: f.record.account.Kind, Messages: page.Messages})
		}
		return false
	case circulate.Full(err):
		f.unwritten()
		return false
	}
	// The claim is lost, or may be. Either way our entry must not be returned: another replica has the
	// account, or reclaim will find it.
	f.flights.metrics.returns.WithLabelValues(outcomeLabel(err)).Inc()
	if errors.Is(err, circulate.ErrClaimLost) && !tried {
		w.late(&circulate.Return{Claim: f.claim, Kind: f.record.account.Kind, Messages: page.Messages})
	}
	f.flights.log.Debug("a page was not committed", "account", f.claim.ID, "error", err)
	if was, ok := f.state.move(loses); ok && was.at != seized { // if it was seized, the shutdown forgets it
		w.forget(f.claim)
		f.trace.end(outcomeLabel(err))
		f.over()
	}
	return false
}

// writeOutcome returns the outcome of a page's write.
func writeOutcome(err error) string {
	switch {
	case err == nil:
		return outcomeWritten
	case circulate.Full(err):
		return "full"
	}
	return outcomeLabel(err)
}

func outcomeLabel(err error) string {
	if circulate.Unknown(err) {
		return "unknown"
	}
	return circulate.Fenced.String()
}

// now returns the time by Redis' clock: its time at the last claim of the shard, plus what has
// passed here since. It uses the last claim and not the flight's own, because Redis' clock may have
// been corrected in between.
func (f *flight) now() time.Time { return f.flights.clocks.nowOf(f.claim.Shard) }

// noteLateness records how late the check begins. The metric, which an alert watches, leaves out
// accounts in a maintenance window.
func (f *flight) noteLateness() {
	now := f.now()
	late := max(0, now.Sub(f.due))
	if !f.flights.maintained.covers(f.record, now) {
		f.flights.metrics.lateness.Observe(late.Seconds())
	}
	f.flights.tally.late(late)
	f.late = late
}

// counted counts the check, with the messages of a page that is not committed, for the charts.
func (f *flight) counted(ok bool, messages int) {
	c := activity.Check{Account: f.claim.ID, Shard: f.claim.Shard, Shards: f.flights.writer.ring.Shards(), Failed: !ok, Messages: messages}
	if f.hold == nil {
		c.Timed, c.Late, c.Took = true, f.late, time.Since(f.localAt)
	}
	f.flights.activity.Checked(&f.record.subject, c)
}

// drain is the policy of a check whose third party holds no call. It fetches one page after another
// while there are more, and then returns the account.
type drain struct {
	f     *flight
	began time.Time
	pages int
	empty int // pages in a row without messages
}

func (d *drain) begin() time.Duration {
	d.f.noteLateness()
	d.began = time.Now()
	return 0
}

func (d *drain) ready(time.Duration) error { return d.f.synced(d.f.flights.checks) }

func (d *drain) bounds() (string, time.Duration, time.Duration) {
	return d.f.checkID, 0, d.f.flights.config.CheckTimeout
}

func (d *drain) judge(page Result, err error) (time.Duration, bool, error) {
	if err != nil {
		return 0, false, err
	}
	d.pages++
	if d.empty++; len(page.Messages) > 0 {
		d.empty = 0
	}
	if page.HasMore && d.empty >= maxEmptyPages {
		return 0, false, &CheckError{Kind: Protocol, Scope: ScopeAccount, Code: "empty_pages",
			Message: fmt.Sprintf("%d empty pages in a row that say there is more", d.empty)}
	}
	return 0, false, nil
}

func (d *drain) next(page Result, _ time.Duration) (Result, verdict, bool) {
	f, fs := d.f, d.f.flights
	f.pollsOn(&page)
	switch {
	case len(page.Messages) > 0 && !givenOnce(f.record.checker) && fs.room.short(f.claim.Shard):
		return page, toPutOff, false
	case !page.HasMore || page.NextPollAfter > 0 || d.pages >= maxPages || time.Since(d.began) >= maxDrain || fs.stopping() || f.usedUp():
		return page, toReturn, false
	}
	return page, toStay, true
}

func (d *drain) close() {}

// passOver drops messages from a page that are older than the account's registration or its
// resumption "from now". If the account has no cursor, all messages without a time count as old,
// however late its first check is. Third parties give times in whole seconds, so messages of the
// same second are not dropped.
func (f *flight) passOver(page *Result) {
	if f.memory.SkipBefore.IsZero() {
		return
	}
	first, untimed := f.memory.SkipBefore.Truncate(time.Second), f.first || f.now().Before(f.memory.SkipBefore.Add(accounts.SkipUntimed))
	all := len(page.Messages)
	page.Messages = slices.DeleteFunc(slices.Clone(page.Messages), func(m Message) bool {
		if m.Time.IsZero() {
			return untimed
		}
		return m.Time.Before(first)
	})
	if n := all - len(page.Messages); n > 0 {
		f.skipped += n
		f.flights.metrics.passedOver.WithLabelValues(f.record.account.Kind).Add(float64(n))
	}
}

// caughtUp stops dropping old messages, once the check has left nothing to fetch.
func (f *flight) caughtUp() {
	if f.memory.SkipBefore.IsZero() {
		return
	}
	f.flights.log.Info("an account has caught up; messages from before it was registered or resumed were dropped",
		"account", f.claim.ID, "kind", f.record.account.Kind, "from", f.memory.SkipBefore, "messages", f.skipped)
	f.memory.SkipBefore = time.Time{}
}
