package budget

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

// source is a simulated account at a third party that gets messages.
type source struct {
	id     string
	sort   string
	rate   float64 // messages a day, on average
	seed   uint64
	random *rand.Rand
	phase  float64
	next   float64 // the time of its next message, in days
	burst  int     // messages left of a burst
}

const (
	sortPoisson = "poisson"
	sortDaily   = "daily"
	sortBursty  = "bursty"

	burstMean  = 20.0            // messages of a burst
	burstPause = 2.0 / (24 * 60) // mean time between two messages of it, in days
)

// newSources returns n sources of each sort, with rates spread log-uniformly from 1 to 1000 a day.
func newSources(n int, seed uint64) []*source {
	var all []*source
	for s, sort := range []string{sortPoisson, sortDaily, sortBursty} {
		for i := range n {
			all = append(all, &source{id: fmt.Sprintf("%s-%d", sort, i), sort: sort, seed: seed + uint64(s*n+i), rate: math.Pow(1000, (float64(i)+0.5)/float64(n))})
		}
	}
	return all
}

// begin takes the source back to the beginning, with the same messages.
func (s *source) begin() {
	s.random = rand.New(rand.NewPCG(s.seed, 7))
	s.phase, s.next, s.burst = s.random.Float64(), 0, 0
	s.draw()
}

// now returns the messages a day at a time, of a source whose rate changes with the time of day.
func (s *source) now(t float64) float64 {
	if s.sort != sortDaily {
		return s.rate
	}
	return s.rate * (1 + math.Sin(2*math.Pi*(t+s.phase)))
}

// draw finds the next message.
func (s *source) draw() {
	switch s.sort {
	case sortPoisson:
		s.next += s.random.ExpFloat64() / s.rate
	case sortDaily:
		for {
			s.next += s.random.ExpFloat64() / (2 * s.rate)
			if s.random.Float64()*2*s.rate < s.now(s.next) {
				return
			}
		}
	case sortBursty:
		if s.burst > 0 {
			s.burst--
			s.next += s.random.ExpFloat64() * burstPause
			return
		}
		s.burst = int(s.random.ExpFloat64() * burstMean)
		s.next += s.random.ExpFloat64() * (burstMean + 0.5) / s.rate
	}
}

// check returns the messages that came until t, and how long they waited in all, in days.
func (s *source) check(t float64) (messages int, waited float64) {
	for s.next <= t {
		messages++
		waited += t - s.next
		s.draw()
	}
	return messages, waited
}

// run is what a way to check did.
type run struct {
	calls, messages int
	waited          float64            // days
	by              map[string]float64 // days waited, by sort
	got             map[string]int     // messages, by sort
}

func (r *run) add(sort string, messages int, waited float64) {
	r.calls++
	r.messages += messages
	r.waited += waited
	r.by[sort] += waited
	r.got[sort] += messages
}

func (r *run) delay() float64 { return 86400 * r.waited / float64(r.messages) }
func (r *run) delayOf(sort string) float64 {
	return 86400 * r.by[sort] / float64(r.got[sort])
}

func newRun() *run { return &run{by: map[string]float64{}, got: map[string]int{}} }

// simulateAt checks each source at times that it chooses.
func simulateAt(sources []*source, days float64, every func(s *source, t float64) float64) *run {
	r := newRun()
	for _, s := range sources {
		s.begin()
		for t := s.phase * every(s, 0); t < days; t += every(s, t) {
			n, waited := s.check(t)
			r.add(s.sort, n, waited)
		}
	}
	return r
}

var simStart = time.UnixMilli(1_786_000_000_000)

// simulateCadence checks the sources by their adaptive cadence. With a budget, in calls a second,
// a price is steered every period.
func simulateCadence(sources []*source, text string, days float64, budget float64, period time.Duration) (*run, float64) {
	c, err := cadence.Parse(text)
	if err != nil {
		panic(err)
	}
	r := newRun()
	states := make([]cadence.State, len(sources))
	due := make([]time.Time, len(sources))
	random := rand.New(rand.NewPCG(1, 2))
	for i, s := range sources {
		s.begin()
		due[i] = simStart
	}
	price := 0.0
	for from := simStart; from.Sub(simStart).Hours() < 24*days; from = from.Add(period) {
		var spent cadence.Spent
		policy := cadence.Policy{Budget: cadence.Budget{Learns: budget > 0, Price: price}}
		to := from.Add(period)
		for i, s := range sources {
			for due[i].Before(to) {
				t := float64(due[i].Sub(simStart)) / float64(24*time.Hour)
				n, waited := s.check(t)
				r.add(s.sort, n, waited)
				next := cadence.Decide(c, policy, s.id, states[i], cadence.Outcome{Found: n > 0, Messages: n}, due[i], random.Float64)
				spent = spent.Plus(c.Spending(states[i], next.State))
				due[i], states[i] = next.Due, next.State
			}
		}
		price = cadence.Steer(price, spent, period, budget)
	}
	return r, price
}
