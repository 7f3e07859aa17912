package fetch

import (
	"bufio"
	"bytes"
	"container/list"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// line is a connection for one call at a time.
type line struct {
	lines  *lines
	origin string
	conn   net.Conn

	// While it is idle:
	place  *list.Element // nil: it is not idle
	expire *time.Timer   // nil: it never was
	until  time.Time

	// Of the call under way:
	method string
	held   bool        // the third party may hold it
	stop   func() bool // detaches it from the call's context; false: the line was cut
	first  [1]byte     // the answer's first byte, before which nothing else is read
	limit  io.LimitedReader
	reader *bufio.Reader // from the first byte of the answer on
	ended  bool          // the answer was read to its end, and another may follow
}

var (
	errHeader = errors.New("the answer's header is too large")

	lineReaders = sync.Pool{New: func() any { return bufio.NewReader(nil) }}
	lineWriters = sync.Pool{New: func() any { return bufio.NewWriter(nil) }}
)

// cut ends all reads and writes.
func (ln *line) cut() { _ = ln.conn.SetDeadline(aLongTimeAgo()) }

// aLongTimeAgo returns a deadline that has passed.
func aLongTimeAgo() time.Time { return time.Unix(1, 0) }

// open reports whether an idle line seems usable: the host has neither closed it nor sent anything
// unasked.
func (ln *line) open() bool {
	if silent(ln.conn) {
		return true
	}
	// The host may have sent a TLS session ticket, which is no answer.
	if ln.conn.SetReadDeadline(time.Now().Add(lineLooks)) != nil {
		return false
	}
	n, err := ln.conn.Read(ln.first[:])
	var nothing net.Error
	return n == 0 && errors.As(err, &nothing) && nothing.Timeout() && ln.conn.SetReadDeadline(time.Time{}) == nil
}

// begin begins a call, which ends with the context, and sends its request.
func (ln *line) begin(ctx context.Context, request *http.Request) error {
	ln.method = request.Method
	ln.stop = context.AfterFunc(ctx, ln.cut)
	return ln.write(request)
}

// write sends a request.
func (ln *line) write(request *http.Request) error {
	w := lineWriters.Get().(*bufio.Writer)
	w.Reset(ln.conn)
	defer func() {
		w.Reset(nil)
		lineWriters.Put(w)
	}()
	if err := request.Write(w); err != nil {
		return err
	}
	return w.Flush()
}

// answer waits for the answer and reads its header. It skips interim answers, such as 103 Early Hints.
func (ln *line) answer(ctx context.Context) (*http.Response, error) {
	if _, err := ln.conn.Read(ln.first[:]); err != nil {
		return nil, err
	}
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotFirstResponseByte != nil {
		trace.GotFirstResponseByte()
	}
	ln.limit = io.LimitedReader{R: io.MultiReader(bytes.NewReader(ln.first[:]), ln.conn), N: lineHeader}
	ln.reader = lineReaders.Get().(*bufio.Reader)
	ln.reader.Reset(&ln.limit)
	for {
		answer, err := http.ReadResponse(ln.reader, &http.Request{Method: ln.method})
		switch {
		case err != nil && ln.limit.N <= 0:
			return nil, errHeader
		case err != nil:
			return nil, err
		case answer.StatusCode >= 200 || answer.StatusCode == http.StatusSwitchingProtocols:
			ln.limit.N = math.MaxInt64
			last := answer.Close || answer.StatusCode == http.StatusSwitchingProtocols
			if answer.Body == http.NoBody {
				ln.ended = !last
				return answer, nil
			}
			answer.Body = &lineBody{ReadCloser: answer.Body, line: ln, last: last}
			return answer, nil
		}
	}
}

// end ends the call. The line becomes idle if another call may use it.
func (ln *line) end() {
	whole := ln.stop() && ln.ended && ln.reader.Buffered() == 0
	if ln.reader != nil {
		ln.reader.Reset(nil)
		lineReaders.Put(ln.reader)
	}
	ln.method, ln.stop, ln.limit, ln.reader, ln.ended = "", nil, io.LimitedReader{}, nil, false
	if whole {
		ln.lines.put(ln)
		return
	}
	_ = ln.conn.Close()
}

// lineBody is the body of an answer. It notes that it was read to its end.
type lineBody struct {
	io.ReadCloser
	line *line // nil: it was lent, and is closed
	last bool  // no other answer may follow
	lent bool  // closing the body ends the call
}

// Read implements io.Reader.
func (b *lineBody) Read(p []byte) (int, error) {
	if b.line == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && !b.last {
		b.line.ended = true
	}
	return n, err
}

// Close implements io.Closer.
func (b *lineBody) Close() error {
	if !b.lent {
		return b.ReadCloser.Close()
	}
	if b.line != nil {
		b.line.end()
		b.line = nil
	}
	return nil
}
