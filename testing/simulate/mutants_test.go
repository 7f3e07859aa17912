package main

import (
	"testing"

	"github.com/rounds-dev/rounds/testing/mutants"
)

// These are rules of the protocol, each broken on purpose. Whole replicas under faults
// must show that.
func TestMutantsAreFound(t *testing.T) {
	for _, m := range mutants.Tried(mutants.Simulate) {
		t.Run(m.Rule, func(t *testing.T) {
			t.Parallel()
			fits := 0
			mutate := func(text string) (string, error) {
				changed, err := m.Apply(text)
				if err != nil {
					t.Error(err)
				} else if changed != text {
					fits++
				}
				return changed, err
			}
			run := func(t *testing.T, p plan) *summary { return simulate(t, p, func(float64) {}) }
			if m.Bounds.Keepers > 0 {
				run = func(t *testing.T, p plan) *summary { return holding(t, p, inPeace) }
			}
			if m.Bounds.Senders > 0 {
				run = func(t *testing.T, p plan) *summary { return sending(t, p, inTurmoil) }
			}
			// Goroutines take turns as they like, so now and then a run has no moment at which the rule matters.
			for seed := range uint64(4) {
				p := small(1 + seed)
				p.clock, p.mutate = m.Script == "clock", mutate
				s := run(t, p)
				if fits == 0 {
					t.Fatal("the step was never taken")
				}
				if len(s.violations) > 0 {
					t.Log(s.violations[0])
					return
				}
			}
			t.Error("nobody noticed")
		})
	}
}
