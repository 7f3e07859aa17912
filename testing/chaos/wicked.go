package main

import (
	"bytes"
	"net/http"
)

// wickedness is an answer that package upstream does not give.
type wickedness int

const (
	oversized wickedness = iota + 1 // more than any checker takes
	severed                         // the connection ends in the middle of it
)

const oversize = 9 << 20

// answer gives it.
func (k wickedness) answer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	switch k {
	case oversized:
		chunk := bytes.Repeat([]byte(" "), 1<<16)
		for n := 0; n < oversize; n += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	case severed:
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"messages":[{"id":"`))
		panic(http.ErrAbortHandler) // the server's way to cut a connection
	}
}

// watchedWriter sees whether an answer is a fault.
type watchedWriter struct {
	http.ResponseWriter
	status  int
	garbage bool
}

// WriteHeader notes the status.
func (w *watchedWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write notes what is no answer of a connector or a feed.
func (w *watchedWriter) Write(p []byte) (int, error) {
	w.garbage = w.garbage || bytes.HasPrefix(p, []byte{0}) || bytes.HasPrefix(p, []byte(`{"error"`))
	return w.ResponseWriter.Write(p)
}
