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
	Attempt int    // 1 at first; one more for each delivery before
}

// Handler deals with messages of one shard, which come in the stream's order.
//
// The answer has an error for each message, or is nil where all went well: nil
// for one that is dealt with, and is acknowledged then; ErrAcknowledged for one
// that the handler has acknowledged itself; any other error for one that is to be
// delivered again. A message after one of the same account that failed must not
// be dealt with: it answers ErrHeld, and is delivered again behind it.
//
// Handle must return soon after ctx is done. It is called from several
// goroutines at once, never with the same account.
type Handler interface {
	Handle(ctx context.Context, batch []Delivery) []error
}

var (
	// ErrAcknowledged tells that the handler acknowledged the message itself.
	ErrAcknowledged = errors.New("delivery: acknowledged by the handler")
	// ErrHeld tells that an earlier message of the account failed.
	ErrHeld = errors.New("delivery: an earlier message of the account failed")
)

// Each makes a Handler of a function that deals with one message.
type Each func(ctx context.Context, d Delivery) error

// Handle calls the function for each message whose account has not failed in
// this batch, until ctx is done: the others are for later then. A panic fails the
// message that it happened with.
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

// panicError is what a handler panicked with.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("the handler panicked: %v", p.value) }
