package main

import (
	"encoding/json"
	"os"
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

// broken builds the service with a rule broken: the script with that rule is replaced.
func broken(t *testing.T, dir, rule string) string {
	t.Helper()
	m, known := mutants.Named(rule)
	if !known {
		t.Fatalf("there is no rule %q to be broken", rule)
	}
	script, err := filepath.Abs(filepath.Join("..", "..", "circulate", m.Script+".lua"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := m.Apply(string(text))
	if err != nil || changed == string(text) {
		t.Fatalf("%q is not broken: %v", rule, err)
	}
	other, overlay := filepath.Join(dir, "broken.lua"), filepath.Join(dir, "overlay.json")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{script: other}})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{other: []byte(changed), overlay: replaced} {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	binary, err := processes.Build(dir, "-overlay", overlay)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}
