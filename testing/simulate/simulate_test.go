package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/testing/processes"
)

// A simulation judges where accounts are, and takes four times as long with the race
// detector. So a test binary with the detector builds one without, which runs all tests, and
// then runs a smaller simulation itself: replicas, monitors and faults at once.
func TestMain(m *testing.M) {
	if processes.RaceDetector {
		if err := processes.TestWithoutRaceDetector(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

// small is a plan that ends soon.
func small(seed uint64) plan {
	return plan{seed: seed, hours: 0.5, replicas: 2, monitors: 2, shards: 2, accounts: 15, places: 16}
}

func TestSimulation(t *testing.T) {
	last, shards, accounts := uint64(lastSeed), 2, 15
	if processes.RaceDetector {
		last, shards, accounts = 1, 1, 6
	}
	for seed := uint64(1); seed <= last; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			p := small(seed)
			p.clock, p.held, p.shards, p.accounts = true, 3, shards, accounts
			s := simulate(t, p, func(float64) {})
			s.expectNone(t)
			if s.checks == 0 || s.messages == 0 || len(s.faults) == 0 || s.judgements == 0 || s.drills["Redis' clock a day ahead and back"].times == 0 {
				t.Errorf("nothing happened: %+v", s)
			}
			t.Log(s.table(time.Since(began)))
		})
	}
}
