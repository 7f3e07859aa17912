package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/simulate/replicas"
)

// sending runs a test of a world in which some sends are under way at any time.
func sending(t *testing.T, p plan, test func(s *simulation)) *summary {
	t.Helper()
	result := newSummary()
	p.accounts, p.held, p.monitors = 12, 0, 1
	replicas.Run(t, replicas.Options{Seed: p.seed, Shards: p.shards, Mutate: p.mutate}, func(w *replicas.World) {
		s := &simulation{plan: p, world: w, summary: result, random: rand.New(rand.NewPCG(p.seed, 1)), up: newUpstream(p.seed)}
		defer s.end()
		if !s.begin() {
			return
		}
		s.up.set(func() { s.up.slow = 60 })
		ctx, stop := context.WithCancel(context.Background())
		var calling sync.WaitGroup
		calling.Go(func() { s.caller.run(ctx, 500*time.Millisecond) })
		time.Sleep(30 * time.Second)
		test(s)
		stop()
		calling.Wait()
		s.up.set(func() { s.up.slow = 1 })
		s.fleet.heal()
		rest := longTimeout + 2*sweep + takeover + 10*time.Minute
		if s.sound() {
			time.Sleep(rest)
			s.judge()
			return
		}
		s.fleet.stop()
		s.fleet = nil
		time.Sleep(rest) // calls of processes that were killed end
	})
	return result
}

// inTurmoil kills replicas, lets only the heartbeats of others through, and loses replies.
func inTurmoil(s *simulation) {
	for n := range 4 {
		if !s.sound() {
			return
		}
		p := s.fleet.anyReplica()
		if n%2 == 0 {
			p.Kill()
		} else {
			p.KillAt(1+n, true)
		}
		time.Sleep(takeover)
		s.fleet.replace()
	}
	for range 2 {
		if !s.sound() {
			return
		}
		p := s.fleet.anyReplica()
		p.Set(stuck())
		time.Sleep(attemptLasts + sweep)
		p.Set(s.fleet.usual())
		for _, p := range s.fleet.replicas {
			p.Set(replicas.Conditions{ReplyLost: 0.2, Latency: 20 * time.Millisecond})
		}
		time.Sleep(30 * time.Second)
		s.fleet.heal()
	}
	s.oracle.glance()
}

// Replicas die, lose replies and reach Redis only by their heartbeats while sends are under way.
// None arrives twice, and each of which nobody knows whether it arrived is unknown.
func TestSendsOutlastFaults(t *testing.T) {
	t.Parallel()
	sum := sending(t, small(1), inTurmoil)
	sum.expectNone(t)
	t.Logf("%+v", sum.sends)
	if sum.sends.arrived < 100 || sum.sends.doubts+sum.sends.resolved == 0 {
		t.Errorf("nothing happened: %+v", sum.sends)
	}
}
