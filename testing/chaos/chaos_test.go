package main

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestMain(m *testing.M) {
	// The proxy may leave a pipe of its own behind when a toxic is added to a link that
	// ends.
	//
	// The runs go apart, without the race detector: what they break are other processes.
	goleak.VerifyTestMain(processes.Apart(m, "TestShortRun", "TestBrokenRuleIsFound"), goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"))
}

// quick are the faults of TestShortRun: some of each sort, which take little time. Every fault
// there is comes at night.
func quick() []string {
	return []string{
		"redis-kill-always",
		"sentinel-writes-lost",
		"cluster-slot-half-moved",
	}
}

// TestShortRun injects some of the faults in each world, each at most once, from a
// fixed seed.
func TestShortRun(t *testing.T) {
	redistest.LookPath(t)
	var progress strings.Builder
	r, err := unleash(t.Context(), options{
		length: 100 * time.Second, seed: 20261121, on: topologies(), faults: quick(), rounds: 1, accounts: 60, dir: t.TempDir(), log: &progress,
	})
	t.Log(progress.String())
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := r.markdown(&table); err != nil {
		t.Fatal(err)
	}
	t.Log(table.String())
	if r.failed() > 0 {
		t.Errorf("%d violations", r.failed())
	}
	injected := make(map[topology]int)
	for _, line := range r.Rows {
		injected[line.World] += line.Injected
	}
	for _, on := range topologies() {
		if injected[on] == 0 {
			t.Errorf("no fault was injected on %s", on)
		}
		if r.control(on).Injected == 0 {
			t.Errorf("no control on %s", on)
		}
	}
	if r.Checks == 0 || r.Messages == 0 || r.Sends == nil || r.Sends.Arrived == 0 || r.Sends.Doubts == 0 {
		t.Errorf("nothing happened: %d checks, %d messages, sends %+v", r.Checks, r.Messages, r.Sends)
	}
}
