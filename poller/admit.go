package poller

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// suspectStrikes is how often an account was taken from a replica, with no
	// check returned in between, until it is suspected to be what hung or killed
	// them. A replica checks one suspect at a time: who merely ran beside the
	// one that kills replicas is soon checked without it, and cleared, long
	// before strikes put an account in quarantine.
	suspectStrikes = 2
	suspectPause   = 30 * time.Second // until another try, at most

	outagePause = 30 * time.Second // likewise, while our own network seems to be down

	unknownPause = time.Minute      // likewise, for a replica that knows what this one does not
	leftAlone    = 15 * time.Minute // for so long the others look first at a shard with such an account

	unansweredPause = 2 * time.Second // likewise, while a limit does not answer
)

// admit returns those of a shard's claimed accounts that may be checked now. The
// others go back to the schedule at once. That is no failure, and takes no place.
func (fs *flights) admit(ctx context.Context, shard int, claimed []*flight) []*flight {
	return fs.withinLimits(ctx, fs.unsuspected(fs.withRoom(shard, claimed)))
}

// withRoom are the flights of one shard where Redis has room for what they may find.
// Otherwise all go back unchecked; that is no failure.
func (fs *flights) withRoom(shard int, claimed []*flight) []*flight {
	if !fs.room.short(shard) {
		return claimed
	}
	for _, f := range claimed {
		f.turnAway(accounts.RuleMemory, f.now().Add(fs.room.pause(shard)))
	}
	return claimed[:0]
}

// withinLimits are those whose limits let them start. Where the limits do not
// answer nobody may start.
func (fs *flights) withinLimits(ctx context.Context, claimed []*flight) []*flight {
	var asking []*candidate
	asks := make([]*candidate, len(claimed)) // in the place of each; nil: no limit
	for i, f := range claimed {
		if f.limits == (limitsOfCheck{}) {
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
	const unanswered = "limit_unanswered"
	admitted := claimed[:0:len(claimed)]
	for i, f := range claimed {
		c := asks[i]
		switch {
		case c == nil || c.admitted():
			admitted = append(admitted, f)
		case c.err != nil:
			f.turnAway(unanswered, f.now().Add(upTo(unansweredPause)))
		default:
			f.turnAway(accounts.RuleLimit, c.until)
		}
	}
	return admitted
}

// unsuspected are those that neither an outage of our own network nor an earlier
// mishap keeps from being checked.
func (fs *flights) unsuspected(claimed []*flight) []*flight {
	now := time.Now()
	admitted := claimed[:0:len(claimed)]
	for _, f := range claimed {
		switch {
		case f.record.unknown != "":
			f.leave()
		case f.record.fault != "":
			admitted = append(admitted, f) // fails by itself
		case f.usedUp(): // and was nudged
			f.turnAway(accounts.RuleShare, f.shareAgain())
		case f.claim.Strikes >= suspectStrikes && !fs.suspect.CompareAndSwap(false, true):
			f.turnAway(accounts.RuleIsolation, f.now().Add(upTo(suspectPause)))
		default:
			f.suspect = f.claim.Strikes >= suspectStrikes
			if !fs.outage.admits(f.host(), now) {
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
	if f.suspect {
		f.flights.suspect.Store(false)
	}
}

// turnAway returns an account whose check is not to start.
func (f *flight) turnAway(reason string, due time.Time) {
	f.cleared()
	f.putBack(reason, due)
}

// putBack returns an account unchecked, with all that is known of it as it was.
// A reason that is no rule leaves what had decided when it is due.
func (f *flight) putBack(reason string, due time.Time) {
	f.flights.metrics.putBack.WithLabelValues(reason).Inc()
	rule, ok := f.flights.codes.Known(reason)
	if !ok {
		rule = 0
	}
	f.flights.writer.submit(circulate.Return{
		Claim: f.claim, Kind: f.record.account.Kind, Due: due, Rule: rule,
		Failures: f.claim.Failures, State: f.claim.State,
	}, nil)
}

// leave returns an account that another replica may know what to do with: a
// newer one, while they are replaced. It counts as nothing against the account.
func (f *flight) leave() {
	fs := f.flights
	fs.metrics.putBack.WithLabelValues(f.record.reason).Inc()
	fs.timetable.leave(f.claim.Shard, time.Now().Add(leftAlone))
	fs.writer.submit(circulate.Return{
		Claim: f.claim, Kind: f.record.account.Kind, Due: f.now().Add(upTo(unknownPause)),
		Failures: f.claim.Failures, State: f.claim.State,
		Error: f.record.reason + ": " + f.record.unknown,
	}, nil)
}

// afterOutage is when to try an account again whose third party our own network
// does not let us reach: at its cadence's next time, so that after an outage
// each is on its phase again, but not before a pause.
func (f *flight) afterOutage() time.Time {
	now := f.now()
	due := now.Add(upTo(outagePause))
	state, err := cadence.ParseState(f.claim.State)
	if err != nil {
		state = cadence.State{} // told when it is next decided on
	}
	if slot, again := f.record.cadence.After(f.claim.ID, now, state); again && slot.After(due) {
		return slot
	}
	return due
}

// upTo is a random part of d, half of it at least.
func upTo(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2)
}

// host is whom a check has to reach, for telling one that is down from our own
// network being down.
func (f *flight) host() string {
	if f.record.rateKey != "" {
		return f.record.rateKey
	}
	return f.record.account.Kind + " " + f.claim.ID
}
