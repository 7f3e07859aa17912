// Package serving has what the fakes of third parties share: how they are served, how they answer
// without a network, and how they hold a call.
package serving

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// Serve serves a fake at an address of loopback; port 0 is a free one. handler makes it for the URL
// at which it is served. The returned function stops it and cuts off running calls.
func Serve(addr string, handler func(base string) http.Handler) (stop func(), err error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: handler("http://" + listener.Addr().String()), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return func() {
		_ = server.Close()
		<-done
	}, nil
}

// RoundTrip makes a handler answer one request without a network, as an http.RoundTripper does in
// fake time. A caller that gives up before the end of the answer gets none. A handler that aborts
// has cut the connection.
func RoundTrip(handler http.Handler, r *http.Request) (response *http.Response, err error) {
	recorder := &recorder{header: http.Header{}, first: func() {}}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotFirstResponseByte != nil {
		recorder.first = sync.OnceFunc(trace.GotFirstResponseByte)
	}
	defer func() {
		reason := recover()
		if cut, ok := reason.(error); ok && errors.Is(cut, http.ErrAbortHandler) {
			response, err = nil, io.ErrUnexpectedEOF
		} else if reason != nil {
			panic(reason)
		}
	}()
	handler.ServeHTTP(recorder, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	recorder.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", recorder.status, http.StatusText(recorder.status)), StatusCode: recorder.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: recorder.sent, Body: io.NopCloser(&recorder.body), ContentLength: int64(recorder.body.Len()), Request: r,
	}, nil
}

// recorder stores an answer, and reports when it begins. It is not httptest's, which has no place
// in a program because it defines a flag.
type recorder struct {
	header, sent http.Header
	status       int
	body         bytes.Buffer
	first        func()
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status, r.sent = status, r.header.Clone()
	}
}

func (r *recorder) Write(text []byte) (int, error) {
	r.first()
	r.WriteHeader(http.StatusOK)
	return r.body.Write(text)
}

func (r *recorder) Flush() {
	r.first()
	r.WriteHeader(http.StatusOK)
}

// Await holds a call, without the lock, until there is news or the hold ends. It reports
// whether the hold is over, and whether the caller has gone.
func Await(mu *sync.Mutex, r *http.Request, news <-chan struct{}, ends <-chan time.Time) (over, gone bool) {
	mu.Unlock()
	select {
	case <-news:
	case <-ends:
		over = true
	case <-r.Context().Done():
	}
	mu.Lock()
	return over, r.Context().Err() != nil
}

// Endless writes an answer that goes on until the client is gone, or until the fault is healed.
func Endless(rw http.ResponseWriter, r *http.Request, healed <-chan struct{}) {
	for piece := make([]byte, 32<<10); ; {
		select {
		case <-healed:
			return
		case <-r.Context().Done():
			return
		default:
		}
		if _, err := rw.Write(piece); err != nil {
			return
		}
	}
}

// Cut returns a ResponseWriter that writes half of an answer and breaks the connection, as a server
// that has done its work and dies. It tells that to note, before.
func Cut(rw http.ResponseWriter, note func()) http.ResponseWriter { return &cutting{rw, note} }

type cutting struct {
	http.ResponseWriter
	note func()
}

// Write writes half of the bytes, and breaks the connection.
func (c *cutting) Write(p []byte) (int, error) {
	c.note()
	_, _ = c.ResponseWriter.Write(p[:len(p)/2])
	if flusher, ok := c.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
	panic(http.ErrAbortHandler)
}
