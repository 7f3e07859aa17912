package fetch

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Options are the settings of a Client. The zero Options are safe and usable.
type Options struct {
	UserAgent     string         // see UserAgent; empty: without a version
	AllowPrivate  bool           // any address may be reached; for trusted records only
	Allow         []netip.Prefix // networks that may be reached though they are not public
	DialTimeout   time.Duration  // for each address; 0: 10 s
	TLSTimeout    time.Duration  // 0: 10 s
	HeaderTimeout time.Duration  // from the request to the answer's header; 0: only ctx limits it
	Timeout       time.Duration  // for a whole call whose ctx has no deadline; 0: 30 s
	Resolver      *net.Resolver  // nil: the system's
	// Proxy is the URL of an HTTP proxy that calls go through, with a user and password
	// if need be; see ValidateProxy. Where names lead to is the proxy's to judge then.
	// Dial does not go through it. Empty: none, whatever the environment says.
	Proxy string
	// NoProxy are hosts that are reached directly, as in the variable NO_PROXY: names, also
	// for what is below them, addresses and networks, separated by commas, each with
	// :PORT if need be; * for all. So are loopback addresses.
	NoProxy string
	// Transport replaces the network, for tests in fake time. Then no address is
	// judged.
	Transport http.RoundTripper
}

// UserAgent is what upstreams see of a version of this program.
func UserAgent(version string) string {
	return "rounds/" + version + " (+https://github.com/rounds-dev/rounds)"
}

// A Client makes calls. It is safe for concurrent use, and there should be one
// in a process: it holds the connections that are kept open, and bounds the memory
// that answers take up.
type Client struct {
	options   Options
	dialer    *net.Dialer
	transport *http.Transport
	proxied   *proxied          // nil: there is no proxy
	round     http.RoundTripper // transport, proxied, or Options.Transport
	room      room
}

// New makes a client.
func New(options Options) *Client {
	options.UserAgent = cmp.Or(options.UserAgent, "rounds (+https://github.com/rounds-dev/rounds)")
	options.Timeout = cmp.Or(options.Timeout, 30*time.Second)
	c := &Client{options: options, room: newRoom()}
	c.dialer = &net.Dialer{
		Timeout:  cmp.Or(options.DialTimeout, 10*time.Second),
		Resolver: options.Resolver,
		Control:  c.control,
	}
	c.transport = &http.Transport{
		Proxy: nil, // not that of the environment: newProxied judges what goes through one
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.dialer.DialContext(ctx, network, address)
		},
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    cmp.Or(options.TLSTimeout, 10*time.Second),
		ResponseHeaderTimeout:  options.HeaderTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    32, // many accounts share a host
		IdleConnTimeout:        90 * time.Second,
	}
	c.round = c.transport
	if options.Proxy != "" {
		to, err := parseProxy(options.Proxy)
		if err != nil {
			c.round = noProxy{} // never past a proxy that was meant
		} else {
			c.proxied = c.newProxied(to, options.NoProxy, c.transport)
			c.round = c.proxied
		}
	}
	if options.Transport != nil {
		c.round = options.Transport
	}
	return c
}

// Close closes the connections that are kept open. Calls under way go on.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	if c.proxied != nil {
		c.proxied.proxy.CloseIdleConnections()
	}
}
