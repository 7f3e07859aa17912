package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/simulate/replicas"
)

// holding runs a test of a world in which the calls of all accounts are held, for longer than a
// check may usually take.
func holding(t *testing.T, p plan, test func(s *simulation)) *summary {
	t.Helper()
	result := newSummary()
	p.accounts, p.held, p.monitors = 6, 1, 1
	replicas.Run(t, replicas.Options{Seed: p.seed, Shards: p.shards, Mutate: p.mutate}, func(w *replicas.World) {
		s := &simulation{plan: p, world: w, summary: result, random: rand.New(rand.NewPCG(p.seed, 1)), up: newUpstream(p.seed)}
		defer s.end()
		if s.begin() {
			time.Sleep(30 * time.Second)
			test(s)
		}
	})
	return result
}

// inPeace lets calls be held for a while in which nothing goes wrong: no claim becomes stale, and
// no account has two calls.
func inPeace(s *simulation) {
	s.setQuiet(time.Now())
	for range 3 {
		time.Sleep(5 * time.Minute)
		s.judge()
		s.noneStruck()
	}
	s.setQuiet(time.Time{})
}

// noneStruck checks that no account was taken from its holder.
func (s *simulation) noneStruck() {
	c, err := s.world.Census()
	if err != nil {
		s.violated("census: %v", err)
		return
	}
	for _, a := range c.Accounts {
		if a.Strikes != "" {
			s.violated("I2: %q was taken %s times from a replica that held it", a.ID, a.Strikes)
		}
	}
}

// allHeld checks that each account has a call under way.
func (s *simulation) allHeld(after string) {
	for _, id := range s.reg.ids {
		if s.up.calls(id) == 0 {
			s.violated("I2: %q has no call, %s", id, after)
		}
	}
	s.oracle.glance()
}

// Calls are held for longer than a check may usually take. Then replicas stop, die at each step,
// stand still, and lose replies, Redis is away, and its clock is wrong. Each message is in the stream once, and other
// replicas go on with the calls, even if several die during one hold: accounts whose calls were held
// meanwhile are not suspected of that.
func TestHeldCallsOutlastFaults(t *testing.T) {
	t.Parallel()
	sum := holding(t, small(1), func(s *simulation) {
		inPeace(s)
		for i := range s.fleet.replicas {
			s.fleet.roll(i)
			time.Sleep(2 * time.Second)
			s.allHeld("and a replica stopped two seconds ago")
		}
		for _, away := range []time.Duration{30 * time.Second, holdOf + time.Minute} {
			s.world.Restart(away)
			time.Sleep(takeover + 5*time.Second)
			s.allHeld(fmt.Sprintf("and Redis is back after %v", away))
		}
		s.aDayAhead()
		time.Sleep(5 * holdOf)
		s.rightClock()
		time.Sleep(rightAgain + holdOf) // each call has ended since
		s.allHeld("and Redis' clock went a day ahead and back")
		for n := range 5 {
			for _, after := range []bool{false, true} {
				p := s.fleet.replicas[n%len(s.fleet.replicas)]
				p.KillAt(1+n, after)
				for !p.Dead() {
					time.Sleep(100 * time.Millisecond)
				}
				s.fleet.replace()
				time.Sleep(takeover + time.Second)
				s.allHeld(fmt.Sprintf("and a replica died at command %d", 1+n))
			}
		}
		p := s.fleet.replicas[0] // others hold its accounts soon, and it does not know that
		p.Pause()
		time.Sleep(longTimeout + time.Minute)
		p.Heal()
		for _, p := range s.fleet.replicas {
			p.Set(replicas.Conditions{ReplyLost: 0.3})
		}
		time.Sleep(4 * holdOf)
		s.fleet.heal()
		time.Sleep(longTimeout + sweep + takeover) // what a lost reply has left is found by then
		s.allHeld("and all is well")
		s.judge()
	})
	sum.expectNone(t)
	if sum.messages < 100 || sum.judgements < 4 {
		t.Errorf("%d messages, %d judgements", sum.messages, sum.judgements)
	}
}
