package main

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/testing/census"
)

const (
	day = 24 * time.Hour
	// rightAgain is the time within which all accounts are on their cadence again after
	// Redis' clock went back.
	rightAgain = time.Minute
	// counted is how long checks are counted, at least two of each cadence.
	counted = 10 * time.Minute
)

// clockFault is a clock that goes a day ahead, and back again after a while.
func clockFault() fault {
	return fault{"clock a day ahead and back", 1, func(s *simulation) (func(), time.Duration) {
		if s.wrong || !s.world.Serves() {
			return nil, 0
		}
		s.aDayAhead()
		return s.rightClock, between(s.random, 10*time.Second, 5*time.Minute)
	}}
}

// aDayAhead sets Redis' clock. What is in the streams is old enough to be trimmed by it, and is
// kept; see oracle.keeps.
func (s *simulation) aDayAhead() {
	s.wrong = true
	s.oracle.read()
	s.jump(day)
}

// rightClock sets Redis' clock back, if it is a day ahead.
func (s *simulation) rightClock() {
	if s.wrong {
		s.wrong = false
		s.jump(-day)
	}
}

// drillClock sets Redis' clock a day ahead and, after a while, back again. It expects
// that within a minute every account is checked as often as its cadence says.
func (s *simulation) drillClock() {
	r := rand.New(rand.NewPCG(s.seed, uint64(s.summary.judgements))) // a source of its own keeps the plans of seeds as they were
	lasts := between(r, 20*time.Second, 10*time.Minute)
	s.world.Journal.Write("DRILL: Redis' clock is a day ahead for %v", lasts)
	s.aDayAhead()
	time.Sleep(lasts)
	s.world.Journal.Write("DRILL: Redis' clock goes back")
	s.rightClock()
	time.Sleep(rightAgain)
	c := s.oracle.judge()
	if c == nil || !s.sound() {
		return
	}
	before := s.up.checked()
	time.Sleep(counted)
	s.throughput(c, before, s.up.checked())
	s.summary.drilled("Redis' clock a day ahead and back", 1, rightAgain)
}

// throughput expects as many checks of every account as its cadence says.
func (s *simulation) throughput(c *census.Census, before, after map[string]int) {
	active := 0
	for _, a := range c.Accounts {
		if a.Reason != "" || a.Failures != "" {
			continue
		}
		var record accounts.Account
		err := json.Unmarshal([]byte(a.Record), &record)
		every, err2 := cadence.Parse(record.Cadence)
		if err != nil || err2 != nil {
			s.violated("I5: the record of %q: %v, %v", a.ID, err, err2)
			continue
		}
		active++
		interval := every.Interval()
		if holdsOf(&record) {
			interval = holdOf + usualEnd
		}
		least := int(counted/interval) - 1
		if n := after[a.ID] - before[a.ID]; n < least {
			s.violated("I6: %q, %s, was checked %d times in %v after Redis' clock went back, want %d: %s", a.ID, every, n, counted, least, s.reg.why(a.ID))
		}
	}
	s.world.Journal.Write("%d accounts are on their cadence again", active)
}
