package websub

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/poller/fetch"
)

const (
	hubTime      = 10 * time.Second // of a call to a hub
	hubRedirects = 2
	hubPause     = 500 * time.Millisecond // between two calls of this process to one hub
	hubsMost     = 4096

	// Path is the path below which hubs call: the account's id in base64url and a token follow.
	Path = "/v1/callbacks/websub/"
)

// Client subscribes at hubs. It is safe for concurrent use. A nil client subscribes nowhere.
type Client struct {
	client *fetch.Client
	at     string // where hubs reach the API; empty: nowhere

	mu   sync.Mutex
	free map[string]time.Time // by hub: when the next call may begin
}

// NewClient returns a client. Hubs call the API at Path below the URL. Without a URL, or with one that
// hubs cannot reach, no account subscribes.
func NewClient(client *fetch.Client, at string) *Client {
	return &Client{client: client, at: strings.TrimRight(at, "/"), free: make(map[string]time.Time)}
}

// wants returns the subscription that an account should have, after a document was read that was asked
// for at one of the addresses: the one that it has, a new one, or nil. Whatever a feed names from one check to
// the next, hubs are not asked more often because of that.
func (c *Client) wants(have *Subscription, now time.Time, named Links, addresses ...string) *Subscription {
	hub, topic := c.reachable(named.Hub), ""
	for _, address := range addresses {
		// Whoever writes a feed must not have us subscribe to what others publish.
		if self := resolve(named.Self, address); self != "" && strings.EqualFold(hostname(self), hostname(address)) {
			topic = self
		}
	}
	switch {
	case hub == "" || topic == "":
		if have != nil && now.Sub(have.Asked) < askMost {
			have.Trusted = false
			return have
		}
		return nil
	case have != nil && have.Hub == hub && have.Topic == topic:
		return have
	}
	s := &Subscription{Hub: hub, Topic: topic, Token: random(), Secret: random()}
	if have != nil && !have.Asked.IsZero() {
		s.Asked, s.Asks = have.Asked, max(1, have.Asks)
	}
	return s
}

// reachable returns the address of a hub that may be called, or empty. The secret goes over TLS
// (section 5.1), except within the operator's own networks.
func (c *Client) reachable(hub string) string {
	u, err := url.Parse(hub)
	if err != nil || !plain(hub) || u.Host == "" || u.User != nil || u.Fragment != "" {
		return ""
	}
	if c.client.PublicHost(u.Host) {
		at, err := url.Parse(c.at)
		if err != nil || u.Scheme != "https" || at.Scheme != "https" || !c.client.PublicHost(at.Host) {
			return ""
		}
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return hub
}

// ask asks the hub for the subscription or its renewal (section 5.1), and notes that. Whatever the hub
// answers, only a verified intent counts. It does nothing if the hub was just called for another feed.
func (c *Client) ask(ctx context.Context, account string, s *Subscription, now time.Time) {
	if until, ok := ctx.Deadline(); ok && time.Until(until) < hubTime || !c.takes(hostname(s.Hub)) {
		return
	}
	s.Asked, s.Denied = now.Truncate(time.Second), false
	s.Asks++
	// Without hub.lease_seconds, which some hubs refuse if it is longer than they like, the hub decides.
	form := url.Values{
		"hub.mode": {"subscribe"}, "hub.topic": {s.Topic}, "hub.secret": {s.Secret},
		"hub.callback": {c.at + Path + base64.RawURLEncoding.EncodeToString([]byte(account)) + "/" + s.Token},
	}
	ctx, cancel := context.WithTimeout(ctx, hubTime)
	defer cancel()
	call := fetch.Call{
		Method: http.MethodPost, URL: s.Hub, Body: []byte(form.Encode()), NoBody: true,
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
	}
	for range 1 + hubRedirects {
		answer, err := c.client.Do(ctx, call)
		if err != nil || answer.Status != http.StatusTemporaryRedirect && answer.Status != http.StatusPermanentRedirect {
			return
		}
		// The secret goes only where it could have gone at first.
		if call.URL = c.reachable(resolve(answer.Header.Get("Location"), call.URL)); call.URL == "" {
			return
		}
	}
}

// takes reports whether a hub may be called now.
func (c *Client) takes(hub string) bool {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.free[hub]) {
		return false
	}
	if len(c.free) >= hubsMost {
		clear(c.free) // the pauses are short
	}
	c.free[hub] = now.Add(hubPause)
	return true
}

// Listening is what one check has to do with the hub of its feed.
type Listening struct {
	client  *Client
	account string
	quiet   bool
	at      time.Time

	had    Subscription
	is     bool // there was one
	now    *Subscription
	pushed bool // a push asked for the check
	recent bool // a push came just before
}

// Listen begins a check of an account that has a subscription, or nil. A hint may have what the hub said
// since the last check. A quiet check subscribes nowhere.
func (c *Client) Listen(account string, have *Subscription, hint json.RawMessage, quiet bool) *Listening {
	l := &Listening{client: c, account: account, quiet: quiet || c == nil || c.at == "", at: time.Now(), now: have}
	if have != nil {
		l.had, l.is = *have, true
	}
	l.recent = l.now.recent(l.at)
	l.pushed = l.now.heed(hint, l.at)
	return l
}

// Read takes the links of a document that answered, and that was asked for at one of the addresses.
func (l *Listening) Read(named Links, addresses ...string) {
	if !l.quiet {
		l.now = l.client.wants(l.now, l.at, named, addresses...)
	}
}

// Leave ends the subscription: the hub will be told that nobody subscribes.
func (l *Listening) Leave() { l.now, l.quiet = nil, true }

// End learns from whether the check found something, and asks the hub if that is due. It returns the
// subscription to be written. If planned is true, that must come before another page: the hub hears of a
// new subscription only after it was written, because it may ask at once whether that is so.
func (l *Listening) End(ctx context.Context, found bool) (now *Subscription, planned bool) {
	l.now.learn(l.pushed, l.recent, found)
	switch {
	case l.quiet:
	case !l.now.due(l.at):
	case !l.is || l.now.Token != l.had.Token:
		planned = !l.is || !l.had.Asked.IsZero() // a feed may name another hub each time
	default:
		l.client.ask(ctx, l.account, l.now, l.at)
	}
	return l.now, planned
}

// Changed reports whether the subscription is to be written.
func (l *Listening) Changed() bool {
	return l.is != (l.now != nil) || l.now != nil && *l.now != l.had
}

// Rest returns the least time until the next check: long while pushes come, zero otherwise.
func (l *Listening) Rest() time.Duration { return l.now.rests(l.at) }

func random() string {
	var bytes [tokenBytes]byte
	_, _ = rand.Read(bytes[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(bytes[:])
}

// resolve resolves an address of a document. It returns an empty text for what no hub could fetch.
func resolve(address, base string) string {
	b, err := url.Parse(base)
	if err != nil || address == "" {
		return ""
	}
	u, err := b.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || !plain(u.String()) {
		return ""
	}
	return u.String()
}

// plain reports whether an address is of printable ASCII, which goes through a cursor and a query
// unchanged, and is not too long.
func plain(address string) bool {
	odd := func(char rune) bool { return char <= ' ' || char > '~' }
	return address != "" && len(address) <= maxAddress && !strings.ContainsFunc(address, odd)
}

func hostname(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
