package main

import (
	"bytes"
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

// broken builds the service with a rule broken: the script with that rule is replaced in the binary.
// To compile it from another source would compile most of the service once more. The new script
// must be as long as the old one, so a line of the comment that heads it is cut.
func broken(t *testing.T, dir, rule string) string {
	t.Helper()
	m, known := mutants.Named(rule)
	if !known {
		t.Fatalf("there is no rule %q to be broken", rule)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "circulate", m.Source()))
	if err != nil {
		t.Fatal(err)
	}
	changed, err := m.Apply(string(text))
	if err != nil || changed == string(text) {
		t.Fatalf("%q is not broken: %v", rule, err)
	}
	binary, err := processes.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(program, text); n != 1 {
		t.Fatalf("the binary has %s %d times", m.Source(), n)
	}
	program = bytes.Replace(program, text, []byte(shortened(t, changed, len(text))), 1)
	if err := os.WriteFile(binary, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return binary
}

// shortened cuts the longest line of comment in a script, so that the script has a length.
func shortened(t *testing.T, script string, length int) string {
	t.Helper()
	longest := ""
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "-- ") && len(line) > len(longest) {
			longest = line
		}
	}
	over := len(script) - length
	if over < 0 || over > len(longest)-len("-- \n") {
		t.Fatalf("the script is %d bytes longer, and its longest line of comment has %d", over, len(longest))
	}
	return strings.Replace(script, longest, longest[:len(longest)-1-over]+"\n", 1)
}
