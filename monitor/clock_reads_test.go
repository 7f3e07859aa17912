package monitor

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/faketime"
)

// A node has one clock. To read it at every shard in every turn would cost an idle ring
// more commands than everything else.
func TestClocksAreReadOncePerNodeAndInRotation(t *testing.T) {
	const shards = 2 * clockRotation
	faketime.Run(t, shards, func(w *faketime.World) {
		m, err := New(w.Ring, Config{}, Options{})
		if err != nil {
			w.Fatal(err)
		}
		watch := newClockWatch(m)
		count := func(do func()) int {
			before := w.Miniredis().CommandCount()
			do()
			return w.Miniredis().CommandCount() - before
		}
		read := func() {
			if _, err := w.Ring.Clocks().Read(w.Context(), 0); err != nil {
				w.Fatal(err)
			}
		}
		read() // sends the script's text
		time.Sleep(time.Second)
		each := count(read)
		n := count(func() {
			for range clockRotation {
				time.Sleep(time.Second)
				if err := watch.turn(w.Context()); err != nil {
					w.Fatal(err)
				}
			}
		})
		// The probe is read in each turn, and each other shard once.
		if reads := n / each; reads < shards || reads > shards+clockRotation {
			w.Errorf("%d reads of %d shards in %d turns", reads, shards, clockRotation)
		}
		for shard := range shards {
			if clock, err := w.Ring.Clocks().Read(w.Context(), shard); err != nil || !clock.Newest.IsZero() {
				w.Errorf("shard %d: %v, %v", shard, clock, err)
			}
		}
	})
}

// When a node's clock goes back, all of its shards are put right from the turn that finds
// it on. That includes shards whose own last reading is too old to show it.
func TestAllShardsOfANodeArePutRight(t *testing.T) {
	const shards = 3
	faketime.Run(t, shards, func(w *faketime.World) {
		m, err := New(w.Ring, Config{}, Options{})
		if err != nil {
			w.Fatal(err)
		}
		watch := newClockWatch(m)
		turn := func(want int) {
			w.Helper()
			if err := watch.turn(w.Context()); err != nil {
				w.Fatal(err)
			}
			if len(watch.repairs) != want {
				w.Errorf("%d shards are being put right, want %d", len(watch.repairs), want)
			}
		}
		turn(0) // reads the probe's clock
		w.SetRedisClock(func() time.Time { return time.Now().Add(-time.Minute) })
		for range rewinds - 1 {
			turn(shards)
		}
		turn(0)
		turn(0)
	})
}
