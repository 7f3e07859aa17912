package poller

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// keptMost is how long an account stays with one claim at most. What only a claim tells,
	// such as a changed limit, counts after that at the latest.
	keptMost = 10 * time.Minute
	// A claim is renewed at the latest after keptFresh, or after keptShare of
	// Config.LongTimeout if that is less. It also says that a check has succeeded.
	keptFresh = 165 * time.Second
	keptShare = 0.55
	// leaseHeld is how long a held call counts toward the concurrency of its limits: after
	// that the third party has it, and it only waits.
	leaseHeld = time.Second
	// suspectHeld is how long a suspect's call must have been held to free the place for
	// suspects.
	suspectHeld = time.Second
)

// keep makes the calls of an account whose third party holds them, one after the other under
// one claim. Messages are written as pages of it. An empty end costs Redis nothing, except that
// the claim is renewed before it becomes stale. It reports whether the writer has taken over
// what was found.
func (f *flight) keep() (written bool) {
	fs := f.flights
	defer f.endCalls()
	if f.limits.leased() {
		defer time.AfterFunc(leaseHeld, f.freeLimits).Stop()
	}
	if f.suspect.Load() {
		defer time.AfterFunc(suspectHeld, f.cleared).Stop()
	}
	f.renewed = time.Now()
	f.held.begun = f.begun
	wait := fs.keeper.gate.Pass(f.renewed) // many accounts may be claimed at once
	for fresh := true; sleep(f.calls, wait) && f.calls.Err() == nil; {
		if err := f.synced(); err != nil && f.calls.Err() != nil {
			break
		} else if err != nil {
			f.fail(classify(err))
			return false
		}
		if fresh && !f.begin() {
			break
		}
		began := time.Now()
		holds, _ := f.holds()
		result, err := f.page()
		f.begun()
		fresh = err != nil
		if !f.took(&result, err) {
			return false
		}
		if err != nil && f.calls.Err() != nil {
			break
		}
		end, failed := f.endOf(&result, err, time.Since(began) >= holds)
		if failed == nil {
			var again bool
			if wait, again = f.record.pace.Next(end, time.Since(began), holds, time.Now(), rand.Float64()); again {
				failed = classify(err)
			}
		}
		if failed != nil {
			f.fail(failed)
			return false
		}
		if end == Broken {
			quick := wait > 0
			wait = max(wait, fs.keeper.gate.Pass(time.Now())) // many may have broken at once
			if quick && !fs.stopping() {
				continue // this is neither a success nor yet a failure
			}
			if _, ok := f.state.move(finds); !ok { // nothing, but the claim may have to be renewed
				return false
			}
		}
		if f.state.now().by == bySecret {
			wait = max(wait, secretPause)
		}
		if stays, written := f.bring(result, wait); !stays {
			return written
		}
	}
	f.comply()
	return false
}

// callOff has a check end soon, because of one of the movers that call checks off. A page that has
// arrived, or whose answer has begun, is written before. If the checker does not return, the check
// ends without it.
func (f *flight) callOff(m move) {
	if _, ok := f.state.move(m); ok {
		f.endCalls()
		time.AfterFunc(abandonAfter, func() { f.comply() })
	}
}

// comply ends a check as it was called off. It reports false if it was not, or has a page in hand:
// then the check itself complies once the page is written.
func (f *flight) comply() bool {
	was, ok := f.state.move(complies)
	if !ok {
		return false
	}
	fs := f.flights
	switch was.by {
	case bySecret:
		f.putBack("secret_changed", f.now().Add(secretPause))
	case byLoss:
		fs.writer.forget(f.claim)
		fs.metrics.returns.WithLabelValues(circulate.Fenced.String()).Inc()
		fs.log.Debug("a held call is ended: its account was changed, or another replica has it", "account", f.claim.ID)
	default:
		f.set().keep(f) // it is released with the others
	}
	f.over()
	return true
}

// begin waits for a place among the calls that begin, so that very many together do not time out
// before they reach their third parties. It reports false if the calls are ended meanwhile.
func (f *flight) begin() bool {
	k := f.flights.keeper
	k.queued.Add(1)
	got := k.begins.take(f.calls, 1)
	if k.queued.Add(-1); got == 0 {
		return false
	}
	f.beginning.Store(time.AfterFunc(heldBeginsIn, f.begun))
	return true
}

// begun gives the place back, once.
func (f *flight) begun() {
	if timer := f.beginning.Swap(nil); timer != nil {
		timer.Stop()
		f.heldSince.Store(time.Now().UnixNano())
		f.flights.keeper.begins.give(1)
	}
}

// endOf says how a call ended, or returns its failure. Whole says that it lasted as long as the
// third party may hold it.
func (f *flight) endOf(result *Result, err error, whole bool) (End, *CheckError) {
	switch {
	case err == nil && (len(result.Messages) > 0 || result.HasMore):
		return Found, nil
	case err == nil:
		return Nothing, nil
	}
	failed := classify(err)
	if f.calls.Err() == nil && endsHold(failed, whole) {
		return Broken, nil
	}
	return Broken, failed
}

// endsHold reports whether a failure is how a hold may end. A time-out is one only after the
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

// bring writes what a call brought. It reports whether the account stays for the next call, to
// be made after a wait, and whether the writer has taken over what was found.
func (f *flight) bring(result Result, wait time.Duration) (stays, written bool) {
	fs := f.flights
	if bytes.Equal(result.Cursor, f.claim.Cursor) {
		result.Cursor = nil
	}
	f.passOver(&result)
	f.uses(&result)
	elsewhere := f.leaves(&result, wait)
	if !elsewhere && !f.stays(&result) {
		if fs.keeper.crowded(time.Now()) {
			wait = max(wait, heldPause+upTo(heldPause)) // those that found no place come first
		}
		result.NextPollAfter = max(result.NextPollAfter, wait)
		result.HasMore = result.HasMore && result.NextPollAfter == 0
		return false, f.finish(result)
	}
	fs.outage.reached(f.host(), time.Now())
	fs.metrics.checks.WithLabelValues(f.record.account.Kind, "ok").Inc()
	fs.tally.checked(true)
	if len(result.Messages) > 0 || result.Cursor != nil || elsewhere || f.tires(wait) {
		if !f.progress(result) {
			return false, false
		}
		f.renewed = time.Now()
	}
	f.state.move(commits)
	f.held.free()
	elsewhere = elsewhere || fs.stopping() // since it was last asked
	if elsewhere {
		f.settle(ends, func() { fs.keeper.giveAway(f) })
	}
	return !elsewhere, false
}

// leaves reports whether the account is to be given to another replica, whose part its shard has
// become.
func (f *flight) leaves(result *Result, wait time.Duration) bool {
	return f.flights.timetable.lost(f.claim.Shard, f.division) && wait == 0 && result.NextPollAfter == 0 &&
		len(result.Warnings) == 0 && result.MovedTo == "" && !result.CursorReset && f.record.tight
}

// stays reports whether the account stays for another call under this claim. It does not if
// something about it changes only with a return.
func (f *flight) stays(result *Result) bool {
	fs, c, now := f.flights, f.claim, time.Now()
	switch {
	case c.Failures > 0, c.Strikes > 0, c.State != "", len(c.Hint) > 0, !f.skip.IsZero():
		return false
	case c.Rule != fs.codes.Rule(cadence.RuleCadence) && c.Rule != fs.codes.Rule(cadence.RuleMore) && c.Rule != fs.codes.Rule(cadence.RulePollAfter):
		return false // such as after a failure that did not count, whose text is kept
	case len(result.Warnings) > 0, result.MovedTo != "", result.CursorReset, result.NextPollAfter > 0, f.usedUp():
		return false
	case !f.record.tight, f.limits.paced(), c.Shard < fs.keeper.ring.Sources():
		return false
	}
	return !fs.stopping() && !fs.room.short(c.Shard) && !fs.keeper.crowded(now) && now.Sub(f.localAt) < keptMost
}

// tires reports whether the claim must be renewed before the next call, to be made after a wait.
func (f *flight) tires(wait time.Duration) bool {
	_, timeout := f.holds()
	most := min(keptFresh, time.Duration(keptShare*float64(f.flights.config.LongTimeout)))
	return time.Since(f.renewed)+wait+timeout > most
}

// callID returns the check id of the flight's next call. Of a held account each call has its
// own, for it may stay with one claim for long.
func (f *flight) callID() string {
	if f.call++; f.call == 1 || !f.isHeld() {
		return f.checkID
	}
	return f.checkID + "-" + strconv.Itoa(f.call)
}

// isHeld reports whether the flight has a place for held checks.
func (f *flight) isHeld() bool { return f.calls != nil }

// hold gives the flight its place for held checks.
func (f *flight) hold(ctx context.Context) {
	f.calls, f.endCalls = context.WithCancel(ctx)
	f.division = f.flights.timetable.divided()
}

// paced reports whether any of the limits has a rate: each call has to ask it.
func (l limitsOfCheck) paced() bool {
	return l[0] != nil && l[0].Every > 0 || l[1] != nil && l[1].Every > 0
}

// leased reports whether any of the limits has leases.
func (l limitsOfCheck) leased() bool {
	return l[0] != nil && l[0].Concurrency > 0 || l[1] != nil && l[1].Concurrency > 0
}

// freeLimits ends the flight's leases of its limits, once.
func (f *flight) freeLimits() {
	if !f.limitsLeft.Swap(true) {
		f.flights.limiter.left(f.limits, f.checkID)
	}
}
