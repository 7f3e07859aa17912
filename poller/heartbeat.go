package poller

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

func (p *Pool) beatOn(ctx context.Context) {
	for sleep(ctx, p.config.Heartbeat) {
		_ = p.beat(ctx) // it counts and logs its error; the next beat may succeed
		p.flights.maintained.read(ctx)
	}
}

// tellHeld calls Options.Holding with the number of held checks, until ctx is done.
func (p *Pool) tellHeld(ctx context.Context) {
	for p.holding != nil && sleep(ctx, holdingEvery) {
		p.holding(p.flights.held.running.count())
	}
}

// beat sends a heartbeat with the replica's report.
func (p *Pool) beat(ctx context.Context) error {
	report := p.tally.report(time.Now())
	report.Host, report.Concurrency, report.InFlight = p.config.Host, p.config.Concurrency, p.flights.count()
	report.Held, report.HeldChecks = p.flights.held.running.count(), p.config.HeldChecks
	report.Version, report.Layout, report.Kinds = p.config.Version, p.ring.Layout(), p.peers.kinds
	report.Outage, report.MemoryShort = len(p.flights.outages.suspected()) > 0, p.room.anyFull.Load()
	report.Denials, report.Warnings = p.limiter.recent.report(time.Now()), p.flights.warned.report(time.Now())
	if p.pricing.set.Load() {
		report.Spent = p.tally.spending()
	}
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, max(p.config.Heartbeat, time.Second))
	defer cancel()
	p.metrics.running.Set(float64(report.InFlight))
	p.metrics.hanging.Set(float64(p.flights.abandoned.Load()))
	p.noteOutage()
	alive, err := p.ring.Heartbeat(ctx, p.config.Replica, text, peerWindow*p.config.Heartbeat)
	if err != nil {
		p.metrics.heartbeats.WithLabelValues("failed").Inc()
		if !errors.Is(err, context.Canceled) {
			p.log.Debug("heartbeat failed", "error", err)
		}
		return err
	}
	p.metrics.heartbeats.WithLabelValues("ok").Inc()
	sharing, gone, err := p.peers.among(ctx, alive)
	if err != nil {
		p.log.Debug("could not learn which kinds the other replicas check", "error", err)
	}
	now := time.Now()
	p.divide(sharing, now)
	if gone {
		p.timetable.bringAll(now)
	}
	return nil
}

// divide divides the shards among the replicas that share them.
func (r *replica) divide(sharing []string, now time.Time) {
	r.timetable.divide(r.config.Replica, sharing, now)
	r.sendTimes.divide(r.config.Replica, sharing, never)
	r.meter.share(r.timetable.part())
}

// noteOutage logs when our own network, or that behind a way out, begins to seem down, and when all are
// back.
func (p *Pool) noteOutage() {
	ways := p.flights.outages.suspected()
	down := len(ways) > 0
	if down == p.outageTold.Swap(down) {
		return
	}
	if down {
		p.metrics.outage.Set(1)
		text := "many hosts are out of reach: our own network seems to be down; failures do not count against accounts"
		if ways[0] != "" {
			text = "many hosts are out of reach by a way out: the network behind it seems to be down; failures do not count against its accounts"
		}
		p.log.Error(text, "ways", strings.Join(ways, ","))
		return
	}
	p.metrics.outage.Set(0)
	p.log.Info("hosts can be reached again")
}

// tellStopping tells the other replicas that this one claims no more.
func (p *Pool) tellStopping(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.config.Heartbeat)
	defer cancel()
	if err := p.ring.Depart(ctx, p.config.Replica); err != nil {
		p.log.Debug("could not tell the other replicas of the shutdown; they will notice", "error", err)
	}
}

func (p *Pool) retire(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.config.Heartbeat)
	defer cancel()
	if err := p.ring.Retire(ctx, p.config.Replica); err != nil {
		p.log.Warn("could not sign off; the monitors will notice", "error", err)
	}
}
