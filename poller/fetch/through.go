package fetch

import (
	"errors"
	"net/http"
	"net/http/httptrace"
)

// lineRequest is the most bytes of a body that are sent over a line. A host may answer a larger
// body before it has read all of it, and then read no more. Only net/http notices that while it
// writes.
const lineRequest = 16 << 10

// overLines makes requests over lines, or over a transport if lines cannot make them. A request
// over a line needs no goroutine besides the caller's.
type overLines struct {
	lines     *lines
	transport http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o overLines) RoundTrip(request *http.Request) (*http.Response, error) {
	if !ascii(request.URL.Host) || request.ContentLength > lineRequest {
		return o.transport.RoundTrip(request)
	}
	for {
		answer, again, err := o.lines.roundTrip(request)
		switch {
		case errors.Is(err, errElsewhere):
			return o.transport.RoundTrip(request)
		case err == nil || !again:
			return answer, err
		}
	}
}

// roundTrip makes a request. again says that the request may be repeated: the host closed an idle
// line just as it was used, and the request has no consequences.
func (l *lines) roundTrip(request *http.Request) (answer *http.Response, again bool, err error) {
	ctx := request.Context()
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.GetConn != nil {
		trace.GetConn("")
	}
	ln, kept, err := l.take(ctx, request.URL)
	if err != nil {
		return nil, false, err
	}
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: ln.conn, Reused: kept})
	}
	if err = ln.begin(ctx, request); err == nil {
		answer, err = ln.answer(ctx)
	}
	if err != nil {
		untouched := ln.reader == nil // not a byte of an answer has come
		ln.end()
		return nil, kept && untouched && ctx.Err() == nil && (request.Method == http.MethodGet || request.Method == http.MethodHead), err
	}
	answer.Request = request
	if body, ok := answer.Body.(*lineBody); ok {
		body.lent = true
	} else {
		ln.end()
	}
	return answer, false, nil
}
