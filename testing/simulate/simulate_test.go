package main

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/testing/processes"
)

// A simulation judges where accounts are, and takes four times as long with the race detector.
// The detector watches a smaller one: replicas, monitors and faults at once.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(processes.Apart(m, "TestSimulation", "TestHeldCallsOutlastFaults", "TestSendsOutlastFaults", "TestNoLaneStarves", "TestMutantsAreFound",
		"TestTheOracleSees", "TestTheOracleSeesSends", "TestTheOracleSeesCallsThatAreHeld", "TestBelief", "TestReshardUnderWay"))
}

// small is a plan that ends soon.
func small(seed uint64) plan {
	return plan{seed: seed, hours: 0.5, replicas: 2, monitors: 2, shards: 2, accounts: 15, places: 16}
}

func TestSimulation(t *testing.T) {
	for _, seed := range seeds() {
		p := small(seed)
		p.clock, p.held = true, 3
		simulated(t, p)
	}
}

func TestSmallSimulation(t *testing.T) {
	p := small(8)
	p.hours, p.held, p.shards, p.accounts = 0.25, 3, 1, 6
	simulated(t, p)
}

// simulated expects a simulation in which something happens, and no rule is broken.
func simulated(t *testing.T, p plan) {
	t.Run(fmt.Sprint("seed ", p.seed), func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		s := simulate(t, p, func(float64) {})
		s.expectNone(t)
		if s.checks == 0 || s.messages == 0 || s.sends.arrived == 0 || len(s.faults) == 0 || s.judgements == 0 || p.clock && s.drills["Redis' clock a day ahead and back"].times == 0 {
			t.Errorf("nothing happened: %+v", s)
		}
		t.Log(s.table(time.Since(began)))
	})
}
