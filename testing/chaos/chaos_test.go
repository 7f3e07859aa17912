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

// TestShortRun injects a fault on one server, once, from a fixed seed: Redis is killed and comes
// back. Every fault there is comes at night, behind Sentinels and on a cluster too.
func TestShortRun(t *testing.T) {
	redistest.LookPath(t)
	var progress strings.Builder
	r, err := unleash(t.Context(), options{
		length: 30 * time.Second, seed: 20261121, on: []topology{onServer}, faults: []string{"redis-kill-always"}, rounds: 1, accounts: 60, dir: t.TempDir(), log: &progress,
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
	if r.control(onServer).Injected == 0 || len(r.Rows) != 1 || r.Rows[0].Injected == 0 {
		t.Errorf("no control, or no fault: %+v", r.Rows)
	}
	if r.Checks == 0 || r.Messages == 0 || r.Sends == nil || r.Sends.Arrived == 0 || r.Sends.Doubts == 0 {
		t.Errorf("nothing happened: %d checks, %d messages, sends %+v", r.Checks, r.Messages, r.Sends)
	}
}
