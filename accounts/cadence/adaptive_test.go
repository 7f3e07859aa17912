package cadence_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

// The interval after checks that found something (+), found nothing (-), found an empty page
// with more behind it (~), or failed (!).
func TestAdaptiveFollows(t *testing.T) {
	for name, tt := range map[string]struct {
		text   string
		before time.Duration
		checks string
		want   time.Duration
	}{
		"at first, something":    {"adaptive 10s..15m", 0, "+", 20 * time.Second},
		"at first, nothing":      {"adaptive 10s..15m", 0, "-", 47568 * time.Millisecond},
		"not below the least":    {"adaptive 10s..15m", 0, "++++", 10 * time.Second},
		"not above the most":     {"adaptive 10s..15m", 14 * time.Minute, "-", 15 * time.Minute},
		"four times nothing":     {"adaptive 1s..15m", time.Minute, "----", 119998 * time.Millisecond}, // each step is truncated to milliseconds
		"and once something":     {"adaptive 1s..15m", time.Minute, "----+", 59999 * time.Millisecond},
		"more, nothing so far":   {"adaptive 10s..15m", time.Minute, "~", time.Minute},
		"a failure says nothing": {"adaptive 10s..15m", time.Minute, "!", time.Minute},
		"a narrow range":         {"adaptive 10s..15s", 0, "-", 15 * time.Second},
		"other bounds by now":    {"adaptive 1m..2m", time.Second, "+", time.Minute},
		"other bounds above":     {"adaptive 10s..1m", time.Hour, "+", 30 * time.Second},
		"another cadence by now": {"every 1m", time.Hour, "-", 0},
	} {
		c, s := mustParse(t, tt.text), cadence.State{Interval: tt.before}
		for _, check := range tt.checks {
			o := cadence.Outcome{Found: check == '+', More: check == '~'}
			if check == '!' {
				o.Class = cadence.Transient
			}
			s = cadence.Decide(c, cadence.Policy{}, "id", s, o, time.UnixMilli(1e12), half).State
		}
		if s.Interval != tt.want {
			t.Errorf("%s: %v, want %v", name, s.Interval, tt.want)
		}
	}
}

// Whatever the interval, an account waits for half of it to all of it and never
// for less than the lower bound.
func TestAdaptiveWaits(t *testing.T) {
	c := mustParse(t, "adaptive 10s..15m")
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		every := 10*time.Second + time.Duration(random.Int64N(890_000))*time.Millisecond
		now := time.Unix(1e9, 0).Add(time.Duration(random.Int64N(math.MaxInt64 / 16)))
		next, ok := c.After(fmt.Sprint(i), now, cadence.State{Interval: every})
		wait := next.Sub(now)
		if !ok || wait < 10*time.Second || wait > every+time.Millisecond || wait < every/2-time.Millisecond {
			t.Fatalf("interval %v: waits %v after %v", every, wait, now)
		}
	}
}

// A constant interval is exact to the millisecond, however late checks are. Accounts that
// an outage brought together spread again at once.
func TestAdaptiveKeepsItsSlots(t *testing.T) {
	c, s := mustParse(t, "adaptive 10s..15m"), cadence.State{Interval: 15 * time.Minute}
	now := time.UnixMilli(1_786_000_000_123)
	buckets := make([]int, 15)
	for i := range 3000 {
		id := fmt.Sprint("account-", i)
		first, _ := c.After(id, now, s)
		buckets[first.Sub(now)/time.Minute]++
		slot := first
		for range 5 {
			next, _ := c.After(id, slot.Add(time.Duration(i)*50*time.Millisecond), s)
			if next.Sub(slot) != 15*time.Minute {
				t.Fatalf("%s: %v after its slot", id, next.Sub(slot))
			}
			slot = next
		}
	}
	for minute, n := range buckets[8:] { // from 7:30 to 15:00
		if n < 320 || n > 480 {
			t.Errorf("minute %d: %d of 3000 accounts", minute+8, n)
		}
	}
}

// An account that gets messages at random is checked so often that one check in
// five finds something, whatever its rate.
func TestAdaptiveHitRate(t *testing.T) {
	c := mustParse(t, "adaptive 1s..24h")
	for _, mean := range []time.Duration{time.Minute, 17 * time.Minute, 5 * time.Hour} {
		random := rand.New(rand.NewPCG(3, uint64(mean)))
		now, s := time.UnixMilli(1_786_000_000_000), cadence.State{}
		hits, checks := 0, 0
		for i := range 20_000 {
			next := cadence.Decide(c, cadence.Policy{}, "id", s, cadence.Outcome{}, now, half)
			// Whether the check finds something is known only once the wait is over.
			found := random.Float64() > math.Exp(-float64(next.Due.Sub(now))/float64(mean))
			next = cadence.Decide(c, cadence.Policy{}, "id", s, cadence.Outcome{Found: found}, now, half)
			now, s = next.Due, next.State
			if i > 1000 {
				checks++
				if found {
					hits++
				}
			}
		}
		if rate := float64(hits) / float64(checks); rate < 0.18 || rate > 0.22 {
			t.Errorf("a message each %v: %.3f of the checks find one", mean, rate)
		}
	}
}
