// Package wecom is a fake of WeCom's customer-service API for tests: gettoken, kf/sync_msg,
// kf/send_msg, kf/send_msg_on_event, media/get and media/upload, with the limits that the real one has, and all its errors on demand.
//
// The test adds corporations, their secrets and their accounts. An account's messages are
// numbered from 1, whatever their type, and hold the number, so that a test can
// distinguish every message: see Number. They have the msgid MessageID(account, number);
// events have none.
package wecom

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

// Options are the settings of a fake. With the zero Options it behaves as the real WeCom;
// a negative number removes that limit.
type Options struct {
	TokenLife         time.Duration    // of an access token; 2 h
	Window            time.Duration    // for which messages are kept; 72 h
	CallbackLife      time.Duration    // of a callback's token; 10 min
	Concurrency       int              // calls of a corporation at once, else 45033; 5
	CallsWithoutToken int              // of sync_msg, of an account in a minute, else 45009; 10
	CallsPerMinute    int              // of sync_msg, of a corporation, else 45009; any number
	BanAfter          int              // wrong secrets, then 60020 for an hour; 5
	EmptyPages        bool             // an empty page with has_more comes between two pages
	Latency           time.Duration    // of sync_msg
	Now               func() time.Time // time.Now
}

// WeCom is the fake. It is safe for concurrent use.
type WeCom struct {
	options Options
	routes  *http.ServeMux
	base    string // where it is served, set once by Serve

	mu          sync.Mutex
	corps       map[string]*corp
	accounts    map[string]*account // by open_kfid
	welcomes    map[string]welcome  // by welcome_code, until it is used
	media       map[string]*medium  // by media_id
	wrong       int                 // secrets tried since the last ban
	bannedUntil time.Time
	healed      chan struct{} // closed by Heal
}

// New makes a fake, to be used as an http.Handler.
func New(options Options) *WeCom {
	setDefault(&options.TokenLife, 2*time.Hour)
	setDefault(&options.Window, 72*time.Hour)
	setDefault(&options.CallbackLife, 10*time.Minute)
	setDefault(&options.Concurrency, 5)
	setDefault(&options.CallsWithoutToken, 10)
	setDefault(&options.CallsPerMinute, -1)
	setDefault(&options.BanAfter, 5)
	if options.Now == nil {
		options.Now = time.Now
	}
	w := &WeCom{options: options, routes: http.NewServeMux(), corps: make(map[string]*corp), accounts: make(map[string]*account), welcomes: make(map[string]welcome), media: make(map[string]*medium), healed: make(chan struct{})}
	w.routes.HandleFunc("GET /cgi-bin/gettoken", w.getToken)
	w.routes.HandleFunc("POST /cgi-bin/kf/sync_msg", w.syncMsg)
	w.routes.HandleFunc("POST /cgi-bin/kf/send_msg", w.sendMsg)
	w.routes.HandleFunc("POST /cgi-bin/kf/send_msg_on_event", w.sendOnEvent)
	w.routes.HandleFunc("GET /cgi-bin/media/get", w.getMedia)
	w.routes.HandleFunc("POST /cgi-bin/media/upload", w.upload)
	return w
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// ServeHTTP answers one request.
func (w *WeCom) ServeHTTP(rw http.ResponseWriter, r *http.Request) { w.routes.ServeHTTP(rw, r) }

// Serve starts a fake on a free port of 127.0.0.1. The returned function stops it and
// cuts off what is under way.
func Serve(options Options) (*WeCom, func(), error) {
	w := New(options)
	stop, err := serving.Serve("127.0.0.1:0", func(base string) http.Handler {
		w.base = base
		return w
	})
	if err != nil {
		return nil, nil, err
	}
	return w, stop, nil
}

// URL returns where the API is, or "" if the fake was not started by Serve.
func (w *WeCom) URL() string { return w.base }

// RoundTrip answers one request without a network, as an http.RoundTripper in fake time.
// A caller that gives up before the answer gets none.
func (w *WeCom) RoundTrip(r *http.Request) (*http.Response, error) { return serving.RoundTrip(w, r) }

// AddCorp adds a corporation, or changes its secret, which makes its tokens void.
func (w *WeCom) AddCorp(id, secret string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.corps[id]
	if c == nil {
		c = &corp{id: id, faults: make(map[string]*fault)}
		w.corps[id] = c
	}
	c.secret, c.token = secret, token{}
}

// LimitCalls gives a corporation its own limit in place of Options.CallsPerMinute.
func (w *WeCom) LimitCalls(corp string, perMinute int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.corps[corp].most = perMinute
}

// AddAccount adds a customer-service account to a corporation, unless it has it.
func (w *WeCom) AddAccount(corp, openKfID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.accounts[openKfID] != nil {
		return
	}
	w.accounts[openKfID] = &account{corp: corp, id: openKfID, tokens: make(map[string]time.Time)}
}

// Stats is what a fake knows about a corporation.
type Stats struct {
	GetToken     int // calls of gettoken
	Tokens       int // different tokens that it issued
	WrongSecrets int // how many of the calls had a wrong secret
	SyncMsg      int // calls of sync_msg
	WithoutToken int // of these, calls without a callback's token
	AtOnce       int // the most calls of sync_msg at once
	MostInMinute int // the most calls of sync_msg in a minute, where those are limited
	Refused      int // calls of sync_msg that were answered with an error
	GetMedia     int // calls of media/get with a valid token
	Uploads      int // calls of media/upload with a valid token
	SendMsg      int // calls of send_msg and send_msg_on_event with a valid token
}

// Stats returns a corporation's numbers.
func (w *WeCom) Stats(corp string) Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.corps[corp]; c != nil {
		return c.stats
	}
	return Stats{}
}

// Banned reports whether the caller's address is banned.
func (w *WeCom) Banned() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.options.Now().Before(w.bannedUntil)
}

// MessageID returns the msgid of an account's n-th message, counted from 1.
func MessageID(openKfID string, n int) string { return fmt.Sprintf("%s-%d", openKfID, n) }
