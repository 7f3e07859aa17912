package accounts

import (
	"context"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// CountSeen counts the accounts that a bound registry's principal sees, and calls look
// with each of them. It looks at all accounts of the ring. Redis takes a millisecond for
// about a hundred. It leaves out everything that is not about single accounts: messages,
// the longest waits, replicas and processes.
func (r *Registry) CountSeen(ctx context.Context, look func(*circulate.View)) (Stats, error) {
	now, err := r.ring.Now(ctx, 0)
	if err != nil {
		return Stats{}, err
	}
	c := boundCount{stats: Stats{Now: now, Shards: r.ring.Shards() - r.ring.Sources()}, failing: NewFailingCount(), look: look}
	err = r.inOrder(ctx, func(ctx context.Context, from, to int) error {
		for shard := from; shard < to; shard++ {
			ids, err := r.idsOf(ctx, shard)
			if err != nil {
				return err
			}
			for some := range slices.Chunk(ids, lookCount) {
				if err := r.countSeen(ctx, shard, some, &c); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return Stats{}, err
	}
	return c.sums(), nil
}

// countSeen counts the accounts that the caller may see, among some accounts of a shard. Of
// the others it reads nothing but the records.
func (r *Registry) countSeen(ctx context.Context, shard int, ids []string, c *boundCount) error {
	chosen, _, err := r.choose(ctx, shard, ids, &Selector{bound: r.labels})
	if err != nil || len(chosen) == 0 {
		return err
	}
	views, err := r.ring.Look(ctx, shard, idsIn(chosen))
	if err != nil {
		return err
	}
	for i := range views {
		if r.sees(views[i].Record) {
			c.add(&views[i])
		}
	}
	return nil
}

// boundCount adds up single accounts.
type boundCount struct {
	stats   Stats
	failing *FailingCount
	look    func(*circulate.View)
	ages    []time.Duration
	stalest string
	oldest  time.Duration
}

// add counts an account.
func (c *boundCount) add(v *circulate.View) {
	c.look(v)
	c.stats.Registered++
	switch v.Place {
	case circulate.Parked:
		c.stats.Parked++
		return // as in a monitor's scan
	case circulate.Scheduled:
		c.stats.Scheduled++
	case circulate.Claimed:
		c.stats.Claimed++
	case circulate.Waiting:
		c.stats.Waiting++
		switch v.Priority {
		case circulate.Urgent:
			c.stats.Urgent++
		case circulate.Low:
			c.stats.Low++
		}
	}
	age := max(0, v.Now.Sub(v.History.Succeeded))
	if v.History.Succeeded.IsZero() {
		age = 0
	}
	c.ages = append(c.ages, age)
	if age >= c.oldest {
		c.oldest, c.stalest = age, v.ID
	}
	fields, _ := strict.Stored(v.Record) // an unreadable record has neither
	kind, _ := strict.TextIn(fields, "kind")
	rhythm, _ := strict.TextIn(fields, "cadence")
	c.failing.Add(v.Now, []circulate.SlowGroup{{Kind: kind, Cadence: rhythm, Stalest: v.ID, Counts: []circulate.SlowCount{
		{Age: age, Failing: LastFailed(v), NeverSucceeded: v.History.NeverSucceeded(), Accounts: 1},
	}}})
}

// sums returns the statistics of the accounts that were counted.
func (c *boundCount) sums() Stats {
	slices.Sort(c.ages)
	percentile := func(share float64) float64 {
		if len(c.ages) == 0 {
			return 0
		}
		return c.ages[min(len(c.ages)-1, int(share*float64(len(c.ages))))].Seconds()
	}
	c.stats.Staleness = &Staleness{
		At: c.stats.Now, Scanned: len(c.ages), P50: percentile(0.5), P99: percentile(0.99), Max: percentile(1), Stalest: c.stalest, ParkedExcluded: c.stats.Parked,
	}
	failing := c.failing.Found(len(c.ages))
	c.stats.Failing = &failing
	return c.stats
}
