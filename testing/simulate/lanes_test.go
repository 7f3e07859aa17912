package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/simulate/replicas"
)

// Far more accounts are due than the replicas can check. Urgent accounts go first, but
// each lane gets its turns, even while replicas die.
func TestNoLaneStarves(t *testing.T) {
	t.Parallel()
	replicas.Run(t, replicas.Options{Seed: 1, Shards: 1}, func(w *replicas.World) {
		sum := newSummary()
		s := &simulation{plan: plan{seed: 1, replicas: 2, monitors: 1, accounts: 60, places: 2},
			world: w, summary: sum, random: rand.New(rand.NewPCG(1, 1)), up: newUpstream(1)}
		defer s.end()
		s.up.slow = 100 // a check takes some seconds
		if !s.begin() {
			return
		}
		for range 3 {
			time.Sleep(3 * time.Minute)
			c, err := w.Census()
			if err != nil {
				t.Fatal(err)
			}
			late := c.Waiting // and in the schedule, since claims promote no more than is taken soon
			for _, a := range c.Accounts {
				if !a.Due.IsZero() && a.Due.Before(c.Now) {
					late++
				}
			}
			if late < 10 {
				t.Errorf("there is enough room for all: %d are late", late)
			}
			s.fleet.anyReplica().Kill()
			time.Sleep(time.Minute)
			s.fleet.replace()
		}
		s.up.mu.Lock()
		lanes, all := s.up.byLane, s.up.counts.checks
		s.up.mu.Unlock()
		t.Logf("%d checks: %v", all, lanes)
		for lane, least := range map[string]int{"urgent": all / 4, "": all / 10, "low": all / 32} {
			if lanes[lane] < least {
				t.Errorf("lane %q got %d of %d checks, want at least %d", lane, lanes[lane], all, least)
			}
		}
		s.oracle.glance()
		sum.expectNone(t)
	})
}
