package cadence_test

import (
	"math"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

var budgetStart = time.UnixMilli(1_786_000_000_000)

// checked returns the state after checks that are apart by a time, each of which finds a number
// of messages.
func checked(c cadence.Cadence, b cadence.Budget, s cadence.State, apart time.Duration, n, messages int) cadence.Next {
	var next cadence.Next
	now := budgetStart
	if !s.Rate.Until.IsZero() {
		now = s.Rate.Until
	}
	for range n {
		now = now.Add(apart)
		next = cadence.Decide(c, cadence.Policy{Budget: b}, "id", s, cadence.Outcome{Found: messages > 0, Messages: messages}, now, half)
		s = next.State
	}
	return next
}

// Rate times interval squared is the price, between the bounds.
func TestBudgetInterval(t *testing.T) {
	c := mustParse(t, "adaptive 10s..15m")
	for _, tt := range []struct {
		price float64
		want  time.Duration
	}{
		{0, 10 * time.Second}, {1e-3, 10 * time.Second}, {100, 77 * time.Second}, {400, 154 * time.Second}, {1e15, 15 * time.Minute},
		{math.NaN(), 10 * time.Second}, {-1, 10 * time.Second}, {math.Inf(1), 15 * time.Minute},
	} {
		next := checked(c, cadence.Budget{Learns: true, Price: tt.price}, cadence.State{}, time.Minute, 500, 1) // one a minute
		if got := next.State.Interval; (got - tt.want).Abs() > tt.want/50 {
			t.Errorf("at the price %v: %v, want %v", tt.price, got, tt.want)
		}
		if budgeted := tt.price > 0; next.State.Budgeted != budgeted || (next.Rule == cadence.RuleBudget) != budgeted {
			t.Errorf("at the price %v: %+v", tt.price, next)
		}
		if wait := next.Due.Sub(budgetStart.Add(500 * time.Minute)); wait > next.State.Interval || wait < next.State.Interval*7/8-time.Millisecond {
			t.Errorf("at the price %v: waits %v of %v", tt.price, wait, next.State.Interval)
		}
	}
}

// Without a budget nothing is learned, and nothing of what was learned decides.
func TestNoBudget(t *testing.T) {
	c := mustParse(t, "adaptive 10s..15m")
	s := checked(c, cadence.Budget{Learns: true, Price: 100}, cadence.State{}, time.Minute, 50, 1).State
	next := checked(c, cadence.Budget{}, s, time.Minute, 1, 0)
	if want := (cadence.State{Interval: (time.Duration(1.189207115002721 * float64(s.Interval))).Truncate(time.Millisecond)}); next.State != want || next.Rule != cadence.RuleAdaptive {
		t.Errorf("%+v, want %+v", next, want)
	}
	every := mustParse(t, "every 1m")
	if next := checked(every, cadence.Budget{Learns: true, Price: 100}, cadence.State{}, time.Minute, 9, 1); next.State != (cadence.State{}) || next.Rule != cadence.RuleCadence {
		t.Errorf("another cadence: %+v", next)
	}
}

// The messages of an account's first checks came in an unknown time, until one has all of them.
func TestRateBeginsWithoutTheBacklog(t *testing.T) {
	c, b := mustParse(t, "adaptive 10s..15m"), cadence.Budget{Learns: true, Price: 100}
	next := cadence.Decide(c, cadence.Policy{Budget: b}, "id", cadence.State{}, cadence.Outcome{Found: true, Messages: 5000, More: true}, budgetStart, half)
	if next.State.Rate != (cadence.Rate{}) || next.State.Budgeted {
		t.Errorf("with more behind: %+v", next.State)
	}
	next = cadence.Decide(c, cadence.Policy{Budget: b}, "id", next.State, cadence.Outcome{Found: true, Messages: 5000}, budgetStart, half)
	if r := next.State.Rate; r.Messages != 0 || r.Over <= 0 || !next.State.Budgeted {
		t.Errorf("with all: %+v", next.State)
	}
}

// What an account did long ago is forgotten by the messages that were expected since. A quiet
// account is checked less and less, and a busy one soon again.
func TestRateForgets(t *testing.T) {
	c, b := mustParse(t, "adaptive 1s..24h"), cadence.Budget{Learns: true, Price: 100}
	busy := checked(c, b, cadence.State{}, time.Minute, 300, 10).State
	quiet := checked(c, b, busy, time.Minute, 300, 0).State
	busyAgain := checked(c, b, quiet, time.Minute, 30, 10).State
	if quiet.Interval < 30*busy.Interval || busyAgain.Interval > 3*busy.Interval {
		t.Errorf("busy %v, quiet for five hours %v, busy for half an hour %v", busy.Interval, quiet.Interval, busyAgain.Interval)
	}
	for _, s := range []cadence.State{busy, quiet, busyAgain} {
		if alone := c.Alone(s); alone <= 0 || (c.Spending(s, s).Longer == 1) != (s.Interval > alone) {
			t.Errorf("%+v: alone %v, %+v", s, alone, c.Spending(s, s))
		}
	}
}

// Neither a failure nor a clock that steps back spoils a rate.
func TestRateStays(t *testing.T) {
	c, p := mustParse(t, "adaptive 1s..24h"), cadence.Policy{Budget: cadence.Budget{Learns: true, Price: 100}}
	s := checked(c, p.Budget, cadence.State{}, time.Minute, 300, 10).State
	after := s
	for range 5 {
		after = cadence.Decide(c, p, "id", after, cadence.Outcome{Class: cadence.Transient}, s.Rate.Until.Add(time.Hour), half).State
	}
	if after.Rate != s.Rate || after.Interval != s.Interval {
		t.Errorf("after failures: %+v, want %+v", after, s)
	}
	after = cadence.Decide(c, p, "id", s, cadence.Outcome{}, s.Rate.Until.Add(-time.Hour), half).State
	if after.Rate.Messages != s.Rate.Messages || after.Rate.Over != s.Rate.Over || !after.Rate.Until.Before(s.Rate.Until) {
		t.Errorf("after a step back: %+v, want %+v", after.Rate, s.Rate)
	}
}
