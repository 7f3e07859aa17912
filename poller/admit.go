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

// admit gives those of claimed accounts that may be checked now. The others go
// back to the schedule at once; that is no failure, and holds no place.
func (p *Pool) admit(ctx context.Context, flights []*flight) []*flight {
	return p.withinLimits(ctx, p.unsuspected(flights))
}

// withinLimits are those whose limits let them start. Where the limits do not
// answer nobody may start.
func (p *Pool) withinLimits(ctx context.Context, flights []*flight) []*flight {
	var asking []*candidate
	asks := make([]*candidate, len(flights)) // in the place of each; nil: no limit
	for i, f := range flights {
		if f.record.limits == (limitsOfCheck{}) {
			continue
		}
		c := &candidate{kind: f.record.account.Kind, limits: f.record.limits, checkID: f.checkID}
		if p.letters.Rule(accounts.RuleLimit) == f.claim.Rule {
			c.promised = f.claim.Due
		}
		asks[i], asking = c, append(asking, c)
	}
	if len(asking) == 0 {
		return flights
	}
	p.limiter.ask(ctx, asking)
	const unanswered = "limit_unanswered"
	admitted := flights[:0:len(flights)]
	for i, f := range flights {
		c := asks[i]
		switch {
		case c == nil || c.admitted():
			admitted = append(admitted, f)
		case c.err != nil:
			f.cleared()
			f.putBack(unanswered, f.now().Add(upTo(unansweredPause)))
		default:
			f.cleared()
			f.putBack(accounts.RuleLimit, c.until)
		}
	}
	return admitted
}

// unsuspected are those that neither an outage of our own network nor an earlier
// mishap keeps from being checked.
func (p *Pool) unsuspected(flights []*flight) []*flight {
	now := time.Now()
	admitted := flights[:0:len(flights)]
	for _, f := range flights {
		switch {
		case f.record.unknown != "":
			f.leave()
		case f.record.fault != "":
			admitted = append(admitted, f) // fails by itself
		case f.usedUp(): // and was nudged
			f.putBack(accounts.RuleShare, f.shareAgain())
		case f.claim.Strikes >= suspectStrikes && !p.suspect.CompareAndSwap(false, true):
			f.putBack(accounts.RuleIsolation, f.now().Add(upTo(suspectPause)))
		default:
			f.suspect = f.claim.Strikes >= suspectStrikes
			if !p.outage.admits(f.host(), now) {
				f.cleared()
				f.putBack(accounts.RuleOutage, f.afterOutage())
				continue
			}
			admitted = append(admitted, f)
		}
	}
	return admitted
}

// cleared gives the place for suspects free again.
func (f *flight) cleared() {
	if f.suspect {
		f.pool.suspect.Store(false)
	}
}

// putBack returns an account unchecked, with all that is known of it as it was.
// A reason that is no rule leaves what had decided when it is due.
func (f *flight) putBack(reason string, due time.Time) {
	f.pool.metrics.putBack.WithLabelValues(reason).Inc()
	rule, ok := f.pool.letters.Known(reason)
	if !ok {
		rule = 0
	}
	f.pool.committer.submit(circulate.Return{
		Claim: f.claim, Kind: f.record.account.Kind, Due: due, Rule: rule,
		Failures: f.claim.Failures, State: f.claim.State,
	})
}

// leave gives an account back that another replica may know what to do with: a
// newer one, while they are replaced. It counts as nothing against the account.
func (f *flight) leave() {
	p := f.pool
	p.metrics.putBack.WithLabelValues(f.record.reason).Inc()
	p.timetable.leave(f.claim.Shard, time.Now().Add(leftAlone))
	p.committer.submit(circulate.Return{
		Claim: f.claim, Kind: f.record.account.Kind, Due: f.now().Add(upTo(unknownPause)),
		Failures: f.claim.Failures, State: f.claim.State,
		Error: f.record.reason + ": " + f.record.unknown,
	})
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
