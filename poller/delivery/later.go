package delivery

import (
	"errors"
	"fmt"
	"time"
)

// Later is an error with which a handler asks for a message to be delivered again, after After at
// the earliest. The message cannot be handled yet: its target is away, throttles, or is disabled. A
// Later never counts as a failed delivery.
//
// After is a lower bound by the clock of this process. A consumer that takes over the message from
// a dead one does not know it. Its handler will ask again.
type Later struct {
	After time.Duration // 0 or less: at once, behind waiting messages
	Err   error         // the reason; the log and `rounds groups list` show it

	// Target names what is away, such as a database, if all messages of the shard need it. The
	// consumer then reads no more of such shards, and delivers one waiting message again, after After
	// at the earliest. If that message is handled, or fails by itself, all go on. Empty: only the
	// message's account waits.
	Target string
}

// Error returns the reason and the time.
func (l *Later) Error() string {
	if l == nil {
		return "a nil *delivery.Later is the error: return a nil error, declared as error, for a message that is handled"
	}
	return fmt.Sprintf("%v; again in %v", l.reason(), max(0, l.After).Round(time.Millisecond))
}

// Unwrap returns the reason.
func (l *Later) Unwrap() error {
	if l == nil {
		return nil
	}
	return l.Err
}

// reason returns the reason, and an error that says so if the handler gave none.
func (l *Later) reason() error {
	if l.Err == nil {
		return errors.New("put off by the handler, without a reason")
	}
	return l.Err
}

// laterOf returns the Later in an error. A nil one is none: its message failed.
func laterOf(err error) (*Later, bool) {
	later, ok := errors.AsType[*Later](err)
	return later, ok && later != nil
}
