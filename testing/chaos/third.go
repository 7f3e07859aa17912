package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/testing/ports"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// third is the third party: an upstream on several listeners, each of which is another
// host to the pollers. It records every check.
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
	arrivals map[string][]arrival // sends, by their keys
}

// check is one request, as the third party saw it.
type check struct {
	account    string
	began      time.Time
	ended      time.Time
	cut        bool // the caller went away
	misbehaved bool // the answer was a fault
	caller     *caller
}

// caller is a connection, and who is at its other end.
type caller struct{ process atomic.Pointer[string] }

// name returns whose connection it is, or "" if nobody knows. Only the checks of
// connectors say so, and they share their connections with those of feeds.
func (c *caller) name() string {
	if c == nil || c.process.Load() == nil {
		return ""
	}
	return *c.process.Load()
}

// processHeader carries the name of the process that makes a check.
const processHeader = "X-Chaos-Process"

type callerKey struct{}

// checked sums up an account's checks.
type checked struct {
	last   time.Time // when the last check with a proper answer began
	any    time.Time // when the last check of any kind began
	cursor int       // the highest cursor that a check had
}

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
		wicked: make(map[string]wickedness), open: make(map[*check]bool), arrivals: make(map[string][]arrival),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/feed/{id}", t.record)
	mux.HandleFunc("/connector/{id}", t.record)
	mux.HandleFunc("/"+routeSend+"/{id}", t.takes)
	t.handler = mux
	for range hosts {
		addr, err := ports.Address()
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
	h.addr, h.server, h.done = listener.Addr().String(), &http.Server{Handler: t.handler, ReadHeaderTimeout: 10 * time.Second,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, callerKey{}, &caller{})
		}}, make(chan struct{})
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

// hostOf returns the host of the n-th account.
func (t *third) hostOf(n int) *host { return t.hosts[n%len(t.hosts)] }

// config returns the config of the n-th account: its address, and for a connector what
// tells which process makes each check.
func (t *third) config(route, id string, n int) map[string]any {
	config := map[string]any{"url": "http://" + t.hostOf(n).addr + t.URL(route, id)}
	if route == routeConnector {
		config["headers"] = map[string]any{processHeader: map[string]string{"secret": processSecret}}
	}
	return config
}

const (
	routeConnector = "connector"
	routeFeed      = "feed"
)

// processSecret is the secret in which each process has its own name.
const processSecret = "PROCESS"

// record records a check and its outcome.
func (t *third) record(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	c := &check{account: id, began: time.Now()}
	c.caller, _ = r.Context().Value(callerKey{}).(*caller) // every connection has one
	if process := r.Header.Get(processHeader); process != "" {
		c.caller.process.Store(&process)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return // no part of a check has arrived yet
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var request struct {
		Cursor *int `json:"cursor"`
	}
	_ = json.Unmarshal(body, &request) // a feed's check has no body

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
	if wicked != nil {
		c.misbehaved = true
		wicked(w)
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
	if !c.cut && !c.misbehaved && c.began.After(a.last) {
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

// misbehave makes accounts fail, and behave ends that.
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

// slowDown makes an account always answer slowly.
func (t *third) slowDown(id string, by time.Duration) {
	t.slow[id] = upstream.Fault{Delay: by}
	t.Fail(id, t.slow[id])
}

// begun counts the checks of some accounts that began after a time.
func (t *third) begun(ids []string, since time.Time) int {
	n := 0
	t.each(since, func(c *check) {
		if c.began.After(since) && slices.Contains(ids, c.account) {
			n++
		}
	})
	return n
}

// checkedBy returns the accounts that a process has begun to check since a time.
func (t *third) checkedBy(process string, since time.Time) []string {
	var ids []string
	t.each(since, func(c *check) {
		if c.began.After(since) && c.caller.name() == process {
			ids = append(ids, c.account)
		}
	})
	return ids
}

// each calls fn for each check that was not over at a time.
func (t *third) each(since time.Time, fn func(c *check)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.open {
		fn(c)
	}
	for i := len(t.checks) - 1; i >= 0 && t.checks[i].ended.After(since); i-- {
		fn(&t.checks[i])
	}
}

// unchecked returns the accounts that have had no good check since a time.
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

// good returns when the good checks of each account began, in order.
func (t *third) good() map[string][]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	times := make(map[string][]time.Time)
	for _, c := range t.checks {
		if !c.cut && !c.misbehaved {
			times[c.account] = append(times[c.account], c.began)
		}
	}
	for _, of := range times {
		slices.SortFunc(of, time.Time.Compare)
	}
	return times
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

// history returns all checks. Those under way count as ended now.
func (t *third) history() []check {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append([]check(nil), t.checks...)
	for c := range t.open {
		all = append(all, check{account: c.account, began: c.began, ended: time.Now(), caller: c.caller})
	}
	return all
}

func (t *third) close() {
	for _, h := range t.hosts {
		h.down()
	}
}
