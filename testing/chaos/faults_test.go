package main

import (
	"slices"
	"strings"
	"testing"
)

// TestFaults checks what a run promises about its faults: there are enough in each world,
// names are unique, and each has the invariants that it is judged by and the metric or
// log line that shows it.
func TestFaults(t *testing.T) {
	count := make(map[topology]int)
	names := make(map[string]bool)
	for _, f := range allFaults(true) {
		count[f.on]++
		if f.name == "" || names[f.name] {
			t.Errorf("%q is no name, or that of two faults", f.name)
		}
		names[f.name] = true
		if f.inject == nil {
			t.Errorf("%s is never injected", f.name)
		}
		if f.sign.name == "" || f.sign.of == nil {
			t.Errorf("%s shows nowhere", f.name)
		}
		// A metric of ours is worth more than one of Redis'.
		if !strings.HasPrefix(f.sign.name, "rounds_") && f.name != "sentinel-replica-down" {
			t.Errorf("%s shows in %s, which is not ours", f.name, f.sign.name)
		}
		invariants := strings.Fields(f.invariant)
		if len(invariants) == 0 || slices.ContainsFunc(invariants, func(s string) bool { return len(s) != 2 || s < "I1" || s > "I6" }) {
			t.Errorf("%s is judged by %q", f.name, f.invariant)
		}
		if f.on != onServer && (f.mend == nil || !strings.HasPrefix(f.name, string(f.on)+"-")) {
			t.Errorf("%s is on %s, and is not put together again or not named after it", f.name, f.on)
		}
	}
	for on, least := range map[topology]int{onServer: 75, onSentinel: 9, onCluster: 12} {
		if count[on] < least {
			t.Errorf("%d faults on %s, want %d at least", count[on], on, least)
		}
	}
	if len(count) != len(topologies()) {
		t.Errorf("faults on %v", count)
	}
}

// TestChosen takes faults by world and by name.
func TestChosen(t *testing.T) {
	all := allFaults(true)
	if some, err := chosen(all, []topology{onCluster}, nil); err != nil || len(some) == 0 || slices.ContainsFunc(some, func(f fault) bool { return f.on != onCluster }) {
		t.Errorf("of the cluster: %d, %v", len(some), err)
	}
	if some, err := chosen(allFaults(true), topologies(), []string{"cluster-failover", "api-kill"}); err != nil || len(some) != 2 {
		t.Errorf("by name: %d, %v", len(some), err)
	}
	if _, err := chosen(allFaults(true), []topology{onServer}, []string{"cluster-failover"}); err == nil {
		t.Error("a fault was chosen in a world that does not have it")
	}
}
