package poller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

// A Holder is a Checker whose third party holds a call until something comes: a long poll.
//
// A held check has time-outs of its own: the hold and ten seconds more. A checker need not judge
// the end of a hold. When a call that was held for a while ends with nothing, by a time-out or a
// cut connection, the pool takes that for an answer without messages.
type Holder interface {
	// Hold returns how long the third party holds a call of an account with this config, as far as is
	// known without asking it. Zero: not at all. The pool holds no call for longer than
	// Config.LongTimeout allows; Request.Hold is the result.
	Hold(config json.RawMessage) time.Duration
}

// A Pollable is a Holder whose accounts can be polled as well. Only its accounts with the cadence
// "every 0" are held. The others are polled at their times, and take no place of held checks.
//
// An account that is held has a connection of its own, which counts toward the concurrency of its
// limits for as long as it lasts. Above that, and for an hour after its third party has answered with
// RateLimited, the account is polled each minute.
type Pollable interface {
	// Pollable reports whether accounts with another cadence are polled.
	Pollable() bool
}

func pollable(c Checker) bool {
	p, ok := c.(Pollable)
	return ok && p.Pollable()
}

// holdMargin is how much longer a held call may take than the third party holds it. With less,
// the client's time-out and the third party's answer would race.
const holdMargin = 10 * time.Second

// LeastLongTimeout is the least Config.LongTimeout of a pool whose kinds hold calls. It lets a call
// be held for a second, the least that a third party accepts.
const LeastLongTimeout = 3 * time.Second

// holdOf asks a checker how long an account's calls are held. See answer for panicked.
func holdOf(c Checker, config json.RawMessage, panicked func(method string, reason any)) time.Duration {
	holder, ok := c.(Holder)
	if !ok {
		return 0
	}
	return max(0, answer("Hold", holder.Hold, config, panicked))
}

// holdMargin returns how much longer than its hold a call may take. A short LongTimeout has a
// short margin, because it must leave time for the hold.
func (c Config) holdMargin() time.Duration { return min(holdMargin, c.LongTimeout/6) }

// longestHold returns the longest that a call may be held, so that with the margin its claim does
// not become stale.
func (c Config) longestHold() time.Duration { return c.LongTimeout/2 - c.holdMargin() }

const (
	// stayMost is how long an account stays under one claim at most. Changes that only a claim reads,
	// such as a new limit, take effect after that at the latest.
	stayMost = 10 * time.Minute
	// A claim is renewed at the latest after renewAfter, or after renewShare of
	// Config.LongTimeout if that is less. A renewed claim also says that a check has
	// succeeded.
	renewAfter = 165 * time.Second
	renewShare = 0.55
	// leaseHeld is how long a held call counts toward the concurrency of its limits. After
	// that it only waits at the third party. See Pollable for the other ones.
	leaseHeld = time.Second
	// suspectHeld is how long a suspect's call must have been held to free the place for
	// suspects.
	suspectHeld = time.Second
)

// hold is the policy of a check whose third party holds its calls: under one claim, one call
// follows the other. Messages are written page by page. An empty end costs Redis nothing, except
// that the claim is renewed before it becomes stale.
type hold struct {
	f        *flight
	calls    context.Context // of the calls
	endCalls context.CancelFunc
	division int // the shards' division when the account was claimed

	made    int           // calls so far
	fresh   bool          // the next call has to reach the third party anew
	called  time.Time     // when the last call began
	lasts   time.Duration // how long the third party may hold it
	renewed time.Time     // when the claim was last written
	timers  []*time.Timer

	ticket    atomic.Pointer[string]     // the claim's, as of its last write
	ended     atomic.Int64               // calls that have ended
	beginning atomic.Pointer[time.Timer] // it has a place among the calls that begin
	since     atomic.Int64               // when a call has reached the third party, unix ns; 0: not yet
	acquitted bool                       // its strikes were cleared; only the watch reads it
}

// newHold gives a flight the policy of held checks. The flight must have a place for held checks.
func newHold(ctx context.Context, f *flight) *hold {
	h := &hold{f: f, division: f.flights.timetable.divided()}
	h.calls, h.endCalls = context.WithCancel(ctx)
	h.noteTicket()
	return h
}

func (h *hold) begin() time.Duration {
	f := h.f
	if f.claim.Strikes == 0 { // with strikes, due is when its dead replica last wrote
		f.noteLateness()
	}
	if f.limits.leased() {
		h.timers = append(h.timers, time.AfterFunc(leaseHeld, f.freeLimits))
	}
	if f.suspect.Load() {
		h.timers = append(h.timers, time.AfterFunc(suspectHeld, f.cleared))
	}
	h.renewed, h.fresh = time.Now(), true
	f.cleanups.begun = h.reached
	return f.flights.held.gate.pass(h.renewed) // many accounts may be claimed at once
}

// ready waits. It returns an error if the check is called off meanwhile.
func (h *hold) ready(wait time.Duration) error {
	sleep(h.calls, wait)
	if err := h.calls.Err(); err != nil {
		return err
	}
	if err := h.f.synced(h.calls); err != nil {
		return err
	}
	if h.fresh && !h.enter() {
		return h.calls.Err()
	}
	h.called = time.Now()
	return nil
}

// enter waits for a place among the calls that begin: if thousands began together, many would time
// out before they reached their third parties. It reports false if the calls are ended meanwhile.
func (h *hold) enter() bool {
	held := h.f.flights.held
	held.queued.Add(1)
	got := held.begins.take(h.calls, 1)
	if held.queued.Add(-1); got == 0 {
		return false
	}
	h.beginning.Store(time.AfterFunc(heldBeginsIn, h.begun))
	return true
}

// begun frees the place among the calls that begin, once.
func (h *hold) begun() {
	if timer := h.beginning.Swap(nil); timer != nil {
		timer.Stop()
		h.since.Store(time.Now().UnixNano())
		h.f.flights.held.begins.give(1)
	}
}

// reached notes that the call has reached its third party. If it is still held after a while, what the
// account shares with others is well: the end of the hold may be minutes away.
func (h *hold) reached() {
	h.begun()
	if t, ended := h.f.flights.troubles, h.ended.Load(); t.active.Load() {
		time.AfterFunc(leaseHeld, func() {
			if h.ended.Load() == ended {
				t.succeeded(h.f.record)
			}
		})
	}
}

// bounds gives each call a check id of its own: many may be made under one claim.
func (h *hold) bounds() (id string, lasts, timeout time.Duration) {
	if id = h.f.checkID; h.made > 0 {
		id += "-" + strconv.Itoa(h.made+1)
	}
	h.made++
	h.lasts, timeout = h.times()
	return id, h.lasts, timeout
}

// times returns how long the next call may be held, and how long it may take in all.
func (h *hold) times() (lasts, timeout time.Duration) {
	config := &h.f.flights.config
	lasts = h.f.record.hold
	if told := time.Duration(h.f.record.told.Load()); told > 0 {
		lasts = told
	}
	lasts = min(lasts, config.longestHold())
	return lasts, lasts + config.holdMargin()
}

func (h *hold) judge(page Result, err error) (wait time.Duration, again bool, failed error) {
	f, took := h.f, time.Since(h.called)
	h.begun()
	h.ended.Add(1)
	h.fresh = err != nil
	end := endNothing
	switch {
	case err != nil && !endsHold(Classify(err), took >= h.lasts):
		return 0, false, err
	case err != nil:
		end = endBroken
	case len(page.Messages) > 0 || page.HasMore:
		end = endFound
	}
	wait, often := f.record.pace.Next(end, took, h.lasts, time.Now(), rand.Float64())
	if often {
		return 0, false, err
	}
	if end == endBroken {
		again = wait > 0 && !f.flights.stopping()
		wait = max(wait, f.flights.held.gate.pass(time.Now())) // many calls may have been cut at once
	}
	return wait, again, nil
}

// endsHold reports whether a failure is an ordinary end of a hold. A time-out is one only after the
// whole hold: before that the third party was not reached.
func endsHold(err *CheckError, whole bool) bool {
	if err.Kind != Transient || err.RetryAfter > 0 {
		return false
	}
	switch err.Code {
	case "timeout":
		return whole
	case "reset", "http_502", "http_504", "http_524":
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// next implements policy. It counts the check of a page that is not returned; settle counts the others.
func (h *hold) next(page Result, wait time.Duration) (_ Result, then verdict, commit bool) {
	f, fs := h.f, h.f.flights
	if bytes.Equal(page.Cursor, f.claim.Cursor) {
		page.Cursor = nil
	}
	if f.state.now().by == bySecret {
		wait = max(wait, secretPause)
	}
	switch {
	case h.isElsewhere(&page, wait):
		then = toRelease
	case h.stays(&page):
		then = toStay
	default:
		if fs.held.crowded(time.Now()) {
			wait = max(wait, heldPause+upTo(heldPause)) // accounts that found no place come first
		}
		page.NextPollAfter = max(page.NextPollAfter, wait)
		page.HasMore = page.HasMore && page.NextPollAfter == 0
		return page, toReturn, false
	}
	f.outage().reached(f.host(), time.Now())
	fs.metrics.checks.WithLabelValues(f.record.account.Kind, "ok").Inc()
	fs.tally.checked(true)
	f.counted(true, 0) // commit counts the page's messages
	f.ran(circulate.MarkOK, "", len(page.Messages))
	return page, then, len(page.Messages) > 0 || page.Cursor != nil || then == toRelease || h.mustRenew(wait)
}

// isElsewhere reports whether the account's shard now belongs to another replica and the account
// may be released to it. It may not if the check has found something that only a return writes.
func (h *hold) isElsewhere(page *Result, wait time.Duration) bool {
	return h.f.flights.timetable.lost(h.f.claim.Shard, h.division) && wait == 0 && page.NextPollAfter == 0 &&
		len(page.Warnings) == 0 && page.MovedTo == "" && !page.CursorReset && h.f.record.tight
}

// stays reports whether the account stays for another call under this claim. It does not if
// something has changed that only a return writes.
func (h *hold) stays(page *Result) bool {
	f, fs, c, now := h.f, h.f.flights, h.f.claim, time.Now()
	switch {
	case c.Failures > 0, c.Strikes > 0, c.State != "", len(c.Hint) > 0, !f.memory.SkipBefore.IsZero():
		return false
	case c.Rule != fs.codes.Rule(cadence.RuleCadence) && c.Rule != fs.codes.Rule(cadence.RuleMore) && c.Rule != fs.codes.Rule(cadence.RulePollAfter):
		return false // such as after a failure that did not count, because its text is stored
	case len(page.Warnings) > 0, page.MovedTo != "", page.CursorReset, page.NextPollAfter > 0, f.usedUp():
		return false
	case !f.record.tight, f.limits.paced(), f.connects, c.Shard < fs.held.ring.Sources():
		return false
	}
	return !fs.stopping() && !fs.room.short(c.Shard) && !fs.held.crowded(now) && now.Sub(f.localAt) < stayMost
}

// mustRenew reports whether the claim must be renewed before the next call, which is made after a wait.
func (h *hold) mustRenew(wait time.Duration) bool {
	_, timeout := h.times()
	most := min(renewAfter, time.Duration(renewShare*float64(h.f.flights.config.LongTimeout)))
	return time.Since(h.renewed)+wait+timeout > most
}

// renew notes that the claim was written.
func (h *hold) renew() {
	h.renewed = time.Now()
	h.noteTicket()
}

// noteTicket notes the claim's ticket for the watch.
func (h *hold) noteTicket() {
	ticket := h.f.claim.Ticket()
	h.ticket.Store(&ticket)
}

// isHarmless reports whether an account that was claimed from another replica has now been held
// here for a while.
func (h *hold) isHarmless(now time.Time) bool {
	since := h.since.Load()
	return h.f.claim.Strikes > 0 && !h.acquitted && since > 0 && now.UnixNano()-since >= int64(suspectHeld)
}

func (h *hold) close() {
	h.begun()
	h.endCalls()
	for _, timer := range h.timers {
		timer.Stop()
	}
}
