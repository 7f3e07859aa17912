package poller

import (
	"context"
	"errors"
	"io"
)

// SendFile is the file of a send.
type SendFile struct {
	File // its size and SHA-256 are known, its name and type only if somebody named them

	// Open returns the bytes, from the first one on, until ctx is done. It may be called again, as
	// for another try of a call of which no byte left. Its errors, and those of the reader, are
	// *CheckError. Senders call Whole.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// Whole is Open for a reader that fails unless the file has exactly Size bytes. What a sender writes
// behind them, such as the end of a form, then never makes a third party take a part for the whole.
func (f *SendFile) Whole(ctx context.Context) (io.ReadCloser, error) {
	from, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &whole{ReadCloser: from, left: f.Size}, nil
}

type whole struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (w *whole) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.left -= int64(n)
	if w.left < 0 || w.left > 0 && errors.Is(err, io.EOF) {
		return n, &CheckError{Kind: Transient, Scope: ScopeChecker, Code: "file_size", Message: "the store of files has another file than the send names"}
	}
	return n, err
}

// SendFiles has the files of sends. It is safe for concurrent use.
type SendFiles interface {
	// FileOf returns the file of a send. The error is ErrNoSendFile if there is none any more.
	FileOf(ctx context.Context, account, send string) (*SendFile, error)
}

// ErrNoSendFile reports that a send's file is gone.
var ErrNoSendFile = errors.New("the send's file is gone")

// Beforehand returns the error of a send because of err, the error of a call before the send's own,
// such as the upload of its file. The third party does not have the send then, whatever became of that
// call.
func Beforehand(err error) error {
	known, ok := errors.AsType[*SendError](err)
	switch {
	case !ok:
		return Unsent(err)
	case known == nil: // which is the sender's fault, and not an error
		return err
	case known.Final:
		return known
	}
	unsent := *known
	unsent.Unsent = true
	return &unsent
}
