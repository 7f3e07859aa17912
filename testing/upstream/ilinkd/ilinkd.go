// Package ilinkd serves the demo's fake of iLink to tests, and makes it fail on demand.
package ilinkd

import (
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

// Server is the fake. It is safe for concurrent use.
type Server struct {
	*ilink.Ilink

	now  func() time.Time
	base string // where it is served, set once by Serve

	mu     sync.Mutex
	faults map[string]*fault
	healed chan struct{} // closed by Heal
	calls  map[string]int
	cuts   []time.Time
}

// New makes a fake, to be used as an http.Handler.
func New(options ilink.Options) *Server {
	now := options.Now
	if now == nil {
		now = time.Now
	}
	return &Server{Ilink: ilink.New(options), now: now, faults: make(map[string]*fault), healed: make(chan struct{}), calls: make(map[string]int)}
}

// ServeHTTP counts a call by its name, the end of its path, and answers it or lets it fail as ordered.
func (w *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	call := path.Base(r.URL.Path)
	w.mu.Lock()
	w.calls[call]++
	f := w.faults[call].next()
	healed := w.healed
	w.mu.Unlock()
	if f != nil && !f.Cut {
		f.answer(rw, r, healed)
		return
	}
	if f != nil {
		rw = serving.Cut(rw, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if call == GetUpdates {
				w.cuts = append(w.cuts, w.now())
			}
		})
	}
	w.Ilink.ServeHTTP(rw, r)
}

// Calls returns how often a call was made.
func (w *Server) Calls(call string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[call]
}

// Cuts returns when answers with messages broke in the middle.
func (w *Server) Cuts() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.cuts)
}

// Serve starts a fake on a free port of 127.0.0.1. The returned function stops it and
// cuts off running calls.
func Serve(options ilink.Options) (*Server, func(), error) {
	return ServeAt("127.0.0.1:0", options, func(w *Server) http.Handler { return w })
}

// ServeAt is Serve at an address, with a handler around the fake.
func ServeAt(addr string, options ilink.Options, around func(*Server) http.Handler) (*Server, func(), error) {
	w := New(options)
	stop, err := serving.Serve(addr, func(base string) http.Handler {
		w.base = base
		return around(w)
	})
	if err != nil {
		return nil, nil, err
	}
	return w, stop, nil
}

// URL returns where the fake is served, or "" if it was not started by Serve.
func (w *Server) URL() string { return w.base }

// RoundTrip answers one request without a network, as an http.RoundTripper in fake time.
// A caller that gives up before the answer gets none.
func (w *Server) RoundTrip(r *http.Request) (*http.Response, error) { return serving.RoundTrip(w, r) }

// AddBot adds a bot with a token, as if a person had scanned for it.
func (w *Server) AddBot(token string) {
	if !w.Known(token) {
		w.Bind("user-of-"+token, token)
	}
}

// PostN sends n texts to a bot and returns the number of the last.
func (w *Server) PostN(token string, n int) int {
	last := 0
	for range n {
		last = w.Post(token, "text")
	}
	return last
}

// Number returns the number of a message from its JSON, or 0.
func Number(data json.RawMessage) int {
	var m struct {
		Seq int `json:"seq"`
	}
	if json.Unmarshal(data, &m) != nil {
		return 0
	}
	return m.Seq
}

// Types are the types of items that a message may have.
func Types() []string { return []string{"text", "image", "voice", "file", "video"} }
