package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/simulate/replicas"
)

// plan is one simulation.
type plan struct {
	seed     uint64
	hours    float64 // of fake time
	replicas int
	monitors int
	shards   int
	accounts int
	held     int                               // of so many accounts one has its calls held; 0: none has
	places   int                               // for checks, in each replica; 0: the default
	clock    bool                              // Redis' clock goes a day ahead and back
	mutate   func(text string) (string, error) // breaks a script on purpose; nil: no script
}

func (p plan) with(seed uint64) plan {
	p.seed = seed
	return p
}

const (
	longTimeout = 5 * time.Minute  // the default
	sweep       = 5 * time.Second  // the default
	takeover    = 20 * time.Second // I2, for a dead replica
	calm        = 6 * time.Minute  // longer than the longest interval
)

// simulation is a world with a plan for it.
type simulation struct {
	plan
	world  *replicas.World
	random *rand.Rand
	up     *upstream
	clerk  *replicas.Link
	reg    *registrar
	caller *caller
	fleet  *fleet
	oracle *oracle
	wrong  bool      // Redis' clock is a day ahead
	debt   time.Time // until when a clock that went back delays accounts

	mu      sync.Mutex // guards what goroutines of the world change
	summary *summary
	quiet   time.Time // since when no fault can have an effect; zero: one may
}

// simulate runs a plan until it ends or something is wrong. The caller judges what is
// wrong.
func simulate(t *testing.T, p plan, progress func(hours float64)) *summary {
	t.Helper()
	result := newSummary()
	replicas.Run(t, replicas.Options{Seed: p.seed, Shards: p.shards, Mutate: p.mutate}, func(w *replicas.World) {
		s := &simulation{plan: p, world: w, summary: result, random: rand.New(rand.NewPCG(p.seed, 1)), up: newUpstream(p.seed)}
		if s.begin() {
			s.run(progress)
		}
		s.end()
	})
	result.seeds++
	return result
}

func (s *simulation) begin() bool {
	w := s.world
	w.Journal.Watch(func(line string) {
		if strings.Contains(line, "conservation law does not hold") {
			s.violated("audit: %s", line)
		}
	})
	s.up.overlap = func(account string, since time.Time) {
		s.mu.Lock()
		quiet := s.quiet
		s.mu.Unlock()
		if !quiet.IsZero() && since.After(quiet) && !s.reg.touchedSince(account, since.Add(-time.Minute)) {
			s.violated("two checks of %q at once, and nothing is wrong; the first began at %v", account, since.UTC())
		}
	}
	s.up.sends.violated, s.up.sends.now = s.violated, w.Now
	s.up.sends.look = func(id string) (circulate.Send, error) { return w.Ring().Sends().Look(context.Background(), id) }
	s.clerk = w.NewLink("registrar")
	reg, err := newRegistrar(w, s.clerk, s.up, s.plan, s.violated)
	if err != nil {
		w.Error(err)
		return false
	}
	s.reg = reg
	if s.caller, err = newCaller(w, s.clerk, s.up, reg.ids, s.seed); err != nil {
		w.Error(err)
		return false
	}
	s.oracle = newOracle(w, s.up, reg, s.violated)
	s.fleet = newFleet(w, s.up, s.random, s.plan)
	reg.all()
	return true
}

// violated notes that something is wrong. Only the first few are printed.
func (s *simulation) violated(format string, args ...any) {
	text := fmt.Sprintf("%s %s", time.Now().UTC().Format("01-02 15:04:05.000"), fmt.Sprintf(format, args...))
	s.world.Journal.Write("VIOLATION: %s", text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.summary.violations) < 10 {
		s.summary.violations = append(s.summary.violations, text)
	}
	if len(s.summary.violations) == 1 {
		s.summary.journal = s.world.Journal.String()
	}
}

// sound reports whether nothing was found to be wrong.
func (s *simulation) sound() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.summary.violations) == 0
}

// run goes through the cycles. Each has a registrar and a caller at work under faults, rest,
// judgement, and one single fault whose recovery is timed.
func (s *simulation) run(progress func(hours float64)) {
	began := time.Now()
	for cycle := 0; ; cycle++ {
		ctx, cancel := context.WithCancel(context.Background())
		var working sync.WaitGroup
		working.Go(func() { s.reg.run(ctx, 10*time.Second) })
		working.Go(func() { s.caller.run(ctx, 8*time.Second) })
		s.rage(between(s.random, 5*time.Minute, 30*time.Minute))
		if s.sound() {
			s.rest()
		}
		cancel()
		working.Wait()
		if s.sound() {
			s.drill()
		}
		hours := time.Since(began).Hours()
		progress(hours)
		if !s.sound() || hours >= s.hours {
			s.summary.hours = hours
			return
		}
	}
}

// rest waits until the effects of the faults must have been repaired.
func (s *simulation) rest() {
	time.Sleep(longTimeout + 2*sweep + takeover)
	if wait := time.Until(s.debt); wait > 0 {
		time.Sleep(wait)
	}
	// Hanging checks, and commands that are done late, may take as long again.
	time.Sleep(10 * time.Minute)
	s.setQuiet(time.Now())
}

func (s *simulation) setQuiet(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = since
}

// drill judges the world at rest, injects one single fault, measures how long it takes
// until its accounts can be claimed again, and judges once more.
func (s *simulation) drill() {
	time.Sleep(calm)
	s.judge()
	s.setQuiet(time.Time{})
	switch s.random.IntN(3) {
	case 0:
		s.drillDead()
	case 1:
		s.drillStuck()
	default:
		s.drillStop()
	}
	s.fleet.heal()
	time.Sleep(calm)
	s.judge()
	if s.clock && s.sound() {
		s.drillClock()
	}
}

func (s *simulation) judge() {
	s.summary.judgements++
	s.oracle.judge()
}

// drillDead kills a replica that holds accounts, and expects that it soon holds none.
func (s *simulation) drillDead() {
	p := s.holder()
	s.world.Journal.Write("DRILL: %s is killed", p.Name())
	p.Kill()
	s.summary.drilled("a replica is killed", 1, s.untilFree(p, takeover))
}

// drillStuck lets only the heartbeats through of a replica that holds accounts.
func (s *simulation) drillStuck() {
	p := s.holder()
	s.world.Journal.Write("DRILL: %s is stuck", p.Name())
	p.Set(stuck())
	s.summary.drilled("a replica is stuck", 1, s.untilFree(p, longTimeout+sweep))
}

// stuck lets only heartbeats through.
func stuck() replicas.Conditions {
	return replicas.Conditions{NotDone: 1, Spares: func(key string) bool { return strings.Contains(key, "replicas") }}
}

// holder waits for a replica to hold accounts. It makes checks slow.
func (s *simulation) holder() *replicas.Process {
	s.up.set(func() { s.up.slow = 30 })
	defer s.up.set(func() { s.up.slow = 1 })
	for range 3000 {
		p := s.fleet.anyReplica()
		c, err := s.world.Census()
		if err == nil && c.ClaimsOf(p.Replica) > 0 {
			return p
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.world.Journal.Write("nobody holds anything: everything may be paused")
	return s.fleet.anyReplica()
}

// drillStop replaces a replica properly: it must leave nothing behind.
func (s *simulation) drillStop() {
	i := s.random.IntN(len(s.fleet.replicas))
	s.world.Journal.Write("DRILL: %s is replaced", s.fleet.replicas[i].Name())
	p := s.fleet.roll(i)
	s.summary.drilled("a replica is replaced", 1, s.untilFree(p, 0))
}

// untilFree waits until a replica holds nothing any more, and returns how long that took.
// The steps of the sweep itself have one second.
func (s *simulation) untilFree(p *replicas.Process, most time.Duration) time.Duration {
	began := time.Now()
	for {
		c, err := s.world.Census()
		if err != nil {
			s.violated("census: %v", err)
			return 0
		}
		took := time.Since(began)
		n := c.ClaimsOf(p.Replica)
		if n == 0 {
			return took
		}
		if took > most+time.Second {
			s.violated("I2: %s holds %d accounts after %v", p.Replica, n, took)
			return took
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// end stops everything and adds up the results.
func (s *simulation) end() {
	if s.fleet != nil {
		s.fleet.stop()
	}
	sum := s.summary
	sum.checks, sum.overlaps = s.up.counts.checks, s.up.counts.overlaps
	sum.sends = s.up.sends.counts
	if s.oracle != nil {
		sum.messages = s.oracle.messages
		sum.operations = [3]int{s.reg.counts.ok, s.reg.counts.refused, s.reg.counts.unknown}
	}
	sum.exchanges = s.world.Counts()
}
