package cadence

import (
	"testing"
	"time"
)

// Accounts are parked as Parking predicts, and no pause is longer than LongestPause.
func TestParkingIsWhatParks(t *testing.T) {
	every, err := Parse("every 10s")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		class  Class
		policy Policy
		rule   string
		after  int
	}{
		"transient":  {Transient, Policy{}, RuleRetryBudget, RetryBudget},
		"own budget": {Transient, Policy{RetryBudget: 2}, RuleRetryBudget, 2},
		"refused":    {AuthFailed, Policy{}, RuleAuth, AuthBudget},
		"gone":       {Gone, Policy{}, RuleGone, 1},
		"config":     {ConfigInvalid, Policy{}, RuleConfig, 1},
		"blameless":  {Blameless, Policy{}, "", 0},
		"throttled":  {Throttled, Policy{}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
			var state State
			for n := 1; n <= 40; n++ {
				before := tt.policy.Parking(tt.class, state)
				if before.Rule != tt.rule || before.After != tt.after {
					t.Fatalf("got %+v", before)
				}
				next := Decide(every, tt.policy, "a", state, Outcome{Class: tt.class}, now, func() float64 { return 1 })
				if parked := next.Park != ""; parked != (before.Left == 1 && tt.rule != "" && !now.Before(before.From)) || parked && next.Rule != tt.rule {
					t.Fatalf("failure %d: parked %v by %s, and before it %+v", n, parked, next.Rule, before)
				}
				if next.Park != "" {
					return
				}
				pause := tt.policy.LongestPause(tt.class, state.Failures, 0)
				if wait := next.Due.Sub(now); tt.class != Throttled && wait > pause+time.Second {
					t.Fatalf("failure %d: waits %v, and at most %v", n, wait, pause)
				}
				state, now = next.State, next.Due
			}
			if tt.rule != "" {
				t.Error("never parked")
			}
		})
	}
	if got := (Policy{}).LongestPause(Blameless, 0, 0); got != 30*time.Second {
		t.Errorf("blameless: %v", got)
	}
}
