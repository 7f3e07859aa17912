package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/rounds-dev/rounds/poller/files"
)

// maxCuts is how often in a row a connection may break before its first byte until a read fails.
const maxCuts = 3

// Open implements files.Store.
func (s *Store) Open(ctx context.Context, name string) (files.Reader, error) {
	if _, ok := files.HashOf(name); !ok {
		return nil, files.ErrNotFound
	}
	o, err := s.stat(ctx, name)
	if err != nil {
		return nil, err
	}
	return &reader{store: s, ctx: ctx, object: o}, nil
}

// reader reads an object. Its connection lasts from a read to the next seek.
type reader struct {
	store  *Store
	ctx    context.Context
	object files.Object
	at     int64
	body   io.ReadCloser // the bytes from at on; nil: not requested yet
}

// Object implements files.Reader.
func (r *reader) Object() files.Object { return r.object }

// Read implements files.Reader. It goes on after a connection that broke.
func (r *reader) Read(p []byte) (int, error) {
	for cuts := 0; ; cuts++ {
		if r.at >= r.object.Size {
			return 0, io.EOF
		}
		if len(p) == 0 {
			return 0, nil
		}
		if r.body == nil {
			body, err := r.store.get(r.ctx, r.object.Name, r.at, r.object.Size)
			if err != nil {
				return 0, err
			}
			r.body = body
		}
		n, err := r.body.Read(p)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // the object's end, which is checked above, or a cut connection
		}
		n = int(min(int64(n), r.object.Size-r.at))
		r.at += int64(n)
		if err != nil {
			_ = r.Close() // the next read asks for the rest
		}
		if n > 0 {
			return n, nil
		}
		if err != nil && (r.ctx.Err() != nil || cuts == maxCuts) {
			return 0, r.store.failed("read a file", err)
		}
	}
}

// ReadAt implements files.Reader, by a request of its own.
func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("s3: negative offset")
	}
	// ReadAt must not move this reader's place.
	other := &reader{store: r.store, ctx: r.ctx, object: r.object, at: off}
	other.object.Size = min(r.object.Size, off+int64(len(p)))
	defer func() { _ = other.Close() }() // it is read
	n, err := io.ReadFull(other, p)
	if errors.Is(err, io.ErrUnexpectedEOF) && off+int64(n) >= r.object.Size {
		err = io.EOF
	}
	return n, err
}

// Seek implements files.Reader. It makes no request.
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.object.Size
	}
	if offset < 0 {
		return r.at, errors.New("s3: negative offset")
	}
	if offset != r.at {
		_ = r.Close() // it is at another place
		r.at = offset
	}
	return offset, nil
}

// Close implements files.Reader.
func (r *reader) Close() error {
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}

// get requests the bytes of an object from a place to its end.
func (s *Store) get(ctx context.Context, name string, from, size int64) (io.ReadCloser, error) {
	var options minio.GetObjectOptions
	if err := options.SetRange(from, size-1); err != nil {
		return nil, s.failed("read a file", err)
	}
	var body io.ReadCloser
	err := s.attempt(ctx, func() error {
		got, _, header, err := s.core.GetObject(ctx, s.bucket, s.prefix+name, options)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(header.Get("Content-Range"), fmt.Sprintf("bytes %d-", from)) {
			_ = got.Close() // it is not what was asked for
			return fmt.Errorf("the service sent the range %.80q and not the bytes from %d on", header.Get("Content-Range"), from)
		}
		body = got
		return nil
	})
	switch {
	case answerOf(err).Code == minio.NoSuchKey:
		return nil, files.ErrNotFound
	case err != nil:
		return nil, s.failed("read a file", err)
	}
	return body, nil
}
