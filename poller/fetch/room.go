package fetch

import (
	"context"
	"errors"

	"golang.org/x/sync/semaphore"

	"github.com/rounds-dev/rounds/poller"
)

// How much memory answers may take up in a process at once. What is small has
// room of its own, so that it never waits behind what is large.
const (
	smallBody = 64 << 10 // bytes of an answer that are read without asking for room

	answerRoom   = 128 << 20 // for larger answers, and for what was found in them until it is written
	largeRoom    = 192 << 20 // for taking large answers apart
	smallRoom    = 64 << 20  // … and small ones
	smallReserve = 4 << 20   // what counts as small there
)

// ErrBusy reports a call that found no room in time: too many large answers are
// being read or written. Nobody's account is to blame.
var ErrBusy = errors.New("too many large answers at once")

// room is the memory of a Client.
type room struct {
	answers, large, small *semaphore.Weighted
}

func newRoom() room {
	return room{semaphore.NewWeighted(answerRoom), semaphore.NewWeighted(largeRoom), semaphore.NewWeighted(smallRoom)}
}

// Reserve waits for memory that is needed for so many bytes for a short time, in
// order to take an answer apart. The function frees it. A caller that has
// reserved some must not ask for more meanwhile. The error is an *Error.
func (c *Client) Reserve(ctx context.Context, bytes int64) (func(), error) {
	if bytes <= smallReserve {
		return take(ctx, c.room.small, bytes, smallRoom)
	}
	return take(ctx, c.room.large, bytes, largeRoom)
}

// Hold waits for memory for what a check finds, which is given back when that is
// written; see poller.WhenWritten. The error is an *Error.
func (c *Client) Hold(ctx context.Context, bytes int64) error {
	release, err := take(ctx, c.room.answers, bytes, answerRoom)
	if err != nil {
		return err
	}
	keep(ctx, release)
	return nil
}

// keep has memory given back with the result of ctx' check, or at once if there is
// no such thing.
func keep(ctx context.Context, release func()) {
	if !poller.WhenWritten(ctx, release) {
		release()
	}
}

func take(ctx context.Context, from *semaphore.Weighted, bytes, most int64) (func(), error) {
	bytes = min(max(bytes, 0), most)
	if err := from.Acquire(ctx, bytes); err != nil {
		return nil, busy(err)
	}
	return func() { from.Release(bytes) }, nil
}

// Late is the *Error of work on a whole answer that ended with ctx: it is bounded,
// so that this process has too much to do.
func Late(ctx context.Context) *Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return canceled()
	}
	return &Error{Code: CodeBusy, text: "there was no time left to read the answer", cause: ErrBusy, blame: blameUs}
}

func busy(cause error) *Error {
	if errors.Is(cause, context.Canceled) {
		return canceled()
	}
	return &Error{Code: CodeBusy, text: ErrBusy.Error(), cause: ErrBusy, blame: blameUs}
}
