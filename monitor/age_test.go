package monitor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
)

// The clock is a year ahead for a while. Nothing is dropped for its age, neither messages nor dead
// letters, whether a monitor saw the step or began after it, and a day after the clock was put
// right it is again.
func TestNothingIsTooOldWhileTheClockIsAhead(t *testing.T) {
	for _, seen := range []bool{true, false} {
		t.Run(fmt.Sprint("seen ", seen), func(t *testing.T) {
			inFakeTime(t, 2, func(w *world) {
				w.found(0, 5)
				w.found(1, 5)
				w.die(0, 3)
				config := monitor.Config{Retention: 7 * 24 * time.Hour, DeadRetention: 30 * 24 * time.Hour, SweepInterval: 30 * time.Second, CountInterval: 10 * time.Minute, ProblemsInterval: 10 * time.Minute, AuditInterval: time.Hour}
				stop := w.run(config)
				ahead := func(by time.Duration) {
					if !seen {
						stop()
					}
					w.SetRedisClock(func() time.Time { return time.Now().Add(by) })
					if !seen {
						w.NewMetrics()
						stop = w.run(config)
					}
				}
				expect := func(dead int64, lengths ...int64) {
					w.Helper()
					w.expectLengths(lengths...)
					if got := w.Do("XLEN", key(w.Ring, 0, "dead")); got != dead {
						w.Errorf("%v dead letters, want %d", got, dead)
					}
				}
				time.Sleep(11 * time.Minute)
				expect(3, 5, 5)
				ahead(365 * 24 * time.Hour)
				time.Sleep(31 * time.Minute)
				expect(3, 5, 5)
				w.found(1, 1)
				ahead(0)
				time.Sleep(time.Hour)
				expect(3, 5, 6)
				ahead(40 * 24 * time.Hour)
				time.Sleep(11 * time.Minute)
				stop()
				time.Sleep(22 * time.Hour)
				w.NewMetrics()
				stop = w.run(config)
				time.Sleep(time.Hour)
				expect(3, 5, 6)
				time.Sleep(80 * time.Minute) // the clock is taken for right
				expect(0, 0, 1)
				stop()
			})
		})
	}
}

// The clock goes ahead while a shard is trimmed, after any of the times that it is read then.
func TestTheClockThatWasJudgedIsCountedFrom(t *testing.T) {
	for reads := range 12 {
		inFakeTime(t, 1, func(w *world) {
			w.found(0, 5)
			w.die(0, 3)
			start, left := time.Now(), reads
			w.SetRedisClock(func() time.Time {
				now := time.Now()
				if now.Sub(start) >= 10*time.Minute {
					if left--; left < 0 {
						return now.Add(365 * 24 * time.Hour)
					}
				}
				return now
			})
			stop := w.run(monitor.Config{Retention: 7 * 24 * time.Hour, DeadRetention: 30 * 24 * time.Hour})
			time.Sleep(10*time.Minute + 30*time.Second)
			stop()
			w.expectLengths(5)
			if got := w.Do("XLEN", key(w.Ring, 0, "dead")); got != int64(3) {
				w.Errorf("%v dead letters after %d reads, want 3", got, reads)
			}
		})
	}
}

// A service that runs for some hours a day still drops messages that are too old.
func TestNightsAreNoReasonToKeepEverything(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.found(0, 5)
		for range 6 {
			w.NewMetrics()
			stop := w.run(monitor.Config{Retention: 24 * time.Hour})
			time.Sleep(12 * time.Minute)
			stop()
			time.Sleep(5*time.Hour + 40*time.Minute)
		}
		w.expectLengths(0)
	})
}

// The clock goes back by twenty minutes. An account that has to wait for an hour waits as
// long as before, however often the shard is put right.
func TestARepairMovesAnAccountOnce(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		const ahead = 20 * time.Minute
		w.Register(circulate.Registration{ID: "told", Record: []byte(`{"id":"told","kind":"k","cadence":"every 1m"}`)})
		stop := w.run(monitor.Config{})
		defer stop()
		w.SetRedisClock(func() time.Time { return time.Now().Add(ahead) })
		time.Sleep(12 * time.Second)
		c := w.claim(0, alice, 1)
		if _, err := w.Ring.Return(w.Context(), 0, []circulate.Return{{Claim: &c[0], Due: time.Now().Add(ahead + time.Hour), Rule: 'b'}}); err != nil {
			w.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		w.SetRedisClock(time.Now)
		time.Sleep(time.Minute)
		if wait := time.Until(w.Look("told").Due); wait < 58*time.Minute || wait > time.Hour {
			w.Errorf("who was told to wait for an hour waits %v more", wait)
		}
	})
}

// A check that was asked for at a time comes that much earlier if Redis' clock goes back, once.
func TestARepairMovesANudgeOnce(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		const ahead = 20 * time.Minute
		w.Register(circulate.Registration{ID: "asked", Record: []byte(`{"id":"asked","kind":"k","cadence":"every 12h"}`)})
		w.claim(0, alice, 1)
		if err := w.Ring.Account("asked").Nudge(w.Context(), circulate.Nudge{Within: 2 * time.Hour}); err != nil {
			w.Fatal(err)
		}
		stop := w.run(monitor.Config{})
		defer stop()
		w.SetRedisClock(func() time.Time { return time.Now().Add(ahead) })
		time.Sleep(12 * time.Second)
		w.SetRedisClock(time.Now)
		time.Sleep(time.Minute)
		kept, _ := w.Do("HGET", key(w.Ring, 0, "nudges"), "asked").([]byte)
		var due int64
		_, _ = fmt.Sscanf(string(kept), "%d", &due)
		if wait := time.Until(time.UnixMilli(due)); wait < 98*time.Minute || wait > 100*time.Minute {
			w.Errorf("the nudge is %q, in %v", kept, wait)
		}
	})
}
