package delivery

import (
	"fmt"
	"time"
)

// Later is an error by which a handler asks for a message to be delivered again
// no sooner than After from now, because it cannot be dealt with yet: where it is
// to go is away, throttles, or is disabled. It does not count as a failed
// delivery toward the dead letter, however often it comes.
//
// After is a lower bound by the clock of the process that got it. A consumer that
// takes the message over from a dead one need not know of it: the handler will
// say so again.
type Later struct {
	After time.Duration // 0 or less: at once, behind what waits already
	Err   error         // why; never nil
}

// Error says why, and after how long.
func (l *Later) Error() string {
	return fmt.Sprintf("%v; again in %v", l.Err, max(0, l.After).Round(time.Millisecond))
}

// Unwrap returns the reason.
func (l *Later) Unwrap() error { return l.Err }
