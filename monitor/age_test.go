package monitor_test

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
)

// The clock is a year ahead for a while. Nothing is dropped for its age, whether the step is
// noticed before the next turn or not, and a day after the clock was put right it is again.
func TestNothingIsTooOldWhileTheClockIsAhead(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.found(0, 5)
		w.found(1, 5)
		stop := w.run(monitor.Config{Retention: 7 * 24 * time.Hour, TrimInterval: time.Minute})
		defer stop()
		time.Sleep(90 * time.Second)
		w.expectLengths(5, 5)
		w.SetRedisClock(func() time.Time { return time.Now().Add(365 * 24 * time.Hour) })
		time.Sleep(11 * time.Minute)
		w.expectLengths(5, 5)
		w.SetRedisClock(time.Now)
		time.Sleep(time.Hour)
		w.expectLengths(5, 5)
		w.SetRedisClock(func() time.Time { return time.Now().Add(10 * 24 * time.Hour) })
		time.Sleep(23 * time.Hour)
		w.expectLengths(5, 5)
		time.Sleep(2 * time.Hour) // the clock is taken for right
		w.expectLengths(0, 0)
	})
}

// The clock goes back by twenty minutes. An account that has to wait for an hour keeps its wait,
// however often the shard is put right.
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
