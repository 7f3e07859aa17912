package delivery

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/span"
)

// Delivery is a message handed to a handler, or an event if its group asks for events.
type Delivery struct {
	circulate.Found
	Group   string // the consumer group that it is delivered to
	Attempt int    // 1 for the first delivery, and one more for each later one
	Handle  string // names the message for as long as it is stored, as in reply_to of a send; empty for an event

	span span.Span // of this delivery; nil: it is not recorded
}

// Handler handles messages of one shard, in the stream's order.
//
// Handle returns one error for each message, or nil if all are handled. A message with a nil error
// is handled, and is then acknowledged. ErrAcknowledged means that the handler has acknowledged the
// message itself. After any other error the message is delivered again. The handler must not handle
// a message behind a failed one of the same account. It returns ErrHeld for it, and the message is
// delivered again behind the failed one.
//
// Handle must return soon after ctx is done. Several goroutines call it at once, never with the
// same account, unless the consumer is Unordered.
type Handler interface {
	Handle(ctx context.Context, batch []Delivery) []error
}

// Preparer is a Handler that needs something, such as a table, before it can handle messages.
// Consumer.Run calls Prepare before it reads, and returns its error. While the error is a Later,
// Run tries again.
type Preparer interface {
	Handler
	Prepare(ctx context.Context) error
}

var (
	// ErrAcknowledged reports that the handler acknowledged the message itself.
	ErrAcknowledged = errors.New("delivery: acknowledged by the handler")
	// ErrHeld reports that an earlier message of the account failed.
	ErrHeld = errors.New("delivery: an earlier message of the account failed")
)

// Each is a Handler made from a function that handles one message.
type Each func(ctx context.Context, d Delivery) error

// Handle calls the function for each message whose account has not failed in this batch. Once
// ctx is done, the remaining messages are for later. A panic fails its message.
func (each Each) Handle(ctx context.Context, batch []Delivery) []error {
	errs := make([]error, len(batch))
	failed := make(map[string]bool)
	for i, d := range batch {
		switch {
		case failed[d.Account]:
			errs[i] = ErrHeld
			continue
		case ctx.Err() != nil:
			errs[i] = &Later{Err: context.Cause(ctx)}
		default:
			errs[i] = each.call(ctx, d)
		}
		if errs[i] != nil && !errors.Is(errs[i], ErrAcknowledged) {
			failed[d.Account] = true
		}
	}
	return errs
}

func (each Each) call(ctx context.Context, d Delivery) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value: value, stack: debug.Stack()}
		}
	}()
	return each(ctx, d)
}

// panicked is the error of a handler that panicked. *sqlonce.PanicError is one as well.
type panicked interface {
	error
	PanicStack() []byte // of the goroutine that panicked
}

// panicError is the panic of a handler.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) PanicStack() []byte { return p.stack }

func (p *panicError) Error() string { return fmt.Sprintf("the handler panicked: %v", p.value) }

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

// Dead is an error with which a handler says that a message can never be handled. The message is a
// dead letter at once, with the reason as its error, however often it was delivered.
type Dead struct {
	Err error // the reason
}

// Error returns the reason.
func (d *Dead) Error() string {
	if d.Err == nil {
		return "given up by the handler, without a reason"
	}
	return d.Err.Error()
}

// Unwrap returns the reason.
func (d *Dead) Unwrap() error { return d.Err }

// laterOf returns the Later in an error. A nil one is none: its message failed.
func laterOf(err error) (*Later, bool) {
	later, ok := errors.AsType[*Later](err)
	return later, ok && later != nil
}
