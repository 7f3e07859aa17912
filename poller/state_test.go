package poller

import (
	"sync"
	"testing"
	"testing/synctest"
)

// Each row is a state and what each step makes of it.
func TestTheStateOfAFlight(t *testing.T) {
	steps := map[string]func(*state) bool{
		"take":       (*state).take,
		"putDown":    func(s *state) bool { s.putDown(); return true },
		"settle":     func(s *state) bool { return s.settle(settledByShutdown) },
		"settleIdle": func(s *state) bool { return s.settleIdle(settledByLoss) },
	}
	type after struct {
		ok   bool
		word int32
	}
	const calling, page, settled, both = 0, pageInHand, settledBySelf, settledBySelf | pageInHand
	for before, table := range map[int32]map[string]after{
		calling: {"take": {true, page}, "putDown": {true, calling}, "settle": {true, settledByShutdown}, "settleIdle": {true, settledByLoss}},
		page:    {"take": {false, page}, "putDown": {true, calling}, "settle": {true, page | settledByShutdown}, "settleIdle": {false, page}},
		settled: {"take": {false, settled}, "putDown": {true, settled}, "settle": {false, settled}, "settleIdle": {false, settled}},
		both:    {"take": {false, both}, "putDown": {true, settled}, "settle": {false, both}, "settleIdle": {false, both}},
	} {
		for name, want := range table {
			var s state
			if s.word.Store(before); s.hasPage() {
				s.page.Add(1)
			}
			if got := (after{steps[name](&s), s.word.Load()}); got != want {
				t.Errorf("%s in %x: got %v, want %v", name, before, got, want)
			}
			if s.putDown(); s.hasPage() {
				t.Errorf("%s in %x: a page is left", name, before)
			}
			s.page.Wait()
		}
	}
}

// A page that arrives while others settle the flight is either written before the claim is
// touched, or known to be late.
func TestAPageAndASettlerAtOnce(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			var s state
			var all sync.WaitGroup
			written, released, took := 0, 0, false
			all.Go(func() {
				for range 3 {
					if took = s.take(); !took {
						return
					}
					written++
					s.putDown()
				}
			})
			all.Go(func() {
				if s.settle(settledByShutdown) {
					if s.hasPage() {
						s.page.Wait()
					}
					if s.hasPage() {
						t.Error("the claim is touched while a page is in hand")
					}
					released = written + 1
				}
			})
			all.Go(func() {
				if s.settleIdle(settledByLoss) {
					released = written + 1
				}
			})
			all.Wait()
			if released == 0 || written > released {
				t.Errorf("%d written, released after %d", written, released-1)
			}
		})
	}
}
