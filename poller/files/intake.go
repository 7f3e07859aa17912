package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"strings"
)

// Intake counts, hashes and bounds the bytes that a Store's Put reads from its caller's reader.
type Intake struct {
	ctx  context.Context
	from io.Reader
	want Want
	hash hash.Hash
	size int64

	err   error // of the last Read; it stays
	ended bool
}

// NewIntake returns the intake of a Put.
func NewIntake(ctx context.Context, from io.Reader, want Want) *Intake {
	return &Intake{ctx: ctx, from: from, want: want, hash: sha256.New()}
}

// Read reads the next bytes. At the end it returns io.EOF, or ErrDiffers if the bytes are not those
// that the caller expects. Put may return each of its errors as it is. After an error it returns the same again.
func (i *Intake) Read(p []byte) (int, error) {
	if i.err == nil && i.ctx.Err() != nil {
		i.err = context.Cause(i.ctx)
	}
	if i.err != nil {
		return 0, i.err
	}
	n, err := i.from.Read(p)
	i.hash.Write(p[:n])
	i.size += int64(n)
	switch {
	case i.want.Most > 0 && i.size > i.want.Most:
		i.err = ErrTooLarge
	case err == io.EOF && i.want.SHA256 != "" && !strings.EqualFold(i.want.SHA256, i.SHA256()):
		i.err = ErrDiffers
	case err == io.EOF: // a wrapped EOF means a cut connection
		i.err, i.ended = io.EOF, true
	case err != nil && i.ctx.Err() != nil:
		i.err = context.Cause(i.ctx)
	case err != nil:
		i.err = &ReadError{err}
	}
	return n, i.err
}

// Ended reports whether Read has returned io.EOF. A *ReadError may wrap io.EOF, too.
func (i *Intake) Ended() bool { return i.ended }

// SHA256 returns the hash of the bytes that were read, in hex.
func (i *Intake) SHA256() string { return hex.EncodeToString(i.hash.Sum(nil)) }

// Size returns how many bytes were read.
func (i *Intake) Size() int64 { return i.size }
