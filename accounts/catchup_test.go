package accounts_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// standstill is a ring in fake time whose accounts nobody has checked for a while.
type standstill struct {
	*faketime.World
	interval map[string]time.Duration
	asked    float64 // checks a second
	may      float64 // checks that there was time for
	first    int     // shard
}

func newStandstill(w *faketime.World, n int, stood time.Duration, interval func(i int) time.Duration) *standstill {
	s := &standstill{World: w, interval: make(map[string]time.Duration)}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		id := fmt.Sprintf("account%04d", i)
		each := interval(i)
		s.interval[id] = each
		s.asked += 1 / each.Seconds()
		w.Register(circulate.Registration{ID: id, Record: []byte("{}")})
		due := time.Now().Add(-stood + time.Duration(random.Float64()*float64(each)))
		tag := fmt.Sprintf("{rounds:%d}:", w.Ring.ShardOf(id))
		field := w.Miniredis().HGet(tag+"tickets", id)
		w.Miniredis().HSet(tag+"tickets", id, field[:16]+fmt.Sprintf("%08x", due.Add(-each).Unix())+"+"+field[25:])
		if _, err := w.Miniredis().ZAdd(tag+"schedule", float64(due.UnixMilli()), id); err != nil {
			w.Fatal(err)
		}
	}
	return s
}

// check makes so many checks a second for a while.
func (s *standstill) check(perSecond float64) (made int) {
	const tick = 700 * time.Millisecond // so that it is another part of a second each time
	s.may += perSecond * tick.Seconds()
	shards := s.Ring.Shards()
	for i := range shards {
		shard, want := (s.first+i)%shards, int(s.may)/(shards-i)
		if want == 0 {
			continue
		}
		b, err := s.Ring.Claim(s.Context(), shard, "replica000", want, 0)
		if err != nil {
			s.Fatal(err)
		}
		items := make([]circulate.Return, len(b.Claims))
		for i := range b.Claims {
			items[i] = circulate.Return{Claim: &b.Claims[i], Mark: circulate.MarkOK, Rule: 'd', Due: b.Now.Add(s.interval[b.Claims[i].ID])}
		}
		if len(items) > 0 {
			made, s.may = made+len(items), s.may-float64(len(items))
			if _, err := s.Ring.Return(s.Context(), shard, items); err != nil {
				s.Fatal(err)
			}
		}
	}
	s.may, s.first = min(s.may, perSecond), s.first+1
	time.Sleep(tick)
	return made
}

func (s *standstill) overdue() (most time.Duration) {
	counts, err := s.Ring.CountAll(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, c := range counts {
		most = max(most, c.Overdue)
	}
	return most
}

func logUniform(least, most time.Duration) func(int) time.Duration {
	random := rand.New(rand.NewPCG(3, 4))
	return func(int) time.Duration {
		return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), random.Float64()))
	}
}

// After a minute, the estimate is within a fifth of what comes.
func TestCatchUpIsEstimated(t *testing.T) {
	for _, c := range []struct {
		name     string
		n        int
		stood    time.Duration
		interval func(int) time.Duration
		capacity float64 // in checks that are asked for
	}{
		{"intervals of seconds to a day", 2000, 4 * time.Hour, logUniform(10*time.Second, 24*time.Hour), 1.4},
		{"intervals of minutes, hardly enough", 1000, time.Hour, logUniform(time.Minute, 10*time.Minute), 1.15},
		{"one interval", 700, time.Hour, func(int) time.Duration { return 10 * time.Minute }, 1.3},
		{"daily, and a few often", 1000, 12 * time.Hour, func(i int) time.Duration {
			if i%25 == 0 {
				return 10 * time.Second
			}
			return 24 * time.Hour
		}, 1.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			faketime.Run(t, 2, func(w *faketime.World) {
				s := newStandstill(w, c.n, c.stood, c.interval)
				made, before := 0, time.Now()
				for time.Since(before) < time.Minute {
					made += s.check(c.capacity * s.asked)
				}
				sample, err := accounts.SampleBacklog(w.Context(), w.Ring)
				if err != nil {
					w.Fatal(err)
				}
				found, ok := accounts.EstimateCatchUp(sample, float64(made)/time.Since(before).Seconds())
				if !ok || found.Never {
					w.Fatalf("estimated %+v", found)
				}
				began := time.Now()
				for s.overdue() >= circulate.Late {
					for range 10 { // seven seconds, of the many minutes that it takes
						s.check(c.capacity * s.asked)
					}
					if time.Since(began) > 6*time.Hour {
						w.Fatalf("estimated %+v, and after hours accounts are late", found)
					}
				}
				came := time.Since(began).Seconds()
				w.Logf("estimated %+v, %.0f s came, asked for are %.1f a second", found, came, s.asked)
				if off := found.Seconds/came - 1; math.Abs(off) > 0.2 {
					w.Errorf("estimated %.0f s, %.0f came", found.Seconds, came)
				}
			})
		})
	}
}

// Where cadences ask for more than replicas do, accounts are never in time, and with no checks
// nothing is known. An account that waits for its turn at a limit is in time after that.
func TestCatchUpOfCapacity(t *testing.T) {
	sample := []circulate.Paced{
		{Weight: 100, Late: time.Hour, Interval: 10 * time.Second},
		{Weight: 1000, Late: time.Hour, Interval: 24 * time.Hour},
	}
	if found, ok := accounts.EstimateCatchUp(sample, 9); !ok || !found.Never || found.Seconds != 0 || math.Abs(found.Asked-10) > 0.1 || found.Late != 1100 {
		t.Errorf("of too few checks: %+v, %v", found, ok)
	}
	if found, ok := accounts.EstimateCatchUp(sample, 0); ok {
		t.Errorf("of no checks: %+v", found)
	}
	if found, ok := accounts.EstimateCatchUp(nil, 9); ok {
		t.Errorf("of no accounts: %+v", found)
	}
	sample = append(sample, circulate.Paced{Weight: 10, Late: -2 * time.Hour, Interval: time.Second, Turn: true})
	if found, ok := accounts.EstimateCatchUp(sample, 1000); !ok || found.Never || found.Seconds != 7200 {
		t.Errorf("of accounts that have their turn in two hours: %+v, %v", found, ok)
	}
}
