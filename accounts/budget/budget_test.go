package budget_test

import (
	"testing"

	"github.com/rounds-dev/rounds/accounts/budget"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"": 0, "5000/s": 5000, "90/m": 1.5, "1/h": 1.0 / 3600, "0.5/s": 0.5, "1000000000/s": 1e9} {
		if got, err := budget.Parse(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"5000", "5000/", "/s", "x/s", "0/s", "-1/s", "5/d", "5/s/s", "NaN/s", "Inf/s", "1e10/s", "0.5/h", " 5/s"} {
		if got, err := budget.Parse(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	for perSecond, want := range map[float64]string{5000: "5000/s", 1.5: "1.5/s", 1234.6: "1235/s", 0.5: "30/m", 1.0 / 3600: "1/h"} {
		if got := budget.Text(perSecond); got != want {
			t.Errorf("%v: %q, want %q", perSecond, got, want)
		}
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	for want, states := range map[string][]budget.Standing{
		budget.Kept:     {{}, {Budget: 10, Spent: 11}, {Budget: 10, Spent: 30, Ceiling: 0.9}, {Budget: 10, Spent: 9.5, Floor: 1}, {Budget: 10, Spent: 10, Floor: 1, Ceiling: 1}},
		budget.TooSmall: {{Budget: 10, Spent: 12, Ceiling: 1}},
		budget.Unused:   {{Budget: 10, Spent: 8, Floor: 0.96}},
	} {
		for _, s := range states {
			if got := s.Verdict(); got != want {
				t.Errorf("%+v: %s, want %s", s, got, want)
			}
			if spent, of := s.Firm(); (of > 0) != (want != budget.Kept) || of > 0 && (spent != s.Spent || of != s.Budget) {
				t.Errorf("%+v: %v of %v", s, spent, of)
			}
		}
	}
	if b := (budget.Standing{}).Of(); !b.Learns || b.Price != 0 {
		t.Errorf("without a price: %+v", b)
	}
	if b := (budget.Standing{Price: 7}).Of(); b.Price != 7 {
		t.Errorf("with a price: %+v", b)
	}
}
