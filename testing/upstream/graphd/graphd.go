// Package graphd is a fake of Microsoft Graph's mail for tests: the changes of a folder (message: delta),
// lists of messages, a message as it came ($value), and sendMail, with all errors on demand.
//
// It is written from the published OpenAPI description, openApiDocs/v1.0/Mail.yml of
// https://github.com/microsoftgraph/msgraph-sdk-powershell, and from what
// https://learn.microsoft.com/graph says of delta queries, immutable ids and throttling. It is strict
// where the real one is: an immutable id is known only to requests that prefer immutable ids, a request
// with a state token has no other option, a filter selects at most 5,000 messages, and a fifth request at
// once is refused. schema.json has the requests and answers as JSON schemas.
//
// An account's mails are numbered from 1; see ID.
package graphd

import (
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

const (
	mostSelected = 5000 // messages that a filter selects
	mostAtOnce   = 4    // requests at a mailbox
	usualPage    = 10
)

// Options are the settings of a fake.
type Options struct {
	Now         func() time.Time // nil: time.Now
	NewestFirst bool             // the first round gives the newest messages first; otherwise the oldest
}

// Graph is the fake. It is safe for concurrent use.
type Graph struct {
	options Options
	routes  *http.ServeMux
	base    string

	mu     sync.Mutex
	boxes  map[string]*mailbox // by account
	states map[string]state    // by state token
	healed chan struct{}
}

// mailbox is an account's.
type mailbox struct {
	account string
	tokens  int // revoked ones
	mails   []*mail
	arrived []arrival
	fault   *fault
	under   int // requests under way
	stats   Stats
}

// mail is a mail of a mailbox.
type mail struct {
	n        int
	id       string // the immutable one
	moved    int
	folder   string
	at       time.Time
	raw      []byte
	read     bool
	flagged  bool
	draft    bool
	deleted  bool
	internet string // the Message-ID, with angle brackets
}

// arrival is a mail's coming into a folder.
type arrival struct {
	folder string
	mail   *mail
}

// Stats is what a fake knows about an account.
type Stats struct {
	Requests int // so far, failed ones included
	Values   int // of these, for messages
	Sends    int // of these, with a mail to send
	Most     int // requests at once
}

// New makes a fake, to be used as an http.Handler.
func New(options Options) *Graph {
	if options.Now == nil {
		options.Now = time.Now
	}
	g := &Graph{options: options, routes: http.NewServeMux(), base: "https://graph.microsoft.com", boxes: make(map[string]*mailbox), states: make(map[string]state), healed: make(chan struct{})}
	g.routes.HandleFunc("GET /v1.0/me/mailFolders/{folder}/messages/delta", g.call("delta", g.delta))
	g.routes.HandleFunc("GET /v1.0/me/mailFolders/{folder}/messages", g.call("list", g.list))
	g.routes.HandleFunc("GET /v1.0/me/messages/{id}/$value", g.call("value", g.value))
	g.routes.HandleFunc("POST /v1.0/me/sendMail", g.call("send", g.send))
	return g
}

// ServeHTTP answers one request.
func (g *Graph) ServeHTTP(rw http.ResponseWriter, r *http.Request) { g.routes.ServeHTTP(rw, r) }

// Serve starts a fake on a free port of 127.0.0.1. The returned function stops it and cuts off what
// is under way.
func Serve(options Options) (*Graph, func(), error) {
	g := New(options)
	stop, err := serving.Serve("127.0.0.1:0", func(base string) http.Handler {
		g.base = base
		return g
	})
	if err != nil {
		return nil, nil, err
	}
	return g, stop, nil
}

// URL returns where the fake is served: where Graph is, if it was not started by Serve.
func (g *Graph) URL() string { return g.base }

// RoundTrip answers one request without a network, as an http.RoundTripper in fake time.
func (g *Graph) RoundTrip(r *http.Request) (*http.Response, error) { return serving.RoundTrip(g, r) }

// box finds or makes an account's mailbox.
func (g *Graph) box(account string) *mailbox {
	b := g.boxes[account]
	if b == nil {
		b = &mailbox{account: account}
		g.boxes[account] = b
	}
	return b
}

// token returns the access token of a mailbox that is valid.
func (b *mailbox) token() string { return fmt.Sprintf("t0ken-of-%s-%d", b.account, b.tokens) }

// Token returns an account's access token.
func (g *Graph) Token(account string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.box(account).token()
}

// Revoke makes an account's access token invalid; Token then returns another one.
func (g *Graph) Revoke(account string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.box(account).tokens++
}

// Stats returns an account's numbers.
func (g *Graph) Stats(account string) Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.box(account).stats
}

// ID returns the immutable id of an account's n-th mail, counted from 1.
func ID(account string, n int) string { return identifier("AAkALgAA", account, n) }

// identifier returns an id like those of Exchange: base64 with signs that a path has to escape.
func identifier(begin, account string, n int) string {
	sum := sha512.Sum512(fmt.Appendf(nil, "%s %s %d", begin, account, n))
	return begin + base64.StdEncoding.EncodeToString(sum[:]) // with an equals sign, and often with slashes
}

// idFor returns a mail's id for a request.
func (m *mail) idFor(account string, r *http.Request) string {
	if prefers(r, `IdType="ImmutableId"`) {
		return m.id
	}
	return identifier("AAMkADNk", account+m.folder, m.n<<8+m.moved)
}

// prefers reports whether a request has a preference.
func prefers(r *http.Request, preference string) bool {
	for _, line := range r.Header.Values("Prefer") {
		for one := range strings.SplitSeq(line, ",") {
			if strings.TrimSpace(one) == preference {
				return true
			}
		}
	}
	return false
}

// Post adds n mails to an account's inbox.
func (g *Graph) Post(account string, n int) {
	for range n {
		g.mu.Lock()
		number := len(g.box(account).mails) + 1
		g.mu.Unlock()
		g.Deliver(account, fmt.Sprintf("Message-ID: <%d.%s@example.com>\r\nFrom: Anna <anna@example.com>\r\nTo: %s@example.com\r\nSubject: mail %d\r\nDate: Sun, 06 Nov 1994 08:49:37 +0000\r\n\r\nHello %d\r\n", number, account, account, number, number))
	}
}

// Deliver adds a mail to an account's inbox, and returns its id.
func (g *Graph) Deliver(account, raw string) string {
	return g.DeliverAt(account, raw, g.options.Now())
}

// DeliverAt is Deliver for a mail that was received at a time.
func (g *Graph) DeliverAt(account, raw string, at time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.box(account).add("inbox", raw, at).id
}

// add adds a mail to a folder.
func (b *mailbox) add(folder, raw string, at time.Time) *mail {
	m := &mail{n: len(b.mails) + 1, id: ID(b.account, len(b.mails)+1), folder: folder, at: at.UTC().Truncate(time.Second), raw: []byte(raw)}
	head, _, _ := strings.Cut(raw, "\r\n\r\n")
	for line := range strings.SplitSeq(head, "\r\n") {
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Message-ID") {
			m.internet = strings.TrimSpace(value)
		}
	}
	b.mails = append(b.mails, m)
	b.arrived = append(b.arrived, arrival{folder, m})
	return m
}

// find returns an account's mail by its immutable id, or nil.
func (b *mailbox) find(id string) *mail {
	for _, m := range b.mails {
		if m.id == id && !m.deleted {
			return m
		}
	}
	return nil
}

// change changes a mail.
func (g *Graph) change(account, id string, change func(*mailbox, *mail)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.box(account)
	if m := b.find(id); m != nil {
		change(b, m)
	}
}

// Delete deletes a mail.
func (g *Graph) Delete(account, id string) {
	g.change(account, id, func(_ *mailbox, m *mail) { m.deleted = true })
}

// Move moves a mail into a folder.
func (g *Graph) Move(account, id, folder string) {
	g.change(account, id, func(b *mailbox, m *mail) {
		m.folder = folder
		m.moved++
		b.arrived = append(b.arrived, arrival{folder, m})
	})
}

// Mark sets whether a mail was read, flagged, or is a draft.
func (g *Graph) Mark(account, id string, read, flagged, draft bool) {
	g.change(account, id, func(_ *mailbox, m *mail) { m.read, m.flagged, m.draft = read, flagged, draft })
}

// Forget forgets all state tokens.
func (g *Graph) Forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.states)
}

// Sends returns how many requests with a mail to send there were, of all accounts.
func (g *Graph) Sends() (sends int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.boxes {
		sends += b.stats.Sends
	}
	return sends
}

// Sent returns the mails in an account's sent items, the oldest first.
func (g *Graph) Sent(account string) (all []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.box(account).mails {
		if m.folder == "sentitems" && !m.deleted {
			all = append(all, string(m.raw))
		}
	}
	return all
}
