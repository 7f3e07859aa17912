package concern

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/budget"
	"github.com/rounds-dev/rounds/accounts/endpoint"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/circulate/document"
)

// Sources are where concerns come from. Redis may be nil.
type Sources struct {
	Ring      *circulate.Ring
	Registry  *accounts.Registry          // of all accounts
	Redis     func(context.Context) Redis // what is wrong with the Redis servers
	DeadAfter time.Duration               // a process that is silent for this long is dead
	Webhooks  bool                        // the caller's settings name a file with endpoints
	Sole      bool                        // everything is in a data directory, which one process at a time has

	// Outage is the last outage of Redis that the caller knows of otherwise than from Ring, which
	// may have been opened after it; zero: none.
	Outage circulate.Outage
}

// Redis is what is wrong with the Redis servers.
type Redis []RedisFault

// RedisFault is a setting or the state of a Redis server.
type RedisFault struct {
	Node  string
	Code  string // the concern's code, without redis_
	Value string // such as the policy, or the percentage of its memory
	Text  string // an English sentence that says what to set; empty: none
}

// facts is what all sources know now.
type facts struct {
	now       time.Time
	deadAfter time.Duration
	webhooks  bool // somebody names endpoints
	sole      bool // as in Sources

	stats    accounts.Stats // without counts
	law      Law
	watched  Watched
	told     time.Time
	disabled []circulate.DisabledEndpoint
	reports  map[string][]document.Report
	redis    Redis
	said     []said // by people, about concerns

	paused     []credential.Pause // the longest
	pausedMore int

	budget  budget.Standing // zero: there is none
	backups Backups
}

// Collect returns everything that is wrong now. It asks Redis about eighteen questions,
// whatever the number of accounts. If one of them is not answered, it returns an error:
// half of the concerns would look like health. Only servers that do not disclose their
// settings are left out.
func Collect(ctx context.Context, s Sources) (Concerns, error) {
	f := facts{deadAfter: s.DeadAfter, webhooks: s.Webhooks, sole: s.Sole}
	var err error
	if f.stats, err = s.Registry.Reported(ctx); err != nil {
		return Concerns{}, err
	}
	if s.Outage.Till.After(f.stats.Outage.Till) {
		f.stats.Outage = s.Outage
	}
	if f.law, err = Read(ctx, s.Ring); err != nil {
		return Concerns{}, err
	}
	if f.watched, f.told, f.now, err = readWatched(ctx, s.Ring); err != nil {
		return Concerns{}, err
	}
	if f.disabled, err = s.Ring.Endpoints().All(ctx); err != nil {
		return Concerns{}, fmt.Errorf("concerns: %w", err)
	}
	if f.reports, _, err = document.Of(s.Ring).Endpoints().Reports(ctx); err != nil {
		return Concerns{}, fmt.Errorf("concerns: %w", err)
	}
	if !f.webhooks {
		stored, err := endpoint.Of(s.Ring).All(ctx)
		if err != nil {
			return Concerns{}, fmt.Errorf("concerns: %w", err)
		}
		f.webhooks = len(stored) > 0
	}
	if f.paused, f.pausedMore, _, err = credential.Of(s.Ring).Paused(ctx, 1); err != nil {
		return Concerns{}, fmt.Errorf("concerns: %w", err)
	}
	if f.budget, _, err = budget.Current(ctx, s.Ring); err != nil {
		return Concerns{}, fmt.Errorf("concerns: %w", err)
	}
	if f.backups, err = ReadBackups(ctx, s.Ring); err != nil {
		return Concerns{}, fmt.Errorf("concerns: %w", err)
	}
	if err := f.lookAgain(ctx, s.Ring); err != nil {
		return Concerns{}, err
	}
	if f.said, err = SilencesOf(s.Ring).all(ctx); err != nil {
		return Concerns{}, fmt.Errorf("concerns: %w", err)
	}
	if s.Redis != nil {
		f.redis = s.Redis(ctx)
	}
	return f.judge(), nil
}

// judge returns the concerns that follow from the facts.
func (f *facts) judge() Concerns {
	var all []Concern
	for _, part := range []func() []Concern{
		f.ofLaw, f.ofProcesses, f.ofReplicas, f.ofRedis, f.ofFailing, f.ofScan, f.ofWatched, f.ofWebhooks, f.ofGroups, f.ofBudget, f.ofBackups,
	} {
		all = append(all, part()...)
	}
	for i := range all {
		all[i].Since, all[i].AsOf = all[i].Since.UTC(), all[i].AsOf.UTC()
	}
	mind(all, f.said)
	l := newList(f.now, all)
	if !f.told.IsZero() {
		l.Watched = f.told.UTC()
	}
	return l
}

// alive reports whether a process or replica that was last heard of then is alive.
func (f *facts) alive(heard time.Time) bool { return f.stats.Alive(heard, f.deadAfter) }

// returned reports whether an outage of Redis has just ended. What Redis knows of living
// processes may then be gone, or as old as its last snapshot. They report themselves again
// within deadAfter.
func (f *facts) returned() bool { return f.stats.Now.Sub(f.stats.Outage.Till) < f.deadAfter }

// has reports whether a process with a role is alive, and since when at least.
func (f *facts) has(role string) (there bool, since time.Time) {
	for i := range f.stats.Processes {
		p := &f.stats.Processes[i]
		if slices.Contains(p.Roles, role) && f.alive(p.Beat) {
			if !there || p.Report.Since.Before(since) {
				since = p.Report.Since
			}
			there = true
		}
	}
	return there, since
}

// lastHeard returns the latest report of the silent processes with a role, or the zero time if
// there are none.
func (f *facts) lastHeard(role string) (last time.Time) {
	for i := range f.stats.Processes {
		if p := &f.stats.Processes[i]; slices.Contains(p.Roles, role) && !f.alive(p.Beat) {
			last = latest(last, p.Beat)
		}
	}
	return last
}
