package poller

import (
	"encoding/json"
	"time"
)

// A Holder is a Checker whose third party holds a call until something comes: a long poll.
//
// A held check has time-outs of its own: the hold and ten seconds more. A checker need not judge the
// end of a hold: when a call that was held for a while ends with nothing, by a time-out or a cut
// connection, the pool takes that for an answer without messages.
type Holder interface {
	// Hold returns how long the third party holds a call of an account with this config, as
	// far as is known without asking it. Zero: not at all. The pool holds no call for longer
	// than Config.LongTimeout allows; Request.Hold has what is left.
	Hold(config json.RawMessage) time.Duration
}

// holdMargin is how much longer a held call may take than the third party holds it. With less,
// the client's time-out and the third party's answer would race.
const holdMargin = 10 * time.Second

// LeastLongTimeout is the least Config.LongTimeout of a pool whose kinds hold calls. It lets a call
// be held for a second, the least that third parties can be told.
const LeastLongTimeout = 3 * time.Second

// holdOf asks a checker how long an account's calls are held. It is zero if the checker panics.
func holdOf(c Checker, config json.RawMessage) (hold time.Duration) {
	holder, ok := c.(Holder)
	if !ok {
		return 0
	}
	defer func() {
		if recover() != nil {
			hold = 0
		}
	}()
	return max(0, holder.Hold(orEmpty(config)))
}

// holdMargin returns how much longer than its hold a call may take. A short LongTimeout has a
// short margin, because it must leave time for the hold.
func (c Config) holdMargin() time.Duration { return min(holdMargin, c.LongTimeout/6) }

// longestHold returns the longest that a call may be held, so that with the margin its claim does
// not become stale meanwhile.
func (c Config) longestHold() time.Duration { return c.LongTimeout/2 - c.holdMargin() }

// holds returns how long the flight's next call may be held, and how long it may take in all.
func (f *flight) holds() (hold, timeout time.Duration) {
	config := &f.flights.config
	hold = f.record.hold
	if told := time.Duration(f.record.told.Load()); hold > 0 && told > 0 {
		hold = told
	}
	if hold = min(hold, config.longestHold()); hold == 0 {
		return 0, config.CheckTimeout
	}
	return hold, hold + config.holdMargin()
}
