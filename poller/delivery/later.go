package delivery

import (
	"fmt"
	"time"
)

// Later is an error with which a handler asks for a message to be delivered again after After at
// the earliest. The message cannot be handled yet: its target is away, throttles, or is disabled.
// It does not count as a failed delivery, however often it comes.
//
// After is a lower bound by the clock of this process. A consumer that takes over the message
// from a dead one does not know it: the handler will ask again.
type Later struct {
	After time.Duration // 0 or less: at once, behind messages that wait already
	Err   error         // the reason; never nil

	// Target names what is away, such as a database, if it is what all messages of the shard
	// need. The consumer then reads no more of such shards, and delivers one waiting message
	// again, after After at the earliest: if that is handled, or fails by itself, all go on.
	// Empty: only the message's account waits.
	Target string
}

// Error returns the reason and the time.
func (l *Later) Error() string {
	return fmt.Sprintf("%v; again in %v", l.Err, max(0, l.After).Round(time.Millisecond))
}

// Unwrap returns the reason.
func (l *Later) Unwrap() error { return l.Err }
