package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick are the faults of TestShortRun: of each sort some, and such as take
// little time.
func quick() []string {
	return []string{
		"poller-kill-holding-many", "poller-freeze-past-dead", "monitor-kill", "api-kill", "poller-sigterm-mid-check",
		"redis-kill-always", "redis-power-loss-everysec", "redis-script-flush", "redis-client-kill-storm", "redis-noreplicas", "redis-readonly", "redis-misconf",
		"net-replies-cut", "net-flapping", "net-replies-lost-all", "net-partition-poller",
		"check-severed", "garbage-in-queues", "wrong-type", "storm-register-race",
	}
}

// TestShortRun injects some of the faults, each at most once, from a fixed seed.
func TestShortRun(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" || os.Getenv("ROUNDS_TEST_REQUIRE_REDIS") != "" {
			t.Fatal("redis-server is not installed, and here it must be")
		}
		t.Skip("redis-server is not installed")
	}
	var progress strings.Builder
	r, err := unleash(t.Context(), options{
		length: 90 * time.Second, seed: 20261121, faults: quick(), rounds: 1, accounts: 90, dir: t.TempDir(), log: &progress,
	})
	t.Log(progress.String())
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := r.write(&table, false); err != nil {
		t.Fatal(err)
	}
	t.Log(table.String())
	if r.failed() > 0 {
		t.Errorf("%d violations", r.failed())
	}
	if r.Checks == 0 || r.Messages == 0 || r.Injected == 0 {
		t.Error("nothing happened")
	}
}
