package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// third is the third party: an upstream on several listeners, each another host
// to the pollers, which writes down every check.
type third struct {
	*upstream.Upstream
	handler http.Handler
	hosts   []*host

	mu       sync.Mutex
	checks   []check
	accounts map[string]*checked
	slow     map[string]upstream.Fault // the delay that an account always has
	wicked   map[string]wickedness
	open     map[*check]bool
}

// check is one request, as the third party saw it.
type check struct {
	account    string
	began      time.Time
	ended      time.Time
	cut        bool // the caller went away
	misbehaved bool // the answer was a fault
}

// checked sums up an account's checks.
type checked struct {
	last   time.Time // when the last one began that was answered as it should be
	any    time.Time // when the last one of any kind began
	gaveUp time.Time // when a caller last went away before the answer
	cursor int       // the highest that a check came with
}

// wickedness is an answer that package upstream does not give.
type wickedness int

const (
	oversized wickedness = iota + 1 // more than any checker takes
	severed                         // the connection ends in the middle of it
)

const oversize = 9 << 20

// host is one listener.
type host struct {
	addr   string
	server *http.Server
	done   chan struct{}
}

func newThird(hosts int) (*third, error) {
	t := &third{
		Upstream: upstream.New(upstream.Options{PageLimit: 50}),
		accounts: make(map[string]*checked), slow: make(map[string]upstream.Fault),
		wicked: make(map[string]wickedness), open: make(map[*check]bool),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/feed/{id}", t.record)
	mux.HandleFunc("/connector/{id}", t.record)
	t.handler = mux
	for range hosts {
		addr, err := processes.FreeAddress()
		if err != nil {
			return nil, err
		}
		h := &host{addr: addr}
		if err := t.up(h); err != nil {
			return nil, err
		}
		t.hosts = append(t.hosts, h)
	}
	return t, nil
}

// up has a host listen, again on its own port.
func (t *third) up(h *host) error {
	listener, err := net.Listen("tcp", h.addr)
	if err != nil {
		return fmt.Errorf("third party: %w", err)
	}
	h.addr, h.server, h.done = listener.Addr().String(), &http.Server{Handler: t.handler, ReadHeaderTimeout: 10 * time.Second}, make(chan struct{})
	go func(server *http.Server, done chan struct{}) {
		defer close(done)
		_ = server.Serve(listener) // ends with down
	}(h.server, h.done)
	return nil
}

// down cuts off a host: connections are refused.
func (h *host) down() {
	_ = h.server.Close()
	<-h.done
}

// address is where an account's n-th host has it.
func (t *third) address(route, id string, n int) string {
	return "http://" + t.hosts[n%len(t.hosts)].addr + t.URL(route, id)
}

// record writes a check down around what it comes to.
func (t *third) record(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	c := &check{account: id, began: time.Now()}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return // nothing of it was a check yet
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var request struct {
		Cursor *int `json:"cursor"`
	}
	_ = json.Unmarshal(body, &request) // a feed's has no body

	t.mu.Lock()
	a := t.account(id)
	a.any = c.began
	if request.Cursor != nil {
		a.cursor = max(a.cursor, *request.Cursor)
	}
	wicked := t.wicked[id]
	t.open[c] = true
	t.mu.Unlock()
	defer t.end(r.Context(), c)
	if wicked != 0 {
		c.misbehaved = true
		wicked.answer(w)
		return
	}
	watched := &watchedWriter{ResponseWriter: w}
	t.ServeHTTP(watched, r)
	c.misbehaved = watched.status >= 400 || watched.garbage
}

func (t *third) end(ctx context.Context, c *check) {
	c.ended, c.cut = time.Now(), ctx.Err() != nil
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, c)
	t.checks = append(t.checks, *c)
	a := t.account(c.account)
	switch {
	case c.cut:
		a.gaveUp = c.ended
	case !c.misbehaved && c.began.After(a.last):
		a.last = c.began
	}
}

func (t *third) account(id string) *checked {
	a := t.accounts[id]
	if a == nil {
		a = &checked{}
		t.accounts[id] = a
	}
	return a
}

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

// misbehave gives accounts a fault, and behave takes it away again.
func (t *third) misbehave(ids []string, f upstream.Fault) {
	for _, id := range ids {
		t.Fail(id, f)
	}
}

func (t *third) beWicked(ids []string, k wickedness) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		t.wicked[id] = k
	}
}

func (t *third) behave(ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		delete(t.wicked, id)
		t.Heal(id)
		if always, ok := t.slow[id]; ok {
			t.Fail(id, always)
		}
	}
}

// slowDown has an account always take a while to answer.
func (t *third) slowDown(id string, by time.Duration) {
	t.slow[id] = upstream.Fault{Delay: by}
	t.Fail(id, t.slow[id])
}

// begun counts the checks that began after a time.
func (t *third) begun(since time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.open)
	for i := len(t.checks) - 1; i >= 0 && t.checks[i].ended.After(since); i-- {
		if t.checks[i].began.After(since) {
			n++
		}
	}
	return n
}

// unchecked gives those that have had no good check since a time.
func (t *third) unchecked(ids []string, since time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var behind []string
	for _, id := range ids {
		if a := t.accounts[id]; a == nil || !a.last.After(since) {
			behind = append(behind, id)
		}
	}
	return behind
}

// givenUp gives those of some accounts whose caller went away since a time.
func (t *third) givenUp(ids []string, since time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []string
	for _, id := range ids {
		if a := t.accounts[id]; a != nil && a.gaveUp.After(since) {
			found = append(found, id)
		}
	}
	return found
}

// lastBegun is when the last check of an account began.
func (t *third) lastBegun(id string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.accounts[id]; a != nil {
		return a.any
	}
	return time.Time{}
}

func (t *third) cursor(id string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.accounts[id]; a != nil {
		return a.cursor
	}
	return 0
}

// history gives all checks; those under way count as ended now.
func (t *third) history() []check {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append([]check(nil), t.checks...)
	for c := range t.open {
		all = append(all, check{account: c.account, began: c.began, ended: time.Now()})
	}
	return all
}

func (t *third) close() {
	for _, h := range t.hosts {
		h.down()
	}
}
