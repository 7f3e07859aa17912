package circulate_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/mutants"
	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/ringtest"
)

// brokenRule names the rule that TestRingWithARuleBroken breaks.
const brokenRule = "ROUNDS_TEST_BROKEN_RULE"

// TestRingWithARuleBroken is the suite on a server whose scripts are rewritten on
// the way. Nothing is changed in them, and it must pass, unless the environment
// names a rule.
func TestRingWithARuleBroken(t *testing.T) {
	t.Parallel()
	rule := os.Getenv(brokenRule)
	m, found := mutants.Named(rule)
	if rule != "" && !found {
		t.Fatalf("no rule is called %q", rule)
	}
	server := m.On(redistest.Embedded(t))
	ringtest.Run(t, server)
	if err := server.Err(); err != nil {
		t.Log(doesNotFit, err)
		t.Fail()
	}
}

const doesNotFit = "the mutant does not fit:"

// TestMutantsAreFound runs this very test binary with each rule broken in turn
// that is the suite's to notice. It must fail, and say what failed.
func TestMutantsAreFound(t *testing.T) {
	t.Parallel()
	for _, m := range mutants.By(mutants.Conformance) {
		t.Run(m.Rule, func(t *testing.T) {
			t.Parallel()
			test := strings.NewReplacer(" ", "_", "'", ".").Replace(m.Test)
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRingWithARuleBroken$/^ring$/^"+test+"$", "-test.timeout=60s")
			cmd.Env = append(os.Environ(), brokenRule+"="+m.Rule)
			out, err := cmd.CombinedOutput()
			switch {
			case err == nil:
				t.Fatal("nobody noticed")
			case bytes.Contains(out, []byte(doesNotFit)) || !bytes.Contains(out, []byte("--- FAIL: TestRingWithARuleBroken/ring/")):
				t.Fatalf("failed for another reason: %v\n%s", err, out)
			}
		})
	}
}
