package s3test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Fault is what a proxy does to a request.
type Fault int

// The faults.
const (
	None   Fault = iota
	Drop         // the request does not arrive
	Lose         // the answer does not arrive
	Halve        // the connection breaks in the middle of the answer
	Refuse       // 503, the answer of an overloaded service
	Forget       // 404, the answer to an upload that has ended
)

// Proxy forwards requests to a server, with a fault for each.
type Proxy struct {
	URL  string
	Lost func() // called when an answer is lost; may be nil

	to    string
	fault func(number int, r *http.Request) Fault

	mu       sync.Mutex
	requests []string
}

// NewProxy starts a proxy in front of a server. fault chooses the fault of each request. Their numbers
// begin with 1.
func NewProxy(t testing.TB, to string, fault func(number int, r *http.Request) Fault) *Proxy {
	t.Helper()
	p := &Proxy{to: to, fault: fault}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// Requests returns the requests so far, each as its method and the names of its query's parameters.
func (p *Proxy) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// number notes a request and returns its number.
func (p *Proxy) number(r *http.Request) int {
	text := r.Method
	for _, name := range []string{"uploads", "partNumber", "uploadId"} {
		if r.URL.Query().Has(name) {
			text += " " + name
		}
	}
	if r.Header.Get("X-Amz-Copy-Source") != "" {
		text += " copy"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, text)
	return len(p.requests)
}

// ServeHTTP forwards a request to the server.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := p.fault(p.number(r), r)
	if fault == Drop {
		panic(http.ErrAbortHandler)
	}
	switch fault {
	case Refuse:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case Forget:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchUpload</Code><Message>The upload does not exist.</Message></Error>")
		return
	}
	// The server gets whole requests only: it should not notice that a client hangs up.
	sent := make([]byte, max(r.ContentLength, 0))
	if _, err := io.ReadFull(r.Body, sent); err != nil {
		panic(http.ErrAbortHandler)
	}
	out, err := http.NewRequest(r.Method, p.to+r.URL.RequestURI(), bytes.NewReader(sent))
	if err != nil {
		panic(err)
	}
	out.Header, out.Host, out.ContentLength = r.Header.Clone(), r.Host, r.ContentLength // the host is signed
	reply, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	got, err := io.ReadAll(reply.Body)
	_ = reply.Body.Close() // it is read
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if fault == Lose {
		if p.Lost != nil {
			p.Lost()
		}
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), reply.Header)
	w.WriteHeader(reply.StatusCode)
	if fault == Halve {
		_, _ = w.Write(got[:len(got)/2]) // it breaks in any case
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(got) // who has gone misses nothing
}
