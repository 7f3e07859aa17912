package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/mutants"
)

func find(t *testing.T, c Config) Result {
	t.Helper()
	r, err := explore(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states, %d transitions, depth %d, %d snapshots of Redis, %d operations done, %d replayed, complete: %v",
		r.States, r.Transitions, r.Depth, r.Snapshots, r.Operations, r.Replayed, r.Complete)
	return r
}

// TestBarePattern finds how the pattern without tickets fails, in the fewest steps.
func TestBarePattern(t *testing.T) {
	for _, c := range []struct {
		look          string
		crashes, cuts int
		steps         int
		fault         string
	}{
		{"nowhere", 0, 0, 6, "nowhere"},
		{"lost", 1, 0, 7, "lost"},
		{"doubled", 0, 0, 4, "doubled"},
		{"twice", 0, 1, 3, "written twice"},
	} {
		t.Run(c.look, func(t *testing.T) {
			t.Parallel()
			config := bareConfig(c.look, c.crashes, c.cuts)
			config.Replays = 10
			r := find(t, config)
			if !strings.HasPrefix(r.Fault, c.fault) {
				t.Fatalf("found %q, want %q", r.Fault, c.fault)
			}
			t.Logf("%s\n%s", r.Fault, r.Text)
			if len(r.Trace) != c.steps {
				t.Errorf("%d steps, want %d", len(r.Trace), c.steps)
			}
		})
	}
}

// TestMutations breaks rules of the protocol, and each of them at night. The explorer must find the result, and nothing
// within the same bounds while no rule is broken.
func TestMutations(t *testing.T) {
	unbroken := make(map[mutants.Bounds]bool)
	for _, m := range mutants.Tried(mutants.Explore) {
		if !unbroken[m.Bounds] {
			unbroken[m.Bounds] = true
			t.Run("nothing, within the bounds of: "+m.Rule, func(t *testing.T) {
				t.Parallel()
				config, err := around(m)
				if err != nil {
					t.Fatal(err)
				}
				config.MaxStates = 2000
				if r := find(t, config); r.Fault != "" {
					t.Errorf("%s\n%s", r.Fault, r.Text)
				}
			})
		}
		t.Run(m.Rule, func(t *testing.T) {
			t.Parallel()
			config, err := broken(m)
			if err != nil {
				t.Fatal(err)
			}
			r := find(t, config)
			if r.Fault == "" {
				t.Fatal("nothing was found")
			}
			t.Logf("%s\n%s", r.Fault, r.Text)
		})
	}
}

func TestCommand(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"--pollers", "1", "--monitors", "1", "--changes", "0", "--crashes", "0"}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "complete true") {
		t.Errorf("printed %q", out.String())
	}
	if err := run([]string{"--around", "nobody"}, &out); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("got %v", err)
	}
}
