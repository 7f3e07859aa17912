package poller

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPlacesAreTakenAsFarAsThereAreAny(t *testing.T) {
	p := newPlaces(5)
	for i, test := range []struct{ want, got int }{{3, 3}, {3, 2}, {3, 0}} {
		if got := p.tryTake(test.want); got != test.got {
			t.Errorf("%d: took %d of %d, want %d", i, got, test.want, test.got)
		}
	}
	p.give(0)
	if got := p.tryTake(1); got != 0 {
		t.Errorf("took %d of none", got)
	}
	p.give(4)
	if got := p.take(t.Context(), 10); got != 4 {
		t.Errorf("took %d, want 4", got)
	}
}

func TestTakeWaitsForAPlaceOrTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(0)
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(time.Second, func() { p.give(2) })
		if got := p.take(ctx, 5); got != 2 || time.Since(began) != time.Second {
			t.Errorf("took %d after %v, want 2 after 1s", got, time.Since(began))
		}
		time.AfterFunc(time.Second, cancel)
		if got := p.take(ctx, 5); got != 0 || time.Since(began) != 2*time.Second {
			t.Errorf("took %d after %v, want none after 2s", got, time.Since(began))
		}
		p.give(1)
		if got := p.take(t.Context(), 1); got != 1 {
			t.Error("a place was lost to the one who had gone")
		}
	})
}

// TestEveryFreePlaceWakesAWaiter frees many places at once, while many waiters
// want one each.
func TestEveryFreePlaceWakesAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(0)
		ctx, cancel := context.WithCancel(t.Context())
		var got atomic.Int64
		var takers sync.WaitGroup
		for range 100 {
			takers.Go(func() { got.Add(int64(p.take(ctx, 1))) })
		}
		for i, n := range []int{1, 50, 49} {
			synctest.Wait()
			p.give(n)
			synctest.Wait()
			if want := []int64{1, 51, 100}[i]; got.Load() != want {
				t.Fatalf("%d took a place, want %d", got.Load(), want)
			}
		}
		takers.Wait()
		cancel()
	})
}

// TestNoWakeUpIsLost would hang if a wake-up were lost. All places come back, and none is
// taken twice.
func TestNoWakeUpIsLost(t *testing.T) {
	const places, rounds = 7, 2000
	p := newPlaces(places)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var taken, most atomic.Int64
	var takers sync.WaitGroup
	for taker := range 16 {
		takers.Go(func() {
			for round := range rounds {
				n := 0
				if round%5 == 0 {
					n = p.tryTake(1 + taker%3)
				} else if n = p.take(ctx, 1+taker%3); n == 0 {
					t.Error("still waiting after 20 s")
					return
				}
				now := taken.Add(int64(n))
				for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
				}
				taken.Add(int64(-n))
				for range n { // one by one, as checks end
					p.give(1)
				}
			}
		})
	}
	takers.Wait()
	if most.Load() > places {
		t.Errorf("%d places taken at once, there are %d", most.Load(), places)
	}
	if got := p.tryTake(100); got != places {
		t.Errorf("%d places are left, want %d", got, places)
	}
}
