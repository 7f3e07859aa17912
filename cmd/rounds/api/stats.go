package api

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/budget"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/circulate"
)

// statsRoutes adds the route of the figures of a ring.
func (s *Server) statsRoutes(api huma.API) {
	answer(s, api, "get stats", huma.Operation{
		OperationID: "get-stats", Method: http.MethodGet, Path: "/v1/stats", Tags: []string{"service"},
		Summary: "Accounts by place, lateness, replicas", Errors: []int{401, 503},
	}, s.getStats)
}

// faultsOfRedis returns what is wrong with the Redis servers, as far as the service knows.
func (s *Server) faultsOfRedis(ctx context.Context) concern.Redis {
	if s.options.Data == nil {
		return nil
	}
	var all concern.Redis
	for _, c := range s.options.Data(ctx).Concerns {
		all = append(all, concern.RedisFault{Node: c.Node, Code: c.Concern, Value: c.Value, Text: c.Text})
	}
	return all
}

type statsRequest struct {
	Counts bool `query:"counts" default:"true" doc:"false: leaves the accounts out, whose counting costs several commands of Redis for each shard. Callers that are bound to labels get them all the same."`
}

func (s *Server) getStats(ctx context.Context, r *statsRequest) (Stats, error) {
	stats, err := s.stats(ctx, r.Counts)
	if err != nil {
		return Stats{}, err
	}
	reply := Stats{
		Now: inUTC(stats.Now), Shards: stats.Shards, Messages: stats.Messages,
		OverdueSeconds: stats.Overdue.Seconds(),
		Accounts: Places{
			Registered: stats.Registered, Scheduled: stats.Scheduled, Waiting: stats.Waiting,
			Claimed: stats.Claimed, Parked: stats.Parked,
			WaitingByLane: WaitingByLane{
				Urgent: stats.Urgent, Normal: max(0, stats.Waiting-stats.Urgent-stats.Low-stats.ByKind), Low: stats.Low, ByKind: stats.ByKind,
			},
		},
		Staleness: stats.Staleness, Failing: stats.Failing, ClockStep: stats.ClockStep,
		Replicas: make([]Replica, len(stats.Replicas)), Processes: make([]Process, len(stats.Processes)),
	}
	if principal, _ := access.From(ctx); principal.Bound() {
		reply.Labels = principal.Labels
	} else if s.options.Data != nil {
		data := s.options.Data(ctx)
		reply.Data = &data
	}
	if len(reply.Labels) == 0 {
		state, ok, err := budget.Current(ctx, s.options.Ring)
		if err != nil {
			return Stats{}, err
		}
		if ok {
			reply.Budget = &state
		}
	}
	if err := s.addFailing(ctx, &reply); err != nil {
		return Stats{}, err
	}
	if len(reply.Labels) == 0 && stats.Overdue >= circulate.Late {
		if reply.CatchUp, err = concern.LastCatchUp(ctx, s.options.Ring); err != nil {
			return Stats{}, err
		}
	}
	for i, r := range stats.Replicas {
		r.Report.Totals, r.Report.Spent = nil, nil // only sums over time use them
		reply.Replicas[i] = Replica{
			Name: r.Name, LastHeartbeat: inUTC(r.Beat.Truncate(time.Millisecond)),
			Alive: stats.Alive(r.Beat, s.options.DeadAfter), Report: r.Report,
		}
	}
	alive := func(p *accounts.Process) bool { return stats.Alive(p.Beat, s.options.DeadAfter) }
	accounts.Compare(stats.Processes, alive)
	for i := range stats.Processes {
		p := &stats.Processes[i]
		reply.Processes[i] = Process{
			Name: p.Name, Roles: p.Roles, Version: p.Report.Version, Host: p.Report.Host, Since: inUTC(p.Report.Since),
			LastHeartbeat: inUTC(p.Beat.Truncate(time.Millisecond)), Alive: alive(p), Differs: p.Differs,
		}
	}
	return reply, nil
}

// addFailing has the stats say how many accounts fail as the last summary of problems does, which
// is newer than the scan: all places tell the same.
func (s *Server) addFailing(ctx context.Context, reply *Stats) error {
	if reply.Failing != nil && reply.Staleness != nil {
		reply.Failing.At = reply.Staleness.At
	}
	if len(reply.Labels) > 0 {
		return nil // counted just now, for the caller alone
	}
	found, _, there, err := problem.Last(ctx, s.options.Ring)
	if err != nil || !there || found.At.IsZero() {
		return err
	}
	reply.Failing = failingIn(&found, reply.Failing)
	return nil
}

// failingIn returns what a summary of problems has, with what only the last scan of all accounts
// knows. Scanned may be nil.
func failingIn(found *problem.Summary, scanned *accounts.Failing) *accounts.Failing {
	f := accounts.Failing{}
	if scanned != nil {
		f = *scanned
	}
	kinds := make(map[string]*accounts.FailingKind)
	of := func(kind string) *accounts.FailingKind {
		if kinds[kind] == nil {
			kinds[kind] = &accounts.FailingKind{Kind: kind}
		}
		return kinds[kind]
	}
	for _, k := range f.Kinds {
		if k.Behind > 0 {
			of(k.Kind).Behind = k.Behind
		}
	}
	f.At, f.Accounts, f.Newly, f.NeverSucceeded, f.LeftOut, f.Kinds = found.At, found.Failing, found.Newly, found.NeverSucceeded, found.LeftOut, []accounts.FailingKind{}
	for i := range found.Groups {
		if g := &found.Groups[i]; g.Failing > 0 {
			k := of(g.Kind)
			k.Accounts, k.Newly, k.NeverSucceeded = k.Accounts+g.Failing, k.Newly+g.Newly, k.NeverSucceeded+g.NeverSucceeded
		}
	}
	if found.Other.Failing > 0 { // the kinds of further groups are not told
		for _, k := range kinds {
			k.Accounts, k.Newly, k.NeverSucceeded = 0, 0, 0
		}
		maps.DeleteFunc(kinds, func(_ string, k *accounts.FailingKind) bool { return k.Behind == 0 })
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		f.Kinds = append(f.Kinds, *kinds[kind])
	}
	return &f
}
