package api

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/concern"
)

type statsReply struct {
	Body Stats
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

func (s *Server) getStats(ctx context.Context, _ *struct{}) (*statsReply, error) {
	stats, err := s.stats(ctx)
	if err != nil {
		return nil, s.errorReply(ctx, "get stats", err)
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
	for i, r := range stats.Replicas {
		r.Report.Totals = nil // only sums over time use them
		reply.Replicas[i] = Replica{
			Name: r.Name, LastHeartbeat: inUTC(r.Beat.Truncate(time.Millisecond)),
			Alive: stats.Now.Sub(r.Beat) < s.options.DeadAfter, Report: r.Report,
		}
	}
	alive := func(p *accounts.Process) bool { return stats.Now.Sub(p.Beat) < s.options.DeadAfter }
	accounts.Compare(stats.Processes, alive)
	for i := range stats.Processes {
		p := &stats.Processes[i]
		reply.Processes[i] = Process{
			Name: p.Name, Roles: p.Roles, Version: p.Report.Version, Host: p.Report.Host, Since: inUTC(p.Report.Since),
			LastHeartbeat: inUTC(p.Beat.Truncate(time.Millisecond)), Alive: alive(p), Differs: p.Differs,
		}
	}
	return &statsReply{reply}, nil
}
