// Package budget is the budget of checks that all accounts with an adaptive cadence share. The
// monitor on duty measures what the replicas spend, and steers one price by it; see
// cadence.Budget. Replicas read the price, and each account's interval follows from it and from
// the account's own rate.
//
// The budget is an aim, not a limit: after a change of load the replicas spend more or less for a
// few intervals, and accounts at their bounds follow no price. If the price is unknown, because
// no monitor has posted one for a minute, accounts go on as without a budget, and go on learning.
//
// A replica of a version without budgets goes on by the older rule, from the interval that the
// budget left, and is not measured.
package budget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

// The bounds of a budget, in checks a second.
const (
	Least = 1.0 / 3600
	Most  = 1e9
)

// Parse reads a budget, N/s, N/m or N/h, as checks a second. An empty text is no budget: 0.
func Parse(text string) (perSecond float64, err error) {
	if text == "" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	seconds, ok := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	if err != nil || !ok {
		return 0, errors.New("must be a number of checks by the second, minute or hour, such as 5000/s")
	}
	if n /= seconds; !(n >= Least && n <= Most) {
		return 0, errors.New("must be 1/h to 1000000000/s")
	}
	return n, nil
}

// Text returns a budget as Parse reads it, rounded to three digits.
func Text(perSecond float64) string {
	for _, unit := range []struct {
		name    string
		seconds float64
	}{{"s", 1}, {"m", 60}} {
		if n := perSecond * unit.seconds; n >= 1 {
			return digits(n) + "/" + unit.name
		}
	}
	return digits(perSecond*3600) + "/h"
}

// digits returns a number with three digits, or with all before the point.
func digits(n float64) string {
	if n >= 100 {
		return strconv.FormatFloat(math.Round(n), 'f', -1, 64)
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}

// Lives is how long a posted state counts.
const Lives = time.Minute

// Standing is the state of the budget, as the monitor on duty last posted it.
type Standing struct {
	At       time.Time `json:"at" doc:"When the monitor on duty stated it, by Redis' clock."`
	Budget   float64   `json:"checks_per_second" doc:"The budget."`
	Spent    float64   `json:"spent_per_second" doc:"The checks of adaptive accounts on all replicas, over about the last minute."`
	Price    float64   `json:"price_seconds" doc:"An adaptive account's messages a second, times the square of its interval in seconds, is this price, unless its cadence bounds the interval. 0: not known yet."`
	Interval float64   `json:"interval_seconds" doc:"The mean interval of these checks."`
	Longer   float64   `json:"longer" doc:"The part of these checks after which the interval is longer than the account's own checks would make it."`
	Floor    float64   `json:"at_floor" doc:"The part after which the interval is the shortest that the cadence allows."`
	Ceiling  float64   `json:"at_ceiling" doc:"The part after which the interval is the longest that the cadence allows."`
}

// What a budget is, besides being kept.
const (
	Kept     = "kept"
	TooSmall = "too_small" // nearly all accounts are at their longest intervals, and spend more
	Unused   = "unused"    // nearly all accounts are at their shortest intervals, and spend less
)

const (
	atBound  = 0.95 // the part of checks that is nearly all
	exceeded = 1.1  // of the budget
)

// Verdict says whether the budget is kept, or why it cannot be.
func (s Standing) Verdict() string {
	switch {
	case s.Ceiling >= atBound && s.Spent > exceeded*s.Budget:
		return TooSmall
	case s.Floor >= atBound && s.Spent*exceeded < s.Budget:
		return Unused
	}
	return Kept
}

// Short reports whether the budget is too small.
func (s Standing) Short() bool { return s.Verdict() == TooSmall }

// Firm returns what is spent and may be spent if more adaptive accounts spend more, because those
// that there are do not give way: they are at their shortest intervals, or at their longest. It
// returns zeros if the others give way: then the budget leaves room, for longer intervals of all.
func (s Standing) Firm() (spent, budget float64) {
	if s.Verdict() == Kept {
		return 0, 0
	}
	return s.Spent, s.Budget
}

// Texts returns the budget and what is spent as Text does.
func (s Standing) Texts() (budget, spent string) { return Text(s.Budget), Text(s.Spent) }

// known reports whether the price may be used.
func (s Standing) known() bool { return s.Price > 0 && !math.IsInf(s.Price, 0) }

// name is the state's name among a namespace's notices.
const name = "adaptive_budget"

// Post posts the state, for all replicas to read. The latest caller wins.
func Post(ctx context.Context, ring *circulate.Ring, s Standing) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("post budget: %w", err)
	}
	_, err = document.Of(ring).Notices().Post(ctx, name, text)
	return err
}

// Last returns the state that was last posted, and how long ago that was. It returns false if there
// is none, or one that cannot be read. An age is negative after Redis' clock went back.
func Last(ctx context.Context, ring *circulate.Ring) (s Standing, age time.Duration, ok bool, err error) {
	found, now, err := document.Of(ring).Notices().Read(ctx, name)
	if err != nil {
		return Standing{}, 0, false, fmt.Errorf("last budget: %w", err)
	}
	notice, ok := found[name]
	if !ok || json.Unmarshal(notice.Text, &s) != nil {
		return Standing{}, 0, false, nil
	}
	s.At = notice.Posted.UTC()
	return s, now.Sub(notice.Posted), true, nil
}

// Current is Last without a state that no longer counts.
func Current(ctx context.Context, ring *circulate.Ring) (s Standing, ok bool, err error) {
	s, age, ok, err := Last(ctx, ring)
	return s, ok && age.Abs() <= Lives, err
}

// Of returns what accounts go by, given a state that counts.
func (s Standing) Of() cadence.Budget {
	b := cadence.Budget{Learns: true}
	if s.known() {
		b.Price = s.Price
	}
	return b
}
