package fetch

import (
	"context"
	"errors"

	"golang.org/x/sync/semaphore"

	"github.com/rounds-dev/rounds/poller"
)

// These limits bound the memory of all answers in a process. Small answers have their
// own room, so that they never wait for large ones.
const (
	smallBody = 64 << 10 // bytes of an answer that are read without reserved room

	answerRoom   = 128 << 20 // for larger answers, and for messages found in them until these are written
	largeRoom    = 192 << 20 // for parsing large answers
	smallRoom    = 64 << 20  // … and small ones
	smallReserve = 4 << 20   // the largest answer that counts as small
)

// ErrBusy reports a call that found no room in time: too many large answers are
// being read or written. No account is to blame.
var ErrBusy = errors.New("too many large answers at once")

// room is the memory of a Client.
type room struct {
	answers, large, small *semaphore.Weighted
}

func newRoom() room {
	return room{semaphore.NewWeighted(answerRoom), semaphore.NewWeighted(largeRoom), semaphore.NewWeighted(smallRoom)}
}

// Reserve waits for the given number of bytes of memory, which the caller needs for a
// short time to parse an answer. The returned function frees it. A caller must not
// reserve more before it has freed what it has. The error is an *Error.
func (c *Client) Reserve(ctx context.Context, bytes int64) (func(), error) {
	if bytes <= smallReserve {
		return take(ctx, c.room.small, bytes, smallRoom)
	}
	return take(ctx, c.room.large, bytes, largeRoom)
}

// Hold waits for the given number of bytes of memory for the messages that a check finds. The
// memory is freed when the messages are written; see poller.WhenWritten. The error is an *Error.
func (c *Client) Hold(ctx context.Context, bytes int64) error {
	release, err := take(ctx, c.room.answers, bytes, answerRoom)
	if err != nil {
		return err
	}
	freeWhenWritten(ctx, release)
	return nil
}

// freeWhenWritten frees memory when the result of ctx' check is written, or at once if ctx has no check.
func freeWhenWritten(ctx context.Context, release func()) {
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

// Late returns the *Error for a whole answer whose processing ctx ended. The work is bounded, so
// this process has too much to do.
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
