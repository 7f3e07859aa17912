package accounts

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/accounts/history"
	"github.com/rounds-dev/rounds/circulate"
)

// ghostsShown is how long a dead replica is shown.
const ghostsShown = 10 * time.Minute

// Stats are the figures of a ring.
type Stats struct {
	Now             time.Time        // Redis' clock
	Outage          circulate.Outage // the last one that this process saw
	Shards          int
	circulate.Count // of all shards together

	Replicas []Replica

	// Processes are the processes of all roles, including those that went silent within
	// the last ten minutes. Their Differs are not set: see Compare.
	Processes []Process

	// Staleness is the result of a monitor's last scan; nil: there was no scan.
	Staleness *Staleness
	// Failing counts the accounts that are checked in vain, from the same scan; nil: there
	// was no scan.
	Failing *Failing

	// ClockStep is what monitors know about steps of Redis' clock; nil: there was no step.
	ClockStep *ClockStep
}

// Alive reports whether a process or replica that was last heard of then is alive. One that
// is silent for deadAfter is not, but silence while Redis was away does not count.
func (s *Stats) Alive(heard time.Time, deadAfter time.Duration) bool {
	return s.Outage.Alive(heard, s.Now, deadAfter)
}

// Replica is a poller process, with its last heartbeat and what it reported then.
type Replica struct {
	Name   string
	Beat   time.Time
	Report Report
}

// Stats counts the accounts of all shards. Each shard is counted at one moment, but not all
// at the same: a sum may be off by the accounts that came or left meanwhile.
func (r *Registry) Stats(ctx context.Context) (Stats, error) {
	if len(r.labels) > 0 {
		return r.CountSeen(ctx, func(*circulate.View) {})
	}
	s, err := r.Reported(ctx)
	if err != nil {
		return Stats{}, err
	}
	counts, err := r.ring.CountAll(ctx)
	for _, c := range counts {
		s.Add(c)
	}
	return s, err
}

// Reported returns the stats without counts: what replicas, processes and monitors of the whole
// service have reported. It asks Redis the same few questions whatever the number of shards.
func (r *Registry) Reported(ctx context.Context) (Stats, error) {
	s := Stats{Shards: r.ring.Shards() - r.ring.Sources()}
	replicas, now, err := r.ring.Replicas(ctx)
	if err != nil {
		return Stats{}, err
	}
	s.Now, s.Outage = now, r.ring.LastOutage(now)
	for _, one := range replicas {
		if now.Sub(one.Beat) >= ghostsShown {
			continue // without a live replica nobody removes the dead ones
		}
		replica := Replica{Name: one.Name, Beat: one.Beat}
		// A replica of another version may report something else. Its presence is what counts.
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
	// Another version may have left something else there: then nothing is known.
	if scan := new(Scan); json.Unmarshal(found, scan) == nil {
		s.Staleness, s.Failing = &scan.Staleness, scan.Failing
	}
	if found, err = r.ring.Clocks().LastStep(ctx); err != nil {
		return Stats{}, err
	}
	if step := new(ClockStep); json.Unmarshal(found, step) == nil {
		s.ClockStep = step
	}
	return s, nil
}

// Report is what a replica reports about itself with each heartbeat. Its figures cover the
// time since the heartbeat before.
type Report struct {
	Host              string  `json:"host,omitempty"`
	Concurrency       int     `json:"concurrency"`
	InFlight          int     `json:"in_flight"`
	Held              int     `json:"held,omitempty" doc:"Checks that third parties hold until something comes. They are not in flight."`
	HeldChecks        int     `json:"held_checks,omitempty" doc:"The most held checks that it makes."`
	ChecksPerSecond   float64 `json:"checks_per_second"`
	FailuresPerSecond float64 `json:"failures_per_second"`
	MessagesPerSecond float64 `json:"messages_per_second"`
	LatenessP50       float64 `json:"lateness_p50_seconds"`
	LatenessP99       float64 `json:"lateness_p99_seconds"`
	Layout            string  `json:"layout,omitempty"` // the shards that it knows, as circulate.Ring.Layout returns them

	// Kinds are the kinds that it checks, sorted. A version that does not report them has
	// none.
	Kinds []string `json:"kinds,omitempty"`

	Version string `json:"version,omitempty"` // of the program

	// Totals are the replica's counts since it started. The API does not show them.
	Totals *history.Totals `json:"totals,omitempty"`

	// Spent is what its checks have spent of the budget of adaptive accounts since it started, if
	// there is one. The API does not show it.
	Spent *cadence.Spent `json:"spent,omitempty"`

	Outage      bool     `json:"outage_suspected,omitempty" doc:"Its own network seems to be down, and failures do not count against accounts."`
	MemoryShort bool     `json:"memory_short,omitempty" doc:"It accepts no messages, because a Redis has used its memory up to the mark."`
	Denials     []Recent `json:"denials,omitempty" doc:"The limits that put checks off within the last minute, at most five, the most frequent first."`
	Warnings    []Recent `json:"warnings,omitempty" doc:"The warnings of checks that succeeded within the last minute, by kind and code, at most five."`
}

// Recent is how often something happened lately.
type Recent struct {
	Name      string `json:"name" doc:"The limit, or the kind."`
	Code      string `json:"code,omitempty" doc:"The warning's code."`
	PerMinute int    `json:"per_minute"`
	Account   string `json:"account,omitempty" doc:"The id of an account whose check had the warning."`
}
