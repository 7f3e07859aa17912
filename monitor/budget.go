package monitor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/budget"
	"github.com/rounds-dev/rounds/accounts/cadence"
)

const (
	// budgetEvery is the time between two looks at what replicas spend of the budget.
	budgetEvery = 10 * time.Second
	// budgetGap is the longest time between two looks from which the spending between them is known.
	budgetGap = time.Minute
	// budgetKnown is how old a price may be for another monitor to go on from.
	budgetKnown = time.Hour
	// budgetShown is about how long the figures for people are averaged over.
	budgetShown = time.Minute
)

// SetBudget sets how many checks a second all adaptive accounts may spend; 0: any number. It may be
// called while the monitor runs.
func (m *Monitor) SetBudget(perSecond float64) { m.budget.Store(&perSecond) }

// budgetKeeper steers the price of the budget, by what all replicas have spent.
type budgetKeeper struct {
	*Monitor
	state  budget.Standing
	before map[string]cadence.Spent // by replica, as of the last look; nil: there was none
	looked time.Time                // when it was, by Redis' clock
	shown  cadence.Spent
	over   time.Duration
}

// turn looks at what was spent, and posts the price that follows.
func (k *budgetKeeper) turn(ctx context.Context) error {
	perSecond := k.budget.Load()
	if perSecond == nil || *perSecond <= 0 {
		k.before = nil
		k.metrics.forgetBudget()
		return nil // a price that was posted before no longer counts after budget.Lives
	}
	replicas, now, err := k.ring.Replicas(ctx)
	if err != nil {
		return err
	}
	over := now.Sub(k.looked)
	if k.before == nil || over <= 0 || over > budgetGap {
		// It is new on duty, Redis was away, or its clock has stepped. Another monitor may have posted a price.
		last, age, ok, err := budget.Last(ctx, k.ring)
		if err != nil {
			return err
		}
		*k = budgetKeeper{Monitor: k.Monitor}
		if over = 0; ok && age.Abs() <= budgetKnown {
			k.state = last
		}
	}
	var spent cadence.Spent
	after := make(map[string]cadence.Spent, len(replicas))
	for _, r := range replicas {
		var report accounts.Report
		if json.Unmarshal(r.Report, &report) != nil || report.Spent == nil {
			continue // another version, or it has not read its settings yet
		}
		after[r.Name] = *report.Spent
		if was, ok := k.before[r.Name]; !ok || was.Calls <= report.Spent.Calls { // otherwise it has the name of an earlier one
			spent = spent.Plus(report.Spent.Minus(was))
		}
	}
	if k.before == nil {
		spent = cadence.Spent{} // it came in an unknown time
	}
	k.before, k.looked = after, now
	k.state.Budget = *perSecond
	k.show(spent, over)
	k.state.Price = cadence.Steer(k.state.Price, spent, over, *perSecond)
	if !k.duty.held() {
		return nil
	}
	k.metrics.showBudget(k.state)
	return budget.Post(ctx, k.ring, k.state)
}

// show averages the figures for people.
func (k *budgetKeeper) show(spent cadence.Spent, over time.Duration) {
	k.shown, k.over = k.shown.Plus(spent), k.over+over
	if k.over > budgetShown { // the older part fades
		k.shown, k.over = k.shown.Half(), k.over/2
	}
	if k.over <= 0 || k.shown.Calls == 0 {
		return
	}
	calls := float64(k.shown.Calls)
	k.state.Spent = calls / k.over.Seconds()
	k.state.Interval = k.shown.Intervals.Seconds() / calls
	k.state.Longer, k.state.Floor, k.state.Ceiling = float64(k.shown.Longer)/calls, float64(k.shown.Floor)/calls, float64(k.shown.Ceiling)/calls
}
