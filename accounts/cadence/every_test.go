package cadence_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

func every(t *testing.T, interval time.Duration) cadence.Cadence {
	t.Helper()
	c, err := cadence.Every(interval)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// slot returns the next slot of a cadence that never ends.
func slot(t *testing.T, c cadence.Cadence, id string, now time.Time) time.Time {
	t.Helper()
	next, again := c.After(id, now, cadence.State{})
	if !again {
		t.Fatalf("%v of %q ends after %v", c, id, now)
	}
	return next
}

// Slots of an account are one interval apart, whatever the time: the next slot is later than
// now, by at most an interval.
func TestSlotsAreLaterThanNowAndOneIntervalApart(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		interval := time.Second + time.Duration(random.Int64N(int64(cadence.MaxInterval-time.Second))).Truncate(time.Millisecond)
		if random.IntN(2) == 0 {
			interval = time.Duration(1+random.IntN(7200)) * time.Second
		}
		c, id := every(t, interval), fmt.Sprint("shop-", random.IntN(1000))
		now := time.Unix(random.Int64N(1<<33)-1<<31, random.Int64N(1e9)) // before 1970 too
		next := slot(t, c, id, now)
		if !next.After(now) || next.Sub(now) > interval || next.Nanosecond()%1e6 != 0 {
			t.Fatalf("%v of %q after %v: %v", c, id, now, next)
		}
		for name, at := range map[string]time.Time{
			"just before it":  next.Add(-1),
			"in between":      now.Add(time.Duration(random.Int64N(int64(next.Sub(now))))),
			"in another zone": now.In(time.FixedZone("", 20700)),
		} {
			if again := slot(t, c, id, at); !again.Equal(next) {
				t.Fatalf("%v of %q after %v: %v, asked %s: %v", c, id, now, next, name, again)
			}
		}
		// The phase stays the same after a restart and after any number of missed slots.
		for _, missed := range []int64{0, 1, 1 + random.Int64N(5)} {
			at := next.Add(time.Duration(missed) * interval)
			if after := slot(t, c, id, at); !after.Equal(at.Add(interval)) {
				t.Fatalf("%v of %q after its slot %v: %v", c, id, at, after)
			}
		}
	}
}

func TestTightRingIsAlwaysNow(t *testing.T) {
	c := every(t, 0)
	for _, now := range []time.Time{{}, time.Unix(0, 1), time.Now()} {
		if next := slot(t, c, "a", now); !next.Equal(now) {
			t.Errorf("after %v: %v", now, next)
		}
	}
}

// TestTenThousandAccountsAreSpreadEvenly registers ids as people choose them: a prefix and a
// number. Chi-square with 99 degrees of freedom exceeds 161 once in ten thousand times.
func TestTenThousandAccountsAreSpreadEvenly(t *testing.T) {
	const ids, buckets = 10_000, 100
	now := time.Unix(1_800_000_000, 0)
	for name, id := range map[string]string{"numbers": "%d", "a prefix": "shop-%d", "a long one": "tenant/eu-west/wecom/%06d", "a suffix": "%d@example.com"} {
		for _, interval := range []time.Duration{time.Second, time.Minute, 90 * time.Second, time.Hour, 7 * 24 * time.Hour} {
			c := every(t, interval)
			var in [buckets]int
			for i := range ids {
				wait := slot(t, c, fmt.Sprintf(id, i), now).Sub(now)
				in[min(buckets-1, int(int64(buckets)*int64(wait-1)/int64(interval)))]++
			}
			chi := 0.0
			for _, n := range in {
				d := float64(n) - ids/buckets
				chi += d * d / (ids / buckets)
			}
			if chi > 161 || chi < 50 {
				t.Errorf("%s, %v: chi-square %.0f: %v", name, c, chi, in)
			}
		}
	}
}

// A backoff is between half of its upper bound and the whole. The bound begins with the interval,
// within two seconds and half a minute, and doubles with each failure, up to an hour or the
// interval, whichever is longer.
func TestBackoffStaysWithinItsBounds(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, interval := range []time.Duration{0, 5 * time.Second, time.Minute, time.Hour, 5 * time.Hour, 300 * 24 * time.Hour} {
		c := every(t, interval)
		for _, failures := range []int{0, 1, 2, 5, 6, 7, 13, 14, 15, 20, 30, 62, 63, 64, 65, 1000, math.MaxInt32} {
			most := float64(max(time.Hour, interval))
			first := float64(min(30*time.Second, max(2*time.Second, interval)))
			if doubled := first * math.Pow(2, float64(failures)); doubled < most {
				most = doubled
			}
			for _, chance := range []float64{0, 0.5, 0.999} {
				next := cadence.Decide(c, cadence.Policy{RetryBudget: math.MaxInt}, "a", cadence.State{Failures: failures},
					cadence.Outcome{Class: cadence.Transient}, now, func() float64 { return chance })
				if next.Park != "" || next.State.Failures != failures+1 {
					t.Fatalf("%v after %d failures: %+v", c, failures, next)
				}
				want := now.Add(time.Duration((0.5 + chance/2) * most))
				if by := slot(t, c, "a", now); by.After(want) {
					want = by
				}
				if off := next.Due.Sub(want); off < 0 || off > time.Millisecond {
					t.Errorf("%v after %d failures, chance %v: due in %v, want %v", c, failures, chance, next.Due.Sub(now), want.Sub(now))
				}
			}
		}
	}
}

// None of our limits shortens a wait that the upstream asks for.
func TestRetryAfterIsHonouredInFull(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, class := range []cadence.Class{cadence.Throttled, cadence.Transient, cadence.Blameless, cadence.AuthFailed} {
		for _, wait := range []time.Duration{2 * time.Hour, 25 * time.Hour, 400 * 24 * time.Hour, 250 * 365 * 24 * time.Hour} {
			for _, chance := range []float64{0, 0.999} {
				next := cadence.Decide(every(t, time.Second), cadence.Policy{}, "a", cadence.State{Failures: 3},
					cadence.Outcome{Class: class, RetryAfter: wait}, now, func() float64 { return chance })
				got := next.Due.Sub(now)
				if got < wait || float64(got) > 1.1*float64(wait) || next.Rule != cadence.RuleRetryAfter {
					t.Errorf("class %d: told to wait %v, waits %v by %q", class, wait, got, next.Rule)
				}
				if counts := class == cadence.Transient || class == cadence.AuthFailed; counts != (next.State.Failures == 4) {
					t.Errorf("class %d: %d failures", class, next.State.Failures)
				}
			}
		}
	}
}

// Failures that the account did not cause never park it, however many there are.
func TestBlamelessAndThrottledNeverPark(t *testing.T) {
	now, c := time.Unix(1_800_000_000, 0), every(t, time.Minute)
	for _, class := range []cadence.Class{cadence.Blameless, cadence.Throttled} {
		state := cadence.State{Failures: 15, Refusals: 2, FirstRefusal: now.Add(-time.Hour)}
		before := state
		for range 1000 {
			next := cadence.Decide(c, cadence.Policy{}, "a", state, cadence.Outcome{Class: class}, now, func() float64 { return 0 })
			if next.Park != "" || next.State != before || !next.Due.After(now) {
				t.Fatalf("class %d: %+v", class, next)
			}
			now, state = next.Due, next.State
		}
	}
}

// TestRetryBudgetIsSixteenInARow counts the checks until an account is parked, with a success
// in between that resets the count.
func TestRetryBudgetIsSixteenInARow(t *testing.T) {
	now, c, state, checks := time.Unix(1_800_000_000, 0), every(t, time.Minute), cadence.State{}, 0
	for {
		class := cadence.Transient
		if checks == 15 {
			class = cadence.Succeeded
		}
		checks++
		next := cadence.Decide(c, cadence.Policy{}, "a", state, cadence.Outcome{Class: class, Text: "down"}, now, func() float64 { return 0.999 })
		if next.Park != "" {
			break
		}
		now, state = next.Due, next.State
	}
	if checks != 15+1+16 {
		t.Errorf("parked at check %d, want 32", checks)
	}
}
