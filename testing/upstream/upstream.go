// Package upstream is a fake third party for tests: one HTTP handler that hosts any
// number of accounts, counts how they are checked and fails on demand.
//
// An account exists as soon as it is named. Its messages are numbered from 1 and have the
// ids "ID-1", "ID-2" and so on, by whichever route they are read. So a test can
// distinguish every message and verify that it arrived exactly once:
//
//	/feed/{id}       RSS, with ETag
//	/atom/{id}       Atom, with ETag
//	/jsonfeed/{id}   JSON Feed, with ETag
//	/connector/{id}  the protocol of the http kind; the cursor is the number of
//	                 the last message
//	/send/{id}       the send_url of the http kind
//	/file/{id}/{n}   the file of the account's n-th message
package upstream

import (
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

// Options are the settings of an Upstream. The zero Options are usable.
type Options struct {
	// SigningSecret is what connector requests must be signed with, base64 with
	// or without whsec_; empty: signatures are not checked.
	SigningSecret string
	// Window is how many of the newest messages a feed shows; 0: all.
	Window int
	// PageLimit is how many messages a connector returns on a page at most; 0: as many as
	// the request asks for.
	PageLimit int
	// Deduplicates has a connector take sends with one send_id once.
	Deduplicates bool
}

// Upstream is the fake. It is safe for concurrent use.
type Upstream struct {
	options Options
	routes  *http.ServeMux
	base    string // where it is served, set once by Serve

	mu       sync.Mutex
	accounts map[string]*account
}

// New makes an Upstream, to be used as an http.Handler.
func New(options Options) *Upstream {
	u := &Upstream{options: options, routes: http.NewServeMux(), accounts: make(map[string]*account)}
	u.routes.HandleFunc("GET /feed/{id}", u.check(u.rss))
	u.routes.HandleFunc("GET /atom/{id}", u.check(u.atom))
	u.routes.HandleFunc("GET /jsonfeed/{id}", u.check(u.jsonFeed))
	u.routes.HandleFunc("POST /connector/{id}", u.check(u.connector))
	u.routes.HandleFunc("POST /send/{id}", u.send)
	u.routes.HandleFunc("GET /file/{id}/{n}", u.file)
	return u
}

// ServeHTTP answers one request.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) { u.routes.ServeHTTP(w, r) }

// Serve starts an Upstream on a free port of 127.0.0.1. The returned function stops it
// and cuts off what is under way.
func Serve(options Options) (*Upstream, func(), error) {
	u := New(options)
	stop, err := serving.Serve("127.0.0.1:0", func(base string) http.Handler {
		u.base = base
		return u
	})
	if err != nil {
		return nil, nil, err
	}
	return u, stop, nil
}

// URL returns an account's address. Route is "feed", "atom", "jsonfeed", "connector" or "send".
// The address begins with a slash if the Upstream was not started by Serve.
func (u *Upstream) URL(route, id string) string {
	return u.base + "/" + route + "/" + url.PathEscape(id)
}

// MessageID returns the id of an account's n-th message, counted from 1.
func MessageID(id string, n int) string { return id + "-" + strconv.Itoa(n) }

// Post adds the next message to an account and returns its number.
func (u *Upstream) Post(id string) int { return u.PostN(id, 1) }

// PostN adds n messages to an account and returns the number of the last.
func (u *Upstream) PostN(id string, n int) int {
	a := u.account(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for range n {
		a.posted = append(a.posted, now.UnixMilli())
	}
	return len(a.posted)
}

// Stats is what an Upstream knows about an account.
type Stats struct {
	Posted   int       // messages so far
	Checks   int       // requests so far, failed ones included
	Overlaps int       // how many of these began while another was under way
	Last     time.Time // when the last request began; zero: never
	Sends    int       // requests to the send_url, failed ones included
}

// Stats returns an account's numbers.
func (u *Upstream) Stats(id string) Stats {
	a := u.account(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	return Stats{Posted: len(a.posted), Checks: a.checks, Overlaps: a.overlaps, Last: a.last, Sends: a.sends}
}

// Accounts returns the ids of all accounts, in no order.
func (u *Upstream) Accounts() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	ids := make([]string, 0, len(u.accounts))
	for id := range u.accounts {
		ids = append(ids, id)
	}
	return ids
}

// account finds or makes an account.
func (u *Upstream) account(id string) *account {
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.accounts[id]
	if a == nil {
		a = &account{}
		u.accounts[id] = a
	}
	return a
}
