package accounts

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// ghostsShown is how long a replica that is dead is told.
const ghostsShown = 10 * time.Minute

// Stats is how a ring is doing.
type Stats struct {
	Now    time.Time // Redis' clock
	Shards int

	Registered, Scheduled, Waiting, Claimed, Parked int
	Urgent, Low                                     int // of the waiting ones, those in these lanes
	Messages                                        int
	// Overdue is how long the longest overdue account has waited to be claimed.
	Overdue time.Duration

	Replicas []Replica

	// Processes are those of all roles, with those that went silent within the last ten
	// minutes. Compare has not been called.
	Processes []Process

	// Staleness is what the last scan of a monitor found; nil: there was none.
	Staleness *Staleness
	// Failing is how many accounts it found to be checked in vain; nil: none has looked.
	Failing *Failing

	// ClockStep is what monitors know of steps of Redis' clock; nil: there was none.
	ClockStep *ClockStep
}

// Replica is one running poller process, as it last said.
type Replica struct {
	Name   string
	Beat   time.Time
	Report Report
}

// Stats counts all shards, each at one moment but not all at the same: while
// accounts are registered or leave, sums may be off by as many.
func (r *Registry) Stats(ctx context.Context) (Stats, error) {
	s := Stats{Shards: r.ring.Shards()}
	replicas, now, err := r.ring.Replicas(ctx)
	if err != nil {
		return Stats{}, err
	}
	s.Now = now
	for _, one := range replicas {
		if now.Sub(one.Beat) >= ghostsShown {
			continue // where no replica lives, nobody forgets the dead
		}
		replica := Replica{Name: one.Name, Beat: one.Beat}
		// A replica of another version may say something else; that it is there
		// is what counts.
		_ = json.Unmarshal(one.Report, &replica.Report)
		s.Replicas = append(s.Replicas, replica)
	}
	members, _, err := r.ring.Roster().Members(ctx)
	if err != nil {
		return Stats{}, err
	}
	s.Processes = processesOf(members)
	found, err := r.ring.LastStaleness(ctx)
	if err != nil {
		return Stats{}, err
	}
	// What another version left there may be something else: then nothing is known.
	if scan := new(Scan); json.Unmarshal(found, scan) == nil {
		s.Staleness, s.Failing = &scan.Staleness, scan.Failing
	}
	if found, err = r.ring.Clocks().LastStep(ctx); err != nil {
		return Stats{}, err
	}
	if step := new(ClockStep); json.Unmarshal(found, step) == nil {
		s.ClockStep = step
	}
	var mu sync.Mutex
	err = circulate.EachShard(ctx, r.ring.Shards(), func(ctx context.Context, shard int) error {
		c, err := r.ring.Count(ctx, shard)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		s.add(c)
		return nil
	})
	return s, err
}

func (s *Stats) add(c circulate.Count) {
	s.Registered += c.Registered
	s.Scheduled += c.Scheduled
	s.Waiting += c.Waiting
	s.Urgent += c.Urgent
	s.Low += c.Low
	s.Claimed += c.Claimed
	s.Parked += c.Parked
	s.Messages += c.Messages
	s.Overdue = max(s.Overdue, c.Overdue)
}
