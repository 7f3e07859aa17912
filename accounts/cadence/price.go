package cadence

import (
	"math"
	"time"
)

// Spent is what replicas report of the checks that spend a budget, since they started or over a
// time.
type Spent struct {
	Calls     uint64        `json:"calls"`              // checks of adaptive accounts, besides their first ones
	Intervals time.Duration `json:"intervals_ns"`       // the sum of the intervals until the next ones
	Floor     uint64        `json:"floor,omitempty"`    // how many of these intervals were the shortest that the account allows
	Ceiling   uint64        `json:"ceiling,omitempty"`  // the longest
	Budgeted  uint64        `json:"budgeted,omitempty"` // how many the budget decided
	Longer    uint64        `json:"longer,omitempty"`   // how many of them became longer than they would be without it
}

// Plus returns the sum.
func (s Spent) Plus(o Spent) Spent {
	return Spent{s.Calls + o.Calls, s.Intervals + o.Intervals, s.Floor + o.Floor, s.Ceiling + o.Ceiling, s.Budgeted + o.Budgeted, s.Longer + o.Longer}
}

// Minus returns what was spent since an earlier report of the same replica.
func (s Spent) Minus(o Spent) Spent {
	return Spent{s.Calls - o.Calls, s.Intervals - o.Intervals, s.Floor - o.Floor, s.Ceiling - o.Ceiling, s.Budgeted - o.Budgeted, s.Longer - o.Longer}
}

// Half returns half of it.
func (s Spent) Half() Spent {
	return Spent{s.Calls / 2, s.Intervals / 2, s.Floor / 2, s.Ceiling / 2, s.Budgeted / 2, s.Longer / 2}
}

const (
	// priceDamping is how many times as long as the mean interval a price takes to make up for a
	// constant error. Replicas follow a price with each account's next check, so about one mean
	// interval late. From 4 on such a loop does not overshoot.
	priceDamping = 4
	// priceStep is the largest change of a price in one step, as a factor.
	priceStep = 2
	// priceSaturated is the share of calls at a bound from which a price that would push further
	// in the same direction stays: it could do nothing, and would have to come back.
	priceSaturated = 0.99
)

// Steer returns the price after a period in which all replicas spent so much, if the budget is a
// number of calls a second. Price 0 stands for none yet. The first price is where the accounts are
// by themselves. If nothing was spent, the price stays.
func Steer(price float64, spent Spent, over time.Duration, budget float64) float64 {
	if spent.Calls == 0 || over <= 0 || !(budget > 0) {
		return price
	}
	calls, mean := float64(spent.Calls), spent.Intervals.Seconds()/float64(spent.Calls)
	excess := calls/over.Seconds()/budget - 1
	if !(price > 0) {
		return bound(adaptiveHits*mean, priceMin, priceMax)
	}
	switch {
	case excess > 0 && float64(spent.Ceiling) >= priceSaturated*calls,
		excess < 0 && float64(spent.Floor) >= priceSaturated*calls:
		return price
	}
	// The calls follow the price's square root, hence the 2.
	step := 2 * excess * over.Seconds() / (priceDamping * max(mean, over.Seconds()))
	return bound(price*math.Exp(bound(step, -math.Log(priceStep), math.Log(priceStep))), priceMin, priceMax)
}

func bound(x, least, most float64) float64 { return min(most, max(least, x)) }
