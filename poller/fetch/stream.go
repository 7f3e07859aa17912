package fetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/textproto"
	"sync"

	"github.com/rounds-dev/rounds/poller"
)

// Stream is a body that is read while it is sent. One Stream is for one call.
type Stream struct {
	Length int64
	// Open returns the body, from its first byte on. It is called again if the call is sent again,
	// over another connection, because no byte of it was read.
	Open func(ctx context.Context) (io.ReadCloser, error)

	mu     sync.Mutex
	failed error
}

// Err returns why the body could not be read, or nil. The third party then has a body that breaks
// off before its length.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

func (s *Stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

// body returns the body of a request.
func (s *Stream) body(ctx context.Context) io.ReadCloser { return &streamed{ctx: ctx, stream: s} }

// streamed is a body that is opened by its first read, so that a call that cannot be made opens nothing.
type streamed struct {
	ctx    context.Context
	stream *Stream

	mu     sync.Mutex // a transport may close a body while it reads it
	from   io.ReadCloser
	read   int64
	closed bool
}

var errClosed = errors.New("fetch: the body is closed")

// Read implements io.Reader.
func (s *streamed) Read(p []byte) (int, error) {
	from, err := s.open()
	if err != nil {
		return 0, err
	}
	n, err := from.Read(p)
	s.read += int64(n)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF) && s.read == s.stream.Length:
		return n, io.EOF
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
		fallthrough
	default:
		s.mu.Lock()
		closed := s.closed
		s.mu.Unlock()
		if !closed && s.ctx.Err() == nil {
			s.stream.fail(err)
		}
	}
	return n, err
}

func (s *streamed) open() (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.from == nil {
		from, err := s.stream.Open(s.ctx)
		if err != nil {
			s.stream.fail(err)
			return nil, err
		}
		s.from = from
	}
	return s.from, nil
}

// Close implements io.Closer.
func (s *streamed) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.from == nil {
		return nil
	}
	return s.from.Close()
}

// FormField is a field of a form.
type FormField struct{ Name, Value string }

// FileForm returns a form, multipart/form-data, whose last field is a file, and the form's Content-Type.
// name is the file's there.
func FileForm(fields []FormField, field, name string, f *poller.SendFile) (body *Stream, contentType string, err error) {
	var around bytes.Buffer
	form := multipart.NewWriter(&around)
	for _, one := range fields {
		if err := form.WriteField(one.Name, one.Value); err != nil {
			return nil, "", err
		}
	}
	header := make(textproto.MIMEHeader)
	header.Set("Content-Disposition", multipart.FileContentDisposition(field, name))
	header.Set("Content-Type", "application/octet-stream")
	if f.Type != "" {
		header.Set("Content-Type", f.Type)
	}
	if _, err := form.CreatePart(header); err != nil {
		return nil, "", err
	}
	before := around.Len()
	if err := form.Close(); err != nil {
		return nil, "", err
	}
	head, tail := around.Bytes()[:before], around.Bytes()[before:]
	return &Stream{
		Length: int64(len(head)) + f.Size + int64(len(tail)),
		Open: func(ctx context.Context) (io.ReadCloser, error) {
			from, err := f.Whole(ctx)
			if err != nil {
				return nil, err
			}
			return struct {
				io.Reader
				io.Closer
			}{io.MultiReader(bytes.NewReader(head), from, bytes.NewReader(tail)), from}, nil
		},
	}, form.FormDataContentType(), nil
}
