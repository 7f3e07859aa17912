// Package budget simulates accounts that are checked by an adaptive cadence, with a budget of calls
// and without, beside the best and the plainest ways to spend as many calls. It runs the code of
// the service that decides, package cadence, and nothing else.
package budget

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

// The sorts of sources. All have rates spread log-uniformly from 1 to MostRate messages a day.
const (
	Poisson = "poisson" // messages at random
	Daily   = "daily"   // at random, with a rate that follows a sine of a day from 0 to twice the mean, each at its own hour
	Bursty  = "bursty"  // in bursts of 21 on average, two minutes apart within
	Mixed   = "mixed"   // a third of each
)

const (
	// MostRate is the highest rate, in messages a day.
	MostRate = 1000.0
	// Bounds is the cadence, whose bounds leave the rules room.
	Bounds = "adaptive 1s..24h"

	burstMean  = 20.0            // messages of a burst after its first
	burstPause = 2.0 / (24 * 60) // mean time between two messages of it, in days
	period     = 10 * time.Minute
)

// source is a simulated account that gets messages. Its times are in days.
type source struct {
	id     string
	sort   string
	rate   float64 // messages a day, on average
	seed   uint64
	random *rand.Rand
	phase  float64
	next   float64 // when its next message comes
	burst  int     // messages left of a burst
}

// sources returns n sources of a sort.
func sources(sort string, n int, seed uint64) []*source {
	all := make([]*source, n)
	for i := range all {
		of := sort
		if sort == Mixed {
			of = []string{Poisson, Daily, Bursty}[i%3]
		}
		all[i] = &source{id: fmt.Sprint(of, i), sort: of, seed: seed + uint64(i), rate: math.Pow(MostRate, (float64(i)+0.5)/float64(n))}
	}
	return all
}

// begin takes the source back to the beginning. Its messages are the same each time.
func (s *source) begin() {
	s.random = rand.New(rand.NewPCG(s.seed, 7))
	s.phase, s.next, s.burst = s.random.Float64(), 0, 0
	s.draw()
}

// rateAt returns the messages a day at a time.
func (s *source) rateAt(t float64) float64 {
	if s.sort != Daily {
		return s.rate
	}
	return s.rate * (1 + math.Sin(2*math.Pi*(t+s.phase)))
}

// draw finds the next message.
func (s *source) draw() {
	switch s.sort {
	case Daily: // thins out messages of the highest rate
		for {
			s.next += s.random.ExpFloat64() / (2 * s.rate)
			if s.random.Float64()*2*s.rate < s.rateAt(s.next) {
				return
			}
		}
	case Bursty:
		if s.burst > 0 {
			s.burst--
			s.next += s.random.ExpFloat64() * burstPause
			return
		}
		s.burst = int(s.random.ExpFloat64() * burstMean)
		s.next += s.random.ExpFloat64() * (burstMean + 0.5) / s.rate
	default:
		s.next += s.random.ExpFloat64() / s.rate
	}
}

// check returns the messages that came until t, and how long they waited in all.
func (s *source) check(t float64) (messages int, waited float64) {
	for s.next <= t {
		messages++
		waited += t - s.next
		s.draw()
	}
	return messages, waited
}

// Result is what a way to check did.
type Result struct {
	Calls int
	by    []found // by source
}

type found struct {
	rate     float64
	messages int
	waited   float64
}

func newResult(all []*source) *Result {
	r := &Result{by: make([]found, len(all))}
	for i, s := range all {
		s.begin()
		r.by[i].rate = s.rate
	}
	return r
}

// check checks a source, and returns how many messages it found.
func (r *Result) check(all []*source, i int, t float64) int {
	messages, waited := all[i].check(t)
	r.Calls++
	r.by[i].messages += messages
	r.by[i].waited += waited
	return messages
}

// Delay returns the mean time in seconds from a message to the check that found it.
func (r *Result) Delay() float64 { return r.DelayOf(0, 2*MostRate) }

// DelayOf is Delay of the sources with rates from one to another.
func (r *Result) DelayOf(from, to float64) float64 {
	messages, waited := 0, 0.0
	for _, f := range r.by {
		if f.rate >= from && f.rate < to {
			messages += f.messages
			waited += f.waited
		}
	}
	return 86400 * waited / float64(messages)
}

// at checks each source at the intervals that a function returns, in days.
func at(all []*source, days float64, every func(s *source, t float64) float64) *Result {
	r := newResult(all)
	for i, s := range all {
		for t := s.phase * every(s, 0); t < days; t += every(s, t) {
			r.check(all, i, t)
		}
	}
	return r
}

// adaptive checks the sources by their cadence. With a budget, in calls a day, a price is steered.
func adaptive(all []*source, days, budget float64) *Result {
	c, err := cadence.Parse(Bounds)
	if err != nil {
		panic(err) // it is a constant
	}
	r := newResult(all)
	start := time.UnixMilli(1_786_000_000_000)
	states, due := make([]cadence.State, len(all)), make([]time.Time, len(all))
	for i := range due {
		due[i] = start
	}
	policy := cadence.Policy{Budget: cadence.Budget{Learns: budget > 0}}
	chance := func() float64 { return 0.5 } // only failures have a chance
	for to := start.Add(period); to.Sub(start).Hours() <= 24*days; to = to.Add(period) {
		var spent cadence.Spent
		for i := range all {
			for due[i].Before(to) {
				n := r.check(all, i, due[i].Sub(start).Hours()/24)
				next := cadence.Decide(c, policy, all[i].id, states[i], cadence.Outcome{Found: n > 0, Messages: n}, due[i], chance)
				spent = spent.Plus(c.Spending(states[i], next.State))
				due[i], states[i] = next.Due, next.State
			}
		}
		policy.Budget.Price = cadence.Steer(policy.Budget.Price, spent, period, budget/86400)
	}
	return r
}

// Comparison is ways to spend about the same number of calls.
type Comparison struct {
	Sort    string
	Fixed   *Result // one interval for all
	Today   *Result // each account's own checks decide; nil: it would spend another number
	Learned *Result // with a budget
	Optimum *Result // intervals by the true mean rates: as 1 over the square root
	Moment  *Result // the same by the true rates of the moment, for sources that have such; otherwise nil
}

// Compare simulates n sources of a sort over days. The budget is a part of the calls that the
// accounts spend without one. All others spend as many as were spent of the budget.
func Compare(sort string, n int, days, part float64) Comparison {
	all := sources(sort, n, 1)
	c := Comparison{Sort: sort, Today: adaptive(all, days, 0)}
	c.Learned = adaptive(all, days, part*float64(c.Today.Calls)/days)
	if part != 1 {
		c.Today = nil
	}
	perDay := float64(c.Learned.Calls) / days
	c.Fixed = at(all, days, func(*source, float64) float64 { return float64(n) / perDay })
	roots, rootsNow := 0.0, 0.0
	for _, s := range all {
		roots += math.Sqrt(s.rate)
		const hours = 1000
		for h := range hours {
			rootsNow += math.Sqrt(s.rateAt(float64(h)/hours)) / hours
		}
	}
	c.Optimum = at(all, days, func(s *source, _ float64) float64 { return roots / perDay / math.Sqrt(s.rate) })
	if sort == Daily {
		c.Moment = at(all, days, func(s *source, t float64) float64 { return s.spread(t, perDay/rootsNow) })
	}
	return c
}

// spread returns the time until the next of the calls whose number a day is a factor times the
// square root of the rate of the moment.
func (s *source) spread(t, factor float64) float64 {
	const steps = 16
	step := 1 / (factor * math.Sqrt(s.rate)) / steps
	for at, calls := t, 0.0; ; at += step {
		more := step * factor * math.Sqrt(s.rateAt(at+step/2))
		if calls += more; calls >= 1 {
			return at + step*(1-(calls-1)/more) - t
		}
	}
}
