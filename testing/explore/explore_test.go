package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/mutants"
)

func search(t *testing.T, c Config) Result {
	t.Helper()
	r, err := explore(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states, %d transitions, depth %d, %d snapshots of Redis, %d operations done, %d replayed, complete: %v",
		r.States, r.Transitions, r.Depth, r.Snapshots, r.Operations, r.Replayed, r.Complete)
	return r
}

// TestRing explores package circulate with two pollers and two monitors on one
// account, to the end, within several bounds.
func TestRing(t *testing.T) {
	for _, c := range []struct {
		name                   string
		each                   int // of pollers and of monitors
		crashes, cuts, changes int
	}{
		{"one of each and a cut", 1, 0, 1, 0},
		{"two crashes and a cut", 2, 2, 1, 0},
		{"changes", 2, 0, 0, 2},
		{"a change and a crash", 2, 1, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config, err := ringConfig(c.each, c.each, 1, []string{"registrar", "pauser", "nudger", "clock"})
			if err != nil {
				t.Fatal(err)
			}
			config.Crashes, config.Cuts, config.Changes, config.Replays = c.crashes, c.cuts, c.changes, 40
			r := search(t, config)
			if r.Fault != "" {
				t.Fatalf("%s\n%s", r.Fault, r.Text)
			}
			if !r.Complete || r.Replayed != 40 || r.States < 100 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestBarePattern finds how the pattern without tickets fails, by the shortest
// way there is.
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
			r := search(t, config)
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

// TestMutations breaks each rule of the protocol: the explorer must find what
// comes of it.
func TestMutations(t *testing.T) {
	for _, m := range mutants.By(mutants.Explore) {
		t.Run(m.Rule, func(t *testing.T) {
			t.Parallel()
			config, err := broken(m)
			if err != nil {
				t.Fatal(err)
			}
			r := search(t, config)
			if r.Fault == "" {
				t.Fatal("nothing was found")
			}
			t.Logf("%s\n%s", r.Fault, r.Text)
			whole, err := around(m)
			if err != nil {
				t.Fatal(err)
			}
			whole.MaxStates = 2000
			if r := search(t, whole); r.Fault != "" {
				t.Errorf("with the rule unbroken: %s\n%s", r.Fault, r.Text)
			}
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
