package poller

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/accounts"
)

const (
	// suspectStrikes is how many strikes make an account a suspect of hanging or killing
	// replicas. An account gets a strike each time it is taken from a replica, and loses
	// them with a returned check. A replica checks one suspect at a time, so an innocent
	// account that only ran beside the guilty one is soon checked without it and cleared,
	// long before strikes put it in quarantine.
	suspectStrikes = 2
	suspectPause   = 30 * time.Second // the longest wait until a suspect is tried again

	unknownPause = time.Minute      // the same for an account that this version does not know
	yieldLong    = 15 * time.Minute // how long other replicas have precedence in a shard with such an account

	unansweredPause = 2 * time.Second // the longest wait while a limit does not answer
	codeUnanswered  = "limit_unanswered"
)

// admit returns the claimed accounts of a shard that may be checked now. It puts the
// others off at once, which is not a failure and takes no place.
func (fs *flights) admit(ctx context.Context, shard int, claimed []*flight) []*flight {
	return fs.withinLimits(ctx, fs.uncrowded(fs.connected(ctx, fs.untroubled(ctx, fs.unsuspected(fs.recounted(ctx, shard, fs.placed(fs.withRoom(shard, claimed))))))))
}

// recounted reads strikes again for flights that have just enough to be suspects. Two monitors that
// requeue an entry at the same moment both count it, and one of them takes its strike back at once.
// An account that was claimed in between is no suspect.
func (fs *flights) recounted(ctx context.Context, shard int, claimed []*flight) []*flight {
	suspects := make(map[string]*flight)
	var ids []string
	for _, f := range claimed {
		if f.claim.Strikes == suspectStrikes {
			suspects[f.claim.ID], ids = f, append(ids, f.claim.ID)
		}
	}
	if len(ids) == 0 {
		return claimed
	}
	views, err := fs.held.ring.Look(ctx, shard, ids)
	if err != nil {
		return claimed // they count as suspects, which costs only time
	}
	for i := range views {
		suspects[views[i].ID].claim.Strikes = views[i].Strikes
	}
	return claimed
}

// withRoom returns the flights of a shard if Redis has room for the messages that they may find.
// Otherwise it puts all accounts off, which is not a failure.
func (fs *flights) withRoom(shard int, claimed []*flight) []*flight {
	if !fs.room.short(shard) {
		return claimed
	}
	for _, f := range claimed {
		f.turnAway(accounts.RuleMemory, f.now().Add(fs.room.pause(shard)))
	}
	return claimed[:0]
}

// withinLimits returns the flights whose limits let them start. If a limit does not answer,
// its flights may not start.
func (fs *flights) withinLimits(ctx context.Context, claimed []*flight) []*flight {
	var asking []*candidate
	asks := make([]*candidate, len(claimed)) // by index; nil: no limit
	for i, f := range claimed {
		if f.limits == (limitsOfCheck{}) || f.limitsFreed.Load() {
			continue
		}
		c := &candidate{kind: f.record.account.Kind, limits: f.limits, checkID: f.checkID}
		if fs.codes.Rule(accounts.RuleLimit) == f.claim.Rule {
			c.promised = f.claim.Due
		}
		asks[i], asking = c, append(asking, c)
	}
	if len(asking) == 0 {
		return claimed
	}
	fs.limiter.ask(ctx, asking)
	admitted := claimed[:0:len(claimed)]
	for i, f := range claimed {
		c := asks[i]
		switch {
		case c == nil || c.admitted():
			admitted = append(admitted, f)
		case c.err != nil:
			f.turnAway(codeUnanswered, f.now().Add(upTo(unansweredPause)))
		default:
			f.turnAway(accounts.RuleLimit, c.until)
		}
	}
	return admitted
}

// unsuspected returns the flights that may be checked. It puts off those that an outage of our own
// network, an earlier strike or a used-up share keeps from it.
func (fs *flights) unsuspected(claimed []*flight) []*flight {
	now := time.Now()
	admitted := claimed[:0:len(claimed)]
	for _, f := range claimed {
		switch {
		case f.record.unknown != "":
			f.putOffUnknown(f.record.reason, f.record.unknown)
		case f.record.fault != "":
			admitted = append(admitted, f) // its check fails at once
		case f.usedUp(): // it was nudged, or it would not be due
			f.turnAway(accounts.RuleShare, f.shareAgain())
		case f.claim.Strikes >= suspectStrikes && !fs.suspect.CompareAndSwap(false, true):
			f.turnAway(accounts.RuleIsolation, f.now().Add(upTo(suspectPause)))
		default:
			f.suspect.Store(f.claim.Strikes >= suspectStrikes)
			if !f.outage().admits(f.host(), now) {
				f.turnAway(accounts.RuleOutage, f.afterOutage())
				continue
			}
			admitted = append(admitted, f)
		}
	}
	return admitted
}

// cleared frees the place for suspects.
func (f *flight) cleared() {
	if f.suspect.CompareAndSwap(true, false) {
		f.flights.suspect.Store(false)
	}
}

// turnAway returns an account whose check must not start.
func (f *flight) turnAway(reason string, due time.Time) {
	f.cleared()
	f.leaveCrowd()
	if f.hold != nil {
		f.hold.endCalls()
		f.flights.held.places.give(1)
	}
	f.putOff(reason, due)
}

// putOff returns an account unchecked and otherwise as it was. A reason that is not a rule
// keeps the rule that decided when it was due.
func (f *flight) putOff(reason string, due time.Time) {
	f.flights.metrics.putOff.WithLabelValues(reason).Inc()
	rule, ok := f.flights.codes.Known(reason)
	if !ok {
		rule = 0
	}
	f.flights.writer.submit(unchecked(f.claim, f.record.account.Kind, due, rule), nil)
}

// putOffUnknown puts off an account that this version does not know. During a rolling restart a
// newer replica may know it. Nothing counts against the account.
func (f *flight) putOffUnknown(reason, unknown string) {
	fs := f.flights
	fs.metrics.putOff.WithLabelValues(reason).Inc()
	fs.timetable.yield(f.claim.Shard, time.Now().Add(yieldLong))
	item := unchecked(f.claim, f.record.account.Kind, f.now().Add(upTo(unknownPause)), 0)
	item.Error = reason + ": " + unknown
	fs.writer.submit(item, nil)
}

// afterOutage returns when to try an account again that our own network does not reach: at the next
// slot of its cadence, but not before a pause at its own pace. Each account is therefore back on its
// phase after an outage.
func (f *flight) afterOutage() time.Time {
	now := f.now()
	due := now.Add(upTo(f.record.cadence.FirstPause(f.memory.Cadence)))
	if slot, again := f.record.cadence.After(f.claim.ID, now, f.memory.Cadence); again && slot.After(due) {
		return slot
	}
	return due
}

// freeLimits ends the check's leases of limits, once.
func (f *flight) freeLimits() {
	if !f.limitsFreed.Swap(true) {
		f.flights.limiter.finish(f.limits, f.checkID)
	}
}

// upTo returns a random part of d, at least half of it.
func upTo(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2)
}

// host names the third party that a check has to reach. It lets the pool tell a third party that is
// down from an outage of our own network.
func (f *flight) host() string {
	if f.record.rateKey != "" {
		return f.record.rateKey
	}
	return f.record.account.Kind + " " + f.claim.ID
}
