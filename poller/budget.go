package poller

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts/budget"
	"github.com/rounds-dev/rounds/accounts/cadence"
)

// budgetLook is the time between two looks at the price of the budget.
const budgetLook = 5 * time.Second

// pricing knows the price of the budget that adaptive accounts share.
type pricing struct {
	set   atomic.Bool // there is a budget
	price atomic.Pointer[cadence.Budget]
}

// SetBudget says whether the adaptive accounts of all replicas share a budget, whose price the
// monitor on duty posts; see package budget. It may be called while the pool runs.
func (p *Pool) SetBudget(shared bool) { p.pricing.set.Store(shared) }

// now returns what accounts go by now.
func (p *pricing) now() cadence.Budget {
	if !p.set.Load() {
		return cadence.Budget{}
	}
	if b := p.price.Load(); b != nil {
		return *b
	}
	return cadence.Budget{Learns: true}
}

// followBudget reads the price again and again, until ctx is done.
func (p *Pool) followBudget(ctx context.Context) {
	var known time.Time // when the price was last read
	for {
		if p.pricing.set.Load() {
			state, ok, err := budget.Current(ctx, p.ring)
			switch now := time.Now(); {
			case err == nil && ok:
				b := state.Of()
				p.pricing.price.Store(&b)
				known = now
			case err == nil, now.Sub(known) > budget.Lives: // without a price, accounts go on by themselves
				p.pricing.price.Store(nil)
			}
		}
		if !sleep(ctx, budgetLook) {
			return
		}
	}
}
