package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/testing/simulate/replicas"
)

// fault is a kind of fault. Inject injects it somewhere and returns how long it lasts.
// End ends it; nil: it ends by itself or when everything heals.
type fault struct {
	name   string
	weight int
	inject func(s *simulation) (end func(), lasts time.Duration)
}

// faults are all kinds, by their names.
func faults() []fault {
	on := func(change func(p *replicas.Process, r *rand.Rand), least, most time.Duration) func(*simulation) (func(), time.Duration) {
		return func(s *simulation) (func(), time.Duration) {
			p := s.fleet.any()
			change(p, s.random)
			s.world.Journal.Write("… of %s", p.Name())
			return func() { p.Heal(); p.Set(s.fleet.usual()) }, between(s.random, least, most)
		}
	}
	conditions := func(c replicas.Conditions) func(*simulation) (func(), time.Duration) {
		return on(func(p *replicas.Process, _ *rand.Rand) { p.Set(c) }, 10*time.Second, 5*time.Minute)
	}
	onServer := func(change, end func(s *simulation), least, most time.Duration) func(*simulation) (func(), time.Duration) {
		return func(s *simulation) (func(), time.Duration) {
			change(s)
			return func() { end(s) }, between(s.random, least, most)
		}
	}
	return []fault{
		{"kill before a command", 3, func(s *simulation) (func(), time.Duration) { return s.kill(false) }},
		{"kill after a command", 3, func(s *simulation) (func(), time.Duration) { return s.kill(true) }},
		{"pause beyond dead-after", 2, on(func(p *replicas.Process, _ *rand.Rand) { p.Pause() }, 11*time.Second, time.Minute)},
		{"pause beyond the long timeout", 2, on(func(p *replicas.Process, _ *rand.Rand) { p.Pause() }, 5*time.Minute, 8*time.Minute)},
		{"link cut", 2, on(func(p *replicas.Process, _ *rand.Rand) { p.Cut() }, time.Second, 7*time.Minute)},
		{"link hangs", 2, on(func(p *replicas.Process, _ *rand.Rand) { p.Hang() }, time.Second, 7*time.Minute)},
		{"stuck: only heartbeats pass", 2, on(func(p *replicas.Process, _ *rand.Rand) {
			p.Set(stuck())
		}, time.Minute, 7*time.Minute)},
		{"connections cut", 2, conditions(replicas.Conditions{NotDone: 0.2, Latency: 20 * time.Millisecond})},
		{"replies lost", 3, conditions(replicas.Conditions{ReplyLost: 0.2, Latency: 20 * time.Millisecond})},
		{"commands done late", 2, conditions(replicas.Conditions{Late: 0.1, LateBy: 6 * time.Minute, Latency: 20 * time.Millisecond})},
		{"slow link", 1, conditions(replicas.Conditions{Latency: 3 * time.Second})},
		{"registrar's link", 2, func(s *simulation) (func(), time.Duration) {
			s.clerk.Set(replicas.Conditions{NotDone: 0.1, ReplyLost: 0.3, Latency: 20 * time.Millisecond})
			return func() { s.clerk.Set(s.fleet.usual()) }, between(s.random, time.Minute, 10*time.Minute)
		}},
		{"server restarts", 2, func(s *simulation) (func(), time.Duration) {
			s.world.Restart(between(s.random, 0, time.Minute))
			return nil, 0
		}},
		{"server loading", 1, onServer(func(s *simulation) { s.world.Refuse("LOADING Redis is loading the dataset in memory") },
			func(s *simulation) { s.world.Refuse("") }, time.Second, 2*time.Minute)},
		{"server refuses writes", 1, onServer(func(s *simulation) { s.world.Refuse("MISCONF Redis is configured to save RDB snapshots") },
			func(s *simulation) { s.world.Refuse("") }, time.Second, 2*time.Minute)},
		{"scripts forgotten", 1, func(s *simulation) (func(), time.Duration) { s.world.Forget(); return nil, 0 }},
		{"clock jumps ahead", 1, func(s *simulation) (func(), time.Duration) {
			s.jump(between(s.random, time.Second, 20*time.Minute))
			return nil, 0
		}},
		{"clock goes back", 1, func(s *simulation) (func(), time.Duration) {
			by := between(s.random, time.Second, 8*time.Minute)
			s.jump(-by)
			s.owed(by)
			return nil, 0
		}},
		{"checkers misbehave", 3, onServer(func(s *simulation) { s.up.set(func() { s.up.rough = true }) },
			func(s *simulation) { s.up.set(func() { s.up.rough = false }) }, time.Minute, 10*time.Minute)},
		{"upstreams slow", 1, onServer(func(s *simulation) { s.up.set(func() { s.up.slow = 60 }) },
			func(s *simulation) { s.up.set(func() { s.up.slow = 1 }) }, time.Minute, 5*time.Minute)},
		{"own network down", 1, onServer(func(s *simulation) { s.up.set(func() { s.up.network = true }) },
			func(s *simulation) { s.up.set(func() { s.up.network = false }) }, time.Minute, 5*time.Minute)},
		{"a host down", 2, func(s *simulation) (func(), time.Duration) {
			host := fmt.Sprintf("host%d", s.random.IntN(hosts))
			s.up.set(func() { s.up.down = host })
			return func() { s.up.set(func() { s.up.down = "" }) }, between(s.random, time.Second, 10*time.Minute)
		}},
		{"replica replaced", 2, func(s *simulation) (func(), time.Duration) {
			if i := s.random.IntN(len(s.fleet.replicas)); !s.fleet.replicas[i].Dead() {
				p := s.fleet.replicas[i]
				p.Heal()
				p.Set(s.fleet.usual())
				s.fleet.roll(i)
			}
			return nil, 0
		}},
	}
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

// kill kills some process soon, at a command. The process is replaced after a while.
func (s *simulation) kill(after bool) (func(), time.Duration) {
	p := s.fleet.any()
	p.KillAt(1+s.random.IntN(8), after)
	s.world.Journal.Write("… of %s", p.Name())
	return s.fleet.replace, between(s.random, 30*time.Second, 3*time.Minute)
}

// owed notes how far Redis' clock went back: accounts that are due by it are due that
// much later.
func (s *simulation) owed(by time.Duration) {
	if until := time.Now().Add(by); until.After(s.debt) {
		s.debt = until
	} else {
		s.debt = s.debt.Add(by)
	}
}

// rage injects faults for a while, from time to time, several at once.
func (s *simulation) rage(lasts time.Duration) {
	all, sum := faults(), 0
	if s.clock {
		all = append(all, clockFault())
	}
	for _, f := range all {
		sum += f.weight
	}
	type ending struct {
		name string
		at   time.Time
		end  func()
	}
	var endings []ending
	over := time.Now().Add(lasts)
	next, look := time.Now(), time.Now()
	for now := time.Now(); now.Before(over) && s.sound(); now = time.Now() {
		kept := endings[:0]
		for _, e := range endings {
			if now.Before(e.at) {
				kept = append(kept, e)
				continue
			}
			s.world.Journal.Write("FAULT ends: %s", e.name)
			e.end()
		}
		endings = kept
		if !now.Before(next) {
			p := s.random.IntN(sum)
			for _, f := range all {
				if p -= f.weight; p >= 0 {
					continue
				}
				s.world.Journal.Write("FAULT: %s", f.name)
				s.summary.faults[f.name]++
				if end, lasts := f.inject(s); end != nil {
					endings = append(endings, ending{f.name, time.Now().Add(lasts), end})
				}
				break
			}
			next = time.Now().Add(time.Duration(s.random.ExpFloat64() * float64(time.Minute)))
		}
		if !now.Before(look) {
			s.oracle.glance()
			look = now.Add(time.Minute)
		}
		time.Sleep(time.Second)
	}
	s.world.Journal.Write("all heals")
	s.rightClock()
	s.world.Refuse("")
	s.up.set(func() { s.up.rough, s.up.network, s.up.slow = false, false, 1 })
	s.clerk.Heal()
	s.clerk.Set(s.fleet.usual())
	s.fleet.heal()
}
