package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rounds-dev/rounds/poller/egress"
)

// Options are the settings of a Client. The zero Options are safe and usable.
type Options struct {
	UserAgent     string        // see UserAgent; empty: without a version
	AllowPrivate  bool          // see Rule
	Networks      Networks      // see Rule, and Client.Permit
	Reserved      *Reserved     // see Rule
	Program       string        // see Rule
	DialTimeout   time.Duration // for a host's name and all its addresses; 0: 10 s
	TLSTimeout    time.Duration // 0: 10 s
	HeaderTimeout time.Duration // from the request to the answer's header; 0: only ctx limits it
	Timeout       time.Duration // for a whole call whose ctx has no deadline; 0: 30 s
	Resolver      *net.Resolver // nil: the system's
	// Kept is the most connections that stay open between calls. It is also for how many hosts the
	// last TLS session is remembered, which makes the next handshake cheaper. 0: 1024. All ways share them.
	Kept int
	// Proxy is the URL of an HTTP proxy for calls, which may have a user and a password;
	// see ValidateProxy. The proxy then resolves names and decides where they may lead.
	// Dial does not use it, and neither does an account that goes by one of Ways. Empty: no
	// proxy, whatever the environment says.
	Proxy string
	// NoProxy lists hosts that are reached directly, as in the variable NO_PROXY: names,
	// which include the names below them, addresses and networks, separated by commas,
	// each with an optional :PORT; * for all. Loopback addresses are always reached
	// directly.
	NoProxy string
	// Ways are the named ways out. If there are any, a call must have a context of an account (see
	// egress.For), which decides by which way it goes: a call of nobody's goes by none. All that a
	// way's accounts call goes by it, loopback addresses too.
	Ways egress.Ways
	// Transport replaces the network, for tests in fake time. Then no address is
	// judged.
	Transport http.RoundTripper
	// Connect replaces the network of Dial in the same way.
	Connect func(ctx context.Context, address string) (net.Conn, error)
}

// UserAgent returns the User-Agent header for a version of this program, the commit that it was
// built from, and a contact of who runs it: see ValidateContact. It leaves out what is empty, and
// characters that a header's token cannot have: (devel) becomes devel. Without a contact it has this
// project's address.
func UserAgent(version, commit, contact string) string {
	product, about := "rounds", "+"+cmp.Or(contact, "https://github.com/rounds-dev/rounds")
	if version = token(version); version != "" {
		product += "/" + version
	}
	if commit = token(commit); commit != "" && !strings.Contains(version, commit) {
		about = commit + "; " + about
	}
	return product + " (" + about + ")"
}

// defaultKept is what Options.Kept is by default.
const defaultKept = 1024

// maxContact is the most bytes of a contact.
const maxContact = 256

var errContact = errors.New("must be a URL such as https://example.com/bot or mailto:ops@example.com, of at most 256 bytes, without spaces, quotes, parentheses and backslashes")

// ValidateContact returns what is wrong with a contact for UserAgent.
func ValidateContact(contact string) error {
	parsed, err := url.Parse(contact)
	whole := err == nil && (parsed.Host != "" && (parsed.Scheme == "https" || parsed.Scheme == "http") || parsed.Scheme == "mailto" && strings.Contains(parsed.Opaque, "@"))
	odd := func(char rune) bool { return char <= ' ' || char > '~' || strings.ContainsRune(`()\"`, char) }
	if !whole || len(contact) > maxContact || strings.ContainsFunc(contact, odd) {
		return errContact
	}
	return nil
}

// token returns a text without the characters that RFC 9110 forbids in a token.
func token(text string) string {
	return strings.Map(func(c rune) rune {
		if c > ' ' && c < 0x7f && !strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c) {
			return c
		}
		return -1
	}, text)
}

// A Client makes calls. It is safe for concurrent use. A process should have only one, because it
// owns the open connections and bounds the memory of answers.
type Client struct {
	options   Options
	userAgent []string // the header's values
	codings   []string // Accept-Encoding's
	way       atomic.Pointer[way]
	room      room
}

// New returns a client.
func New(options Options) *Client {
	options.UserAgent = cmp.Or(options.UserAgent, UserAgent("", "", ""))
	options.Timeout = cmp.Or(options.Timeout, 30*time.Second)
	c := &Client{options: options, userAgent: []string{options.UserAgent}, codings: []string{codings}, room: newRoom()}
	c.way.Store(newWays(options))
	return c
}

// Product returns the name and version of the User-Agent header, for protocols other than HTTP. The
// version may be empty.
func (c *Client) Product() (name, version string) {
	product, _, _ := strings.Cut(c.options.UserAgent, " ")
	name, version, _ = strings.Cut(product, "/")
	return name, version
}

// Permit replaces Options.Networks for calls that begin from now on. These calls do not
// use older connections.
func (c *Client) Permit(networks Networks) {
	options := c.options
	options.Networks = networks
	for _, w := range c.way.Swap(newWays(options)).all() {
		w.close()
	}
}

// Close closes the idle connections. Running calls continue.
func (c *Client) Close() {
	for _, w := range c.way.Load().all() {
		w.lines.empty()
		w.quiet.empty()
		w.closeIdle()
	}
}

// connBuffer is the size in bytes of a connection's read buffer, and of its write buffer. Thousands
// of connections wait for an answer most of the time. Larger reads and writes bypass the buffer.
const connBuffer = 1 << 10

// way holds the transports of calls under one Rule, of one way out.
type way struct {
	out       egress.Way      // the zero Way: the one without a name
	named     map[string]*way // only of the way without a name: the others
	rule      Rule
	dialer    net.Dialer
	names     *names
	transport *http.Transport
	confined  *http.Transport   // see Call.Confined
	lines     *lines            // for calls over HTTP/1.1
	quiet     *lines            // for confined calls over HTTP/1.1
	direct    http.RoundTripper // over lines, or the transport
	proxied   *proxied          // nil: there is no proxy
	round     http.RoundTripper // direct, proxied, or Options.Transport
}

// newWays returns the way without a name, with the named ones.
func newWays(options Options) *way {
	outs := options.Ways.All()
	// All ways share the connections that may be kept open.
	options.Kept = max(1, cmp.Or(options.Kept, defaultKept)/(1+len(outs)))
	w := newWay(options, egress.Way{})
	w.named = make(map[string]*way, len(outs))
	for i := range outs {
		w.named[outs[i].Name] = newWay(options, outs[i])
	}
	return w
}

// all returns the way without a name and the named ones.
func (w *way) all() []*way { return append(slices.Collect(maps.Values(w.named)), w) }

// wayOf returns the way of the account for which a context calls.
func (c *Client) wayOf(ctx context.Context) (*way, error) {
	w := c.way.Load()
	if len(w.named) == 0 {
		return w, nil
	}
	a := egress.Of(ctx)
	if a == nil {
		return nil, errNobody
	}
	name, err := c.options.Ways.Choose(a)
	switch {
	case err != nil:
		return nil, &Error{Code: CodeUnknownWay, text: err.Error(), blame: blameUs}
	case name == "":
		return w, nil
	}
	return w.named[name], nil
}

func newWay(options Options, out egress.Way) *way {
	w := &way{out: out, rule: Rule{Private: options.AllowPrivate, Networks: options.Networks, Reserved: options.Reserved, Program: options.Program}}
	w.dialer = net.Dialer{Timeout: cmp.Or(options.DialTimeout, 10*time.Second), Resolver: options.Resolver}
	w.names = newNames(options.Resolver)
	kept := options.Kept
	if out.Source.IsValid() {
		w.dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(out.Source, 0))
	}
	w.transport = &http.Transport{
		Proxy:                  nil, // the environment's is not used: newProxied decides what goes through a proxy
		DialContext:            w.dial,
		ForceAttemptHTTP2:      true,
		TLSClientConfig:        &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(kept)},
		TLSHandshakeTimeout:    cmp.Or(options.TLSTimeout, 10*time.Second),
		ResponseHeaderTimeout:  options.HeaderTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns:           kept,
		ReadBufferSize:         connBuffer,
		WriteBufferSize:        connBuffer,
		MaxIdleConnsPerHost:    32, // many accounts share a host
		IdleConnTimeout:        90 * time.Second,
	}
	w.confined = w.newConfined()
	w.lines = newLines(kept, w.transport.TLSHandshakeTimeout, w.dial)
	w.quiet = newLines(kept, w.transport.TLSHandshakeTimeout, w.confined.DialContext)
	w.direct = overLines{w.lines, w.transport}
	if options.HeaderTimeout > 0 {
		w.direct = w.transport
	}
	w.round = w.direct
	switch {
	case out.Proxy != nil && out.Proxy.Scheme != schemeSOCKS:
		w.proxied = w.newProxied(out.Proxy, func(*url.URL) (*url.URL, error) { return out.Proxy, nil })
		w.round = w.proxied
	case out.Name == "" && options.Proxy != "":
		to, err := parseProxy(options.Proxy)
		if err != nil {
			w.round = noProxy{} // no call bypasses a configured proxy
		} else {
			w.proxied = w.newProxied(to, exceptBy(to, options.NoProxy))
			w.round = w.proxied
		}
	}
	if options.Transport != nil {
		w.round = options.Transport
	}
	return w
}

// dial connects through the way's proxy, or under the rule, which judges each address of the host.
func (w *way) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if w.out.Proxy != nil {
		return w.tunnel(ctx, w.out.Proxy, address)
	}
	return w.dialUnder(ctx, network, address, func(rule control) control { return rule })
}

// control is a dialer's hook between name resolution and connect.
type control = func(network, address string, conn syscall.RawConn) error

// dialUnder connects under the rule. more returns further hooks, given the rule's own.
func (w *way) dialUnder(ctx context.Context, network, address string, more func(control) control) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, ErrHost
	}
	dialer := w.dialer
	dialer.Control = more(w.rule.guard(host))
	switch source := w.out.Source; {
	case !source.IsValid():
	case source.Is4():
		network += "4"
	default:
		network += "6"
	}
	conn, err := w.names.reach(ctx, dialer, network, host, port)
	if err != nil && w.out.Source.IsValid() && errors.Is(err, syscall.EADDRNOTAVAIL) {
		return nil, errSource
	}
	return conn, err
}

// close closes the idle connections. Connections of running calls are closed after their calls.
func (w *way) close() {
	w.lines.close()
	w.quiet.close()
	w.closeIdle()
}

func (w *way) closeIdle() {
	w.transport.CloseIdleConnections()
	w.confined.CloseIdleConnections()
	if w.proxied != nil {
		w.proxied.closeIdle()
	}
}
