package main

import (
	"context"
	"fmt"
)

const (
	inFlight     = 10_000
	fewInFlight  = 100
	smallRing    = 10_000
	tightCadence = "every 0s"
	idleCadence  = "every 1h"
)

// manyQueues is how many queues asynq and rmq are tried with, besides one.
const manyQueues = 8

// asynqCandidates are what is tried for asynq, with each number of queues and of tasks
// in flight.
func asynqCandidates(quick bool) []settings {
	if quick {
		return []settings{{Servers: 1, Concurrency: 64}, {Servers: 4, Concurrency: 64, Pool: 64}}
	}
	var all []settings
	for _, servers := range []int{1, 4, 8} {
		for _, concurrency := range []int{16, 64, 256} {
			for _, pool := range []int{0, 64} {
				all = append(all, settings{Servers: servers, Concurrency: concurrency, Pool: pool})
			}
		}
	}
	return all
}

// rmqCandidates are what is tried for rmq, in the same way.
func rmqCandidates(quick bool) []settings {
	if quick {
		return []settings{{Servers: 4, Concurrency: 16, Pool: 100}, {Servers: 4, Concurrency: 16, Pool: 1000}}
	}
	var all []settings
	for _, servers := range []int{1, 4, 16} {
		for _, concurrency := range []int{4, 16} {
			for _, pool := range []int{30, 100, 1000} {
				all = append(all, settings{Servers: servers, Concurrency: concurrency, Pool: pool})
			}
		}
	}
	return all
}

// pollerCandidates are what is tried for one poller; 256 is the service's default.
func pollerCandidates(quick bool) []settings {
	if quick {
		return []settings{{Servers: 1, Concurrency: 256, Warm: true}, {Servers: 1, Concurrency: 8192, Warm: true}}
	}
	var all []settings
	for _, concurrency := range []int{256, 1024, 4096, 16384} {
		all = append(all, settings{Servers: 1, Concurrency: concurrency, Warm: true})
	}
	return all
}

// measureCycles measures cycles of the ring, of a whole poller and of the peers in turns,
// all on one Redis.
func measureCycles(ctx context.Context, b *bench) error {
	specs := map[string]spec{
		"ring":   {Kind: "ring", Namespace: "ring", Accounts: b.count},
		"large":  {Kind: "ring", Namespace: "large", Accounts: b.large},
		"small":  {Kind: "ring", Namespace: "small", Accounts: smallRing},
		"poller": {Kind: "poller", Namespace: "poller", Accounts: b.count, Cadence: tightCadence},
		"asynq":  {Kind: "asynq", Accounts: b.count},
		"asynqs": {Kind: "asynq", Accounts: b.count, Queues: manyQueues},
		"rmq":    {Kind: "rmq", Accounts: b.count},
		"rmqs":   {Kind: "rmq", Accounts: b.count, Queues: manyQueues},
	}
	children := make(map[string]*child)
	for name, s := range specs {
		s.Redis = b.redis.URL()
		c, err := launch(ctx, s, b.redis)
		if err != nil {
			return err
		}
		defer c.close()
		children[name] = c
	}
	asynqTried, err := b.grid("asynq", asynqCandidates(b.quick), children["asynq"], children["asynqs"])
	if err != nil {
		return err
	}
	asynqLoaded, err := b.grid("asynq_10000_in_flight", loaded(asynqCandidates(b.quick)), children["asynq"], children["asynqs"])
	if err != nil {
		return err
	}
	rmqTried, err := b.grid("rmq", rmqCandidates(b.quick), children["rmq"], children["rmqs"])
	if err != nil {
		return err
	}
	rmqLoaded, err := b.grid("rmq_10000_in_flight", loaded(rmqCandidates(b.quick)), children["rmq"], children["rmqs"])
	if err != nil {
		return err
	}
	pollerTried, err := b.grid("poller", pollerCandidates(b.quick), children["poller"])
	if err != nil {
		return err
	}
	modest := settings{Servers: 1, Concurrency: 256, Warm: true}
	var (
		ring      = &stage{name: "ring_10000_in_flight", child: children["ring"], settings: settings{InFlight: inFlight}}
		few       = &stage{name: "ring_100_in_flight", child: children["ring"], settings: settings{InFlight: fewInFlight}}
		large     = &stage{name: fmt.Sprintf("ring_%d_accounts", b.large), child: children["large"]}
		small     = &stage{name: fmt.Sprintf("ring_%d_accounts", smallRing), child: children["small"]}
		poller    = best("poller", pollerTried, 1)
		byDefault = &stage{name: "poller_default_settings", child: children["poller"], settings: modest}
		asynq     = best("asynq", asynqTried, 0)
		asynqOne  = best("asynq_one_server", asynqTried, 1)
		asynqMany = best("asynq_10000_in_flight", asynqLoaded, 0)
		rmq       = best("rmq", rmqTried, 0)
		rmqMany   = best("rmq_10000_in_flight", rmqLoaded, 0)
	)
	if err := b.inTurns(ring, asynqMany, rmqMany, poller, asynqOne, asynq, rmq, few, large, small, byDefault); err != nil {
		return err
	}
	r := b.results
	r.target("ring_vs_asynq", ratio(ring.rates(), asynqMany.rates()), "at least", 12, "×, both with 10,000 in flight")
	r.figure("ring_vs_asynq_at_its_best", ratio(ring.rates(), asynq.rates()), "×, asynq with few in flight and as many servers as are best for it")
	r.figure("ring_vs_asynq_per_redis_cpu", ratio(asynq.cpus(), ring.cpus()), "×, asynq likewise")
	r.target("poller_vs_asynq", ratio(poller.rates(), asynqOne.rates()), "at least", 6, "×, one poller and one asynq server")
	r.figure("poller_vs_asynq_at_its_best", ratio(poller.rates(), asynq.rates()), "×, one poller and as many asynq servers as are best for it")
	r.figure("poller_default_settings_vs_asynq", ratio(byDefault.rates(), asynqOne.rates()), "×, one poller at default settings and one asynq server")
	r.figure("ring_vs_rmq", ratio(ring.rates(), rmqMany.rates()), "×, both with 10,000 in flight")
	r.figure("ring_vs_rmq_at_its_best", ratio(ring.rates(), rmq.rates()), "×, rmq with few in flight")
	r.figure("poller_vs_rmq_at_its_best", ratio(poller.rates(), rmq.rates()), "×")
	r.target("in_flight_10000_vs_100", ratio(ring.rates(), few.rates()), "at least", 0.7, "×")
	r.target("accounts_1m_vs_10k", ratio(large.rates(), small.rates()), "at least", 0.8, fmt.Sprintf("× (%d against %d accounts)", b.large, smallRing))
	return nil
}

// loaded returns the same settings with many in flight.
func loaded(candidates []settings) []settings {
	for i := range candidates {
		candidates[i].InFlight = inFlight
	}
	return candidates
}
