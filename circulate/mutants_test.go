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

// brokenRule names the rule that TestRingWithARuleBroken breaks, noRule none.
const (
	brokenRule = "ROUNDS_TEST_BROKEN_RULE"
	noRule     = "none"
)

// TestRingWithARuleBroken runs the suite on a server whose scripts are rewritten on the
// way. It only does so when TestMutantsAreFound runs it.
func TestRingWithARuleBroken(t *testing.T) {
	rule, asked := os.LookupEnv(brokenRule)
	if !asked {
		return
	}
	m, found := mutants.Named(rule)
	if rule != noRule && !found {
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

// TestMutantsAreFound runs this test binary with rules broken in turn that the suite must notice, and
// at night with each of them. The test that the rule names must fail then, and pass if no rule is
// broken.
func TestMutantsAreFound(t *testing.T) {
	t.Parallel()
	all := mutants.Tried(mutants.Conformance)
	tests := make([]string, len(all))
	for i, m := range all {
		tests[i] = strings.NewReplacer(" ", "_", "'", ".").Replace(m.Test)
	}
	t.Run(noRule, func(t *testing.T) {
		t.Parallel()
		if out, err := runBroken(t, noRule, strings.Join(tests, "|")); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
	for i, m := range all {
		t.Run(m.Rule, func(t *testing.T) {
			t.Parallel()
			out, err := runBroken(t, m.Rule, tests[i])
			switch {
			case err == nil:
				t.Fatal("nobody noticed")
			case bytes.Contains(out, []byte(doesNotFit)) || !bytes.Contains(out, []byte("--- FAIL: TestRingWithARuleBroken/ring/")):
				t.Fatalf("failed for another reason: %v\n%s", err, out)
			}
		})
	}
}

func runBroken(t *testing.T, rule, tests string) ([]byte, error) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRingWithARuleBroken$/^ring$/^("+tests+")$", "-test.timeout=4m")
	cmd.Env = append(os.Environ(), brokenRule+"="+rule)
	return cmd.CombinedOutput()
}
