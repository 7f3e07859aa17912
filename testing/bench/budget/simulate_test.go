package budget

import (
	"os"
	"testing"

	"github.com/rounds-dev/rounds/testing/processes"
)

// One goroutine computes all: the race detector has nothing to see.
func TestMain(m *testing.M) { os.Exit(processes.Apart(m, "TestLearnedIsNearTheOptimum").Run()) }

// The learned rule is within 15 % of the optimum by the true rates, for each sort of source, and
// far better than one interval for all and than what accounts do without a budget.
func TestLearnedIsNearTheOptimum(t *testing.T) {
	t.Parallel()
	const days = 60
	for _, sort := range []string{Poisson, Daily, Bursty, Mixed} {
		for _, part := range []float64{1, 0.1} {
			c := Compare(sort, 24, days, part)
			for name, r := range map[string]*Result{"optimum": c.Optimum, "fixed": c.Fixed, "moment": c.Moment} {
				if r == nil {
					continue
				}
				if ratio := float64(r.Calls) / float64(c.Learned.Calls); ratio < 0.98 || ratio > 1.02 {
					t.Errorf("%s, %v: %s makes %.3f times the calls", sort, part, name, ratio)
				}
			}
			learned, best := c.Learned.Delay(), c.Optimum.Delay()
			t.Logf("%s, %v: %.3f of the optimum, %.3f of one interval for all", sort, part, learned/best, learned/c.Fixed.Delay())
			if learned > 1.15*best {
				t.Errorf("%s, %v: %.3f times the delay of the optimum", sort, part, learned/best)
			}
			if c.Moment != nil && learned > 1.2*c.Moment.Delay() { // who knows the hour of each source is better still
				t.Errorf("%s, %v: %.3f times the delay of the optimum by the rates of the moment", sort, part, learned/c.Moment.Delay())
			}
			if fixed := c.Fixed.Delay(); fixed < 1.5*best { // the control: it would be found
				t.Errorf("%s, %v: one interval for all has %.3f times the delay of the optimum", sort, part, fixed/best)
			}
			if c.Today != nil && c.Today.Delay() < 1.4*c.Learned.Delay() {
				t.Errorf("%s: without a budget %.1f s, with %.1f s", sort, c.Today.Delay(), c.Learned.Delay())
			}
		}
	}
}
