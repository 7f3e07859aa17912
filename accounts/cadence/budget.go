package cadence

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Budget is what the adaptive accounts of all replicas share. The zero value is no budget: each
// account follows what its own checks find.
type Budget struct {
	// Learns says that there is a budget, so that rates are learned.
	Learns bool
	// Price is the budget's price of a call, in seconds: messages a second, times the square of
	// the interval in seconds. 0 means that it is unknown, and accounts go on as without a budget.
	Price float64
}

const (
	// The bounds of a Price.
	priceMin = 1e-6
	priceMax = 1e15

	// ratePrior is the part of a message that every account is taken to have found. An account
	// that finds nothing has a rate that falls with the time in which it found nothing.
	ratePrior = 0.5
	// rateMemory is how many messages, as many as are expected, a rate is learned from. What is
	// older is forgotten. So a busy account is known by its last minutes, and a quiet one by its
	// last weeks. With fewer, chance decides. With more, a rate follows its changes too late.
	rateMemory = 10
	// adaptiveHits is -ln(1-h) for h = 0.2: an account whose own checks decide settles where so
	// many messages are expected in an interval.
	adaptiveHits = 0.22314355131420976

	maxMessages = 1 << 40 // that a rate is learned from
)

// Rate is what an account's checks found in how much time, of which older checks count less.
// The zero value knows nothing.
type Rate struct {
	Messages float64       // without the prior
	Over     time.Duration // in which they came
	Until    time.Time     // the time of the last check that counts
}

// encode returns the rate as a word of a state: messages, how long in ms, and until when in unix ms.
func (r Rate) encode() string {
	return fmt.Sprintf("m%.2f@%d@%d", r.Messages, r.Over.Milliseconds(), r.Until.UnixMilli())
}

func parseRate(text string) (Rate, bool) {
	words := strings.Split(text, "@")
	if len(words) != 3 {
		return Rate{}, false
	}
	messages, err := strconv.ParseFloat(words[0], 64)
	over, ok := parseNumber(words[1], maxOver.Milliseconds())
	until, timed := parseNumber(words[2], maxUnixMilli)
	if err != nil || !ok || !timed || !(messages >= 0 && messages <= maxMessages) {
		return Rate{}, false
	}
	return Rate{math.Round(100*messages) / 100, time.Duration(over) * time.Millisecond, time.UnixMilli(until)}, true
}

// known reports whether there is a rate.
func (r Rate) known() bool { return !r.Until.IsZero() }

// perSecond returns the expected messages in a second.
func (r Rate) perSecond() float64 { return (r.Messages + ratePrior) / max(r.Over.Seconds(), 1e-3) }

// PerDay returns the messages that are expected in a day; 0 if that is unknown.
func (r Rate) PerDay() float64 {
	if !r.known() {
		return 0
	}
	return 86400 * r.perSecond()
}

// after returns the rate after a check that found a number of messages.
func (r Rate) after(messages int, now time.Time) Rate {
	passed := max(0, now.Sub(r.Until)) // the clock may have stepped back
	kept := math.Exp(-r.perSecond() * passed.Seconds() / rateMemory)
	over := kept*float64(r.Over) + float64(passed)
	return Rate{
		Messages: min(maxMessages, kept*r.Messages+float64(messages)),
		Over:     time.Duration(bound(over, float64(time.Millisecond), float64(maxOver))).Truncate(time.Millisecond),
		Until:    now.Truncate(time.Millisecond),
	}
}

// maxOver is the longest time that a rate is learned from.
const maxOver = 100 * MaxInterval

// learnRate returns the rate after a check that succeeded. The first check only begins it, because
// nobody knows in how much time its messages came: then the account has the rate at which it would
// settle at its interval if its own checks decided.
func (a adaptive) learnRate(s State, o Outcome, now time.Time) Rate {
	switch {
	case s.Rate.known():
		return s.Rate.after(o.Messages, now)
	case o.More:
		return Rate{} // the first messages are not all fetched
	}
	over := ratePrior / adaptiveHits * float64(a.current(s))
	return Rate{Over: time.Duration(over).Truncate(time.Millisecond), Until: now.Truncate(time.Millisecond)}
}

// alone returns the interval at which the account's own checks would settle, given its rate.
func (a adaptive) alone(r Rate) time.Duration {
	return a.within(adaptiveHits / r.perSecond())
}

// within returns an interval of seconds, within the bounds.
func (a adaptive) within(seconds float64) time.Duration {
	if seconds >= a.most.Seconds() { // it may be too large for a Duration
		return a.most
	}
	return max(a.least, time.Duration(seconds*float64(time.Second)).Truncate(time.Millisecond))
}

// spend returns the interval at which one more call ends as much waiting as a call of any other
// account: rate × interval² is the price. It returns 0 if the budget decides nothing.
func (a adaptive) spend(r Rate, b Budget) time.Duration {
	if !b.Learns || !(b.Price > 0) || !r.known() {
		return 0
	}
	return a.within(math.Sqrt(b.Price / r.perSecond()))
}

// Alone returns the interval that an adaptive account would have without a budget. It returns 0
// unless a budget decided the interval.
func (c Cadence) Alone(s State) time.Duration {
	a, ok := c.get().(adaptive)
	if !ok || !s.Budgeted || !s.Rate.known() {
		return 0
	}
	return a.alone(s.Rate)
}

// Spending returns what a check spends that found a state and leaves another. It is nothing if the
// cadence is not adaptive, and for an account's first check, which came at no interval.
func (c Cadence) Spending(before, s State) Spent {
	a, ok := c.get().(adaptive)
	if !ok || !before.Rate.known() {
		return Spent{}
	}
	spent := Spent{Calls: 1, Intervals: a.current(s)}
	if s.Budgeted {
		spent.Budgeted = 1
	}
	if spent.Intervals == a.least {
		spent.Floor = 1
	}
	if spent.Intervals == a.most {
		spent.Ceiling = 1
	}
	if alone := c.Alone(s); alone > 0 && a.current(s) > alone {
		spent.Longer = 1
	}
	return spent
}
