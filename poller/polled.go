package poller

import (
	"context"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate/limit"
)

// An account of a [Pollable] that could be held is polled while it may not stay connected: because its
// third party has refused it for a limit, which the account remembers, or because a limit of ours has
// no place for its connection. All replicas know both. It is held again as soon as it may.
const (
	polledEvery   = time.Minute // the least pause between two checks of such an account
	polledRefused = time.Hour   // how long an account is polled that its third party has refused for a limit

	codePolled = "polled"
)

// poll has an account polled that could be held, and says why.
func (f *flight) poll(why string) {
	if f.hold != nil {
		f.hold.endCalls()
		f.flights.held.places.give(1)
		f.hold = nil
	}
	f.polled = why
}

// mayBePolled reports whether the account could be held, and be polled as well.
func (r *record) mayBePolled() bool { return r.hold > 0 && pollable(r.checker) }

// refused reports whether the account is polled because its third party has refused it for a limit.
func (f *flight) refused() bool {
	return f.record.mayBePolled() && f.memory.PolledUntil.After(f.now())
}

// noteRefusal notes that the third party has refused the account for a limit, if err says so.
func (f *flight) noteRefusal(err *CheckError) {
	if err.Kind == RateLimited && err.Scope == ScopeAccount && f.record.mayBePolled() {
		f.memory.PolledUntil = f.now().Add(polledRefused)
	}
}

// polledUntil returns the refusal as the account remembers it, or the zero time if it is over.
func (f *flight) polledUntil() time.Time {
	if !f.refused() {
		return time.Time{}
	}
	return f.memory.PolledUntil
}

// connected asks the limits of held accounts whether these may stay connected, and has the others
// polled. It puts off accounts whose limits do not answer.
func (fs *flights) connected(ctx context.Context, claimed []*flight) []*flight {
	unanswered := make(map[*flight]bool)
	for level := range len(limitsOfCheck{}) {
		fs.connectLevel(ctx, level, claimed, unanswered)
	}
	admitted := claimed[:0:len(claimed)]
	for _, f := range claimed {
		if unanswered[f] {
			f.turnAway(codeUnanswered, f.now().Add(upTo(unansweredPause)))
			continue
		}
		if f.connects && !f.limits.paced() {
			f.limitsFreed.Store(true) // the connection has its lease
		}
		admitted = append(admitted, f)
	}
	return admitted
}

// connectLevel asks the limits of one level for the accounts that are still held.
func (fs *flights) connectLevel(ctx context.Context, level int, claimed []*flight, unanswered map[*flight]bool) {
	var asks []limit.Connects
	var asking [][]*flight
	index := make(map[string]int)
	for _, f := range claimed {
		one := f.limits[level]
		if one == nil || one.Concurrency == 0 || f.hold == nil || unanswered[f] || !f.record.mayBePolled() {
			continue
		}
		i, ok := index[one.Name]
		if !ok {
			i = len(asks)
			index[one.Name] = i
			asks, asking = append(asks, limit.Connects{Limit: *one}), append(asking, nil)
		}
		asks[i].Accounts = append(asks[i].Accounts, f.claim.ID)
		asking[i] = append(asking[i], f)
	}
	if len(asks) == 0 {
		return
	}
	answers, errs := fs.limiter.shared.Connect(ctx, asks, fs.config.LongTimeout)
	for i, of := range asking {
		if errs[i] != nil {
			fs.limiter.errors.WithLabelValues("connect").Inc()
			fs.log.Debug("a limit did not answer", "limit", asks[i].Limit.Name, "error", errs[i])
		}
		for j, f := range of {
			switch {
			case errs[i] != nil:
				unanswered[f] = true
			case answers[i][j]:
				f.connects = true
			default:
				f.connects = false
				f.poll(fmt.Sprintf("the limit %s has no place for its connection", asks[i].Limit.Name))
			}
		}
	}
}

// pollsOn adds to the page of an account that could be held why it is polled, and the least pause
// until its next check.
func (f *flight) pollsOn(page *Result) {
	if f.polled == "" {
		return
	}
	page.Warnings = append(page.Warnings, Warning{Code: codePolled, Message: f.polled + ": it is polled each minute until it may be held again"})
	if !page.HasMore {
		page.NextPollAfter = max(page.NextPollAfter, polledEvery)
	}
}

// whyRefused is why a refused account is polled.
func (f *flight) whyRefused() string {
	return "the third party has refused it for a limit, which is tried again after " + f.memory.PolledUntil.UTC().Format(time.TimeOnly) + " UTC"
}
