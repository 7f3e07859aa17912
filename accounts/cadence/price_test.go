package cadence_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

// priced is a fleet in fake time whose accounts follow one price.
type priced struct {
	t        *testing.T
	c        cadence.Cadence
	budget   float64
	price    float64
	now      time.Time
	accounts []*pricedAccount
	random   *rand.Rand
	frozen   time.Time // accounts of a dead replica wait until then; every third account is one
}

type pricedAccount struct {
	id      string
	rate    float64 // a second
	state   cadence.State
	due, at time.Time
}

// add registers n accounts, with rates spread log-uniformly from one a day to 1000.
func (f *priced) add(n int) {
	for i := range n {
		f.accounts = append(f.accounts, &pricedAccount{id: fmt.Sprint(len(f.accounts)), rate: math.Pow(1000, (float64(i)+0.5)/float64(n)) / 86400, due: f.now, at: f.now})
	}
}

// poisson draws a number with a mean.
func poisson(random *rand.Rand, mean float64) (n int) {
	if mean > 50 {
		return max(0, int(mean+math.Sqrt(mean)*random.NormFloat64()+0.5))
	}
	for p := random.ExpFloat64(); p < mean; p += random.ExpFloat64() {
		n++
	}
	return n
}

// spend lets time pass, and returns how many calls a second were made.
func (f *priced) spend(d time.Duration) float64 {
	const period = 10 * time.Second
	calls := 0
	for end := f.now.Add(d); f.now.Before(end); f.now = f.now.Add(period) {
		var spent cadence.Spent
		for i, a := range f.accounts {
			for a.due.Before(f.now.Add(period)) {
				at := a.due
				if i%3 == 0 && at.Before(f.frozen) {
					if at = f.frozen; !at.Before(f.now.Add(period)) {
						break
					}
				}
				n := poisson(f.random, a.rate*at.Sub(a.at).Seconds())
				next := cadence.Decide(f.c, cadence.Policy{Budget: cadence.Budget{Learns: true, Price: f.price}}, a.id, a.state, cadence.Outcome{Found: n > 0, Messages: n}, at, f.random.Float64)
				spent = spent.Plus(f.c.Spending(a.state, next.State))
				a.state, a.due, a.at = next.State, next.Due, at
				calls++
			}
		}
		f.price = cadence.Steer(f.price, spent, period, f.budget)
	}
	return float64(calls) / d.Seconds()
}

// keeps waits, and then checks six times over ten minutes each that the budget is kept within a tenth.
func (f *priced) keeps(when string, after time.Duration) {
	f.t.Helper()
	f.spend(after)
	for i := range 6 {
		if got := f.spend(10 * time.Minute); math.Abs(got/f.budget-1) > 0.1 {
			f.t.Errorf("%s, after %v and %d0m: %.2f calls a second, want %v", when, after, i, got, f.budget)
		}
	}
}

func newPriced(t *testing.T, text string, budget float64) *priced {
	return &priced{t: t, c: mustParse(t, text), budget: budget, now: budgetStart, random: rand.New(rand.NewPCG(5, 6))}
}

// The price keeps the budget, and finds back to it after all that changes what accounts want.
func TestSteer(t *testing.T) {
	f := newPriced(t, "adaptive 1s..24h", 3)
	f.add(300)
	f.keeps("at first", 30*time.Minute)
	for _, a := range f.accounts {
		a.rate *= 10
	}
	f.keeps("ten times the messages", 20*time.Minute)
	for _, a := range f.accounts {
		a.rate /= 10
	}
	f.keeps("as before", 40*time.Minute)
	f.add(300)
	f.keeps("twice the accounts", 30*time.Minute)
	f.accounts = f.accounts[:300]
	f.keeps("half of them", 30*time.Minute)
	f.frozen = f.now.Add(time.Minute)
	f.keeps("a replica died", 10*time.Minute)
	f.budget = 12
	f.keeps("four times the budget", 20*time.Minute)
	f.budget = 1
	f.keeps("a twelfth of it", time.Hour)
}

// Where bounds keep accounts from following, the price does not run away: it is soon back when
// they can follow again.
func TestSteerAtTheBounds(t *testing.T) {
	f := newPriced(t, "adaptive 10s..60s", 1) // 300 accounts at 60 s: 5 a second
	f.add(300)
	if got := f.spend(6 * time.Hour); got < 4.9 || got > 6.5 {
		t.Errorf("at the ceilings: %.2f calls a second", got)
	}
	f.budget = 10
	f.keeps("a budget that can be kept", 20*time.Minute)
	f.budget = 100 // at 10 s: 30 a second
	if got := f.spend(6 * time.Hour); got < 28 || got > 34 {
		t.Errorf("at the floors: %.2f calls a second", got)
	}
	f.budget = 10
	f.keeps("a budget that can be kept again", 20*time.Minute)
}

func TestSteerStays(t *testing.T) {
	one := cadence.Spent{Calls: 10, Intervals: 10 * time.Minute}
	for name, got := range map[string]float64{
		"nothing was spent": cadence.Steer(7, cadence.Spent{}, time.Minute, 1),
		"no time passed":    cadence.Steer(7, one, 0, 1),
		"no budget":         cadence.Steer(7, one, time.Minute, 0),
		"as wanted":         cadence.Steer(7, one, 10*time.Second, 1),
		"all at ceilings":   cadence.Steer(7, cadence.Spent{Calls: 100, Intervals: time.Hour, Ceiling: 100}, 10*time.Second, 1),
		"all at floors":     cadence.Steer(7, cadence.Spent{Calls: 1, Intervals: time.Hour, Floor: 1}, 10*time.Second, 1),
	} {
		if got != 7 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := cadence.Steer(7, cadence.Spent{Calls: 1e9, Intervals: time.Hour}, 10*time.Second, 1); got != 14 {
		t.Errorf("one step leads to %v", got)
	}
	if got := cadence.Steer(0, one, 10*time.Second, 1); math.Abs(got-60*0.2231) > 0.01 {
		t.Errorf("the first price of intervals of a minute: %v", got)
	}
}
