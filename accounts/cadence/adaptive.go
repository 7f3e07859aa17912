package cadence

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// adaptiveLeast is the lower bound of "adaptive" without bounds.
	adaptiveLeast = 10 * time.Second
	// adaptiveMost is the upper bound of "adaptive" without bounds.
	adaptiveMost = 15 * time.Minute

	// adaptiveStart times the lower bound is the interval of an account that was
	// never checked.
	adaptiveStart = 4
	// budgetSlots is how many slots an interval has that a budget decided.
	budgetSlots = 8
	// adaptiveGrowth is 2^(h/(1-h)) for h = 0.2, the share of checks that should find
	// something: at that share, halvings and growths cancel out.
	adaptiveGrowth = 1.189207115002721
)

// adaptive is an interval within bounds that depends on what checks find.
type adaptive struct{ least, most time.Duration }

func parseAdaptive(rest string) (form, error) {
	if rest == "" {
		return adaptive{adaptiveLeast, adaptiveMost}, nil
	}
	low, high, ok := strings.Cut(rest, "..")
	if !ok {
		return nil, fmt.Errorf(`%q is not two bounds, as in "adaptive 10s..15m"`, rest)
	}
	least, err := parseDuration(strings.TrimSpace(low))
	if err != nil {
		return nil, err
	}
	most, err := parseDuration(strings.TrimSpace(high))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(validateInterval(least, "at least"), validateInterval(most, "at least")); err != nil {
		return nil, err
	}
	if least > most {
		return nil, fmt.Errorf("the lower bound, %v, is above the upper one, %v", least, most)
	}
	return adaptive{least, most}, nil
}

func (a adaptive) String() string { return "adaptive " + brief(a.least) + ".." + brief(a.most) }

func (a adaptive) rule() string { return RuleAdaptive }

func (a adaptive) longest() time.Duration { return a.most }

// current returns the interval that earlier checks left, within the current bounds.
func (a adaptive) current(s State) time.Duration {
	if s.Interval == 0 {
		return min(a.most, adaptiveStart*a.least)
	}
	return min(a.most, max(a.least, s.Interval))
}

// follow returns the interval after a check that found something, or nothing.
func (a adaptive) follow(s State, found bool) time.Duration {
	if found {
		return max(a.least, (a.current(s) / 2).Truncate(time.Millisecond))
	}
	grown := time.Duration(adaptiveGrowth * float64(a.current(s)))
	return min(a.most, grown.Truncate(time.Millisecond))
}

// after returns the last slot within the interval, but no time before the lower bound has
// passed. Slots are half an interval apart, or an eighth if a budget decided the interval: that
// changes with nearly each check, and an uneven wait costs calls. So an account whose interval does not change
// stays at its slot, and accounts that an outage brought together spread again.
func (a adaptive) after(id string, now time.Time, s State) (time.Time, bool) {
	every := a.current(s).Milliseconds()
	apart := every / 2
	if s.Budgeted {
		apart = every / budgetSlots
	}
	slot := time.UnixMilli(slotUpTo(now.UnixMilli()+every, id, apart))
	if first := roundUp(now.Add(a.least)); slot.Before(first) {
		return first, true
	}
	return slot, true
}
