package delivery

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/rounds-dev/rounds/circulate"
)

// Delivery is a message handed to a handler.
type Delivery struct {
	circulate.Found
	Group   string // the consumer group that it is delivered to
	Attempt int    // 1 for the first delivery, and one more for each later one
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
// same account.
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
