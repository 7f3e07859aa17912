package cadence

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// State is what an account's earlier checks left behind. The zero value is the state of
// an account that was never checked.
type State struct {
	Failures     int           // in a row
	Refusals     int           // refusals of the credential since the last success
	FirstRefusal time.Time     // when the first of them was
	Interval     time.Duration // the current interval of an adaptive cadence; 0: none yet
	Budgeted     bool          // a budget decided the interval
	Rate         Rate          // that a budget goes by
}

// Encode returns the state as a short text, empty for the zero state. It leaves out
// Failures, which the ring stores itself. Times are cut to milliseconds.
func (s State) Encode() string {
	var words []string
	if s.Interval != 0 {
		words = append(words, "i"+strconv.FormatInt(s.Interval.Milliseconds(), 10))
	}
	if s.Budgeted {
		words = append(words, "g")
	}
	if s.Rate.known() {
		words = append(words, s.Rate.encode())
	}
	if s.Refusals != 0 {
		words = append(words, fmt.Sprintf("r%d@%d", s.Refusals, s.FirstRefusal.UnixMilli()))
	}
	return strings.Join(words, " ")
}

// ParseState reads what Encode wrote. It ignores words that this version does not know. For a
// text that cannot be read it returns the zero state and an error. The account goes on with
// the zero state; the error is only for a report.
func ParseState(text string) (State, error) {
	var s State
	for _, word := range strings.Fields(text) {
		ok := true
		switch rest := word[1:]; word[0] {
		case 'i':
			var ms int64
			ms, ok = parseNumber(rest, MaxInterval.Milliseconds())
			s.Interval = time.Duration(ms) * time.Millisecond
		case 'g':
			s.Budgeted = rest == ""
		case 'm':
			s.Rate, ok = parseRate(rest)
		case 'r':
			count, since, _ := strings.Cut(rest, "@")
			var n, ms int64
			if n, ok = parseNumber(count, maxFailures); ok {
				ms, ok = parseNumber(since, maxUnixMilli)
			}
			s.Refusals, s.FirstRefusal = int(n), time.UnixMilli(ms)
		}
		if !ok {
			return State{}, fmt.Errorf("cadence: %q is not a state", text)
		}
	}
	return s, nil
}

const (
	maxFailures  = 1 << 31
	maxUnixMilli = 1 << 53
)

// parseNumber reads a whole number from 1 to most.
func parseNumber(text string, most int64) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n > 0 && n <= most
}
