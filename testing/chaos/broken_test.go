package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/mutants"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// TestBrokenRuleIsFound runs a service in which one rule of the protocol is broken,
// without any fault. The harness must find it: otherwise it would not find such a mistake
// in a real service either.
func TestBrokenRuleIsFound(t *testing.T) {
	redistest.LookPath(t)
	dir := t.TempDir()
	var progress strings.Builder
	r, err := unleash(t.Context(), options{
		length: time.Second, seed: 1, on: []topology{onServer}, faults: []string{controlName}, rounds: 1, accounts: 40, dir: dir, log: &progress,
		binary: broken(t, dir, "a return writes the messages but not the cursor"),
	})
	t.Log(progress.String())
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, text := range r.Violations {
		if strings.HasPrefix(text, "I4: ") {
			found++
		}
	}
	for _, line := range r.Controls {
		for _, text := range line.Faults {
			if strings.HasPrefix(text, "I4: ") {
				found++
			}
		}
	}
	if found == 0 {
		t.Errorf("of %d violations none is of I4", r.failed())
	}
}

// broken builds the service with a rule broken.
func broken(t *testing.T, dir, rule string) string {
	t.Helper()
	binary, err := processes.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := mutants.Break(binary, filepath.Join("..", "..", "circulate"), rule); err != nil {
		t.Fatal(err)
	}
	return binary
}
