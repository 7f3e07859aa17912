package fetch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"unicode/utf8"
)

// ErrPublic reports that a confined call would have gone to the public internet, or
// through a proxy. Confined calls send a secret without TLS.
var ErrPublic = errors.New("without TLS a secret is sent only to private addresses, and not through a proxy: use https, or name the private host in ROUNDS_NO_PROXY")

// of returns the transport for a call's requests to an origin.
func (w *way) of(call Call, origin *url.URL) http.RoundTripper {
	direct, proxied := w.direct, http.RoundTripper(w.proxied)
	// A transport that replaces the network has no addresses to judge. A transport that refuses every
	// call sends nothing.
	replaced := w.round != direct && w.round != proxied
	if !call.Confined || origin.Scheme == "https" || replaced {
		return w.round
	}
	return confinedWay{w, origin}
}

// linesOf returns the lines for a held call, or nil if the call goes another way: through a proxy,
// or to a host whose name must be encoded first.
func (w *way) linesOf(call Call, to *url.URL) *lines {
	switch {
	case w.round != w.direct || call.MaxRedirects > 0 || !ascii(to.Host):
		return nil
	case call.Confined && to.Scheme != "https":
		return w.quiet
	}
	return w.lines
}

func ascii(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c >= utf8.RuneSelf })
}

// confinedWay sends requests to one origin only to private addresses. It sends others as usual.
type confinedWay struct {
	way    *way
	origin *url.URL
}

// RoundTrip implements http.RoundTripper.
func (c confinedWay) RoundTrip(request *http.Request) (*http.Response, error) {
	if !sameOrigin(request.URL, c.origin) {
		return c.way.round.RoundTrip(request)
	}
	if c.way.proxied != nil {
		to, err := c.way.proxied.proxyOf(request.URL)
		if err != nil {
			return nil, ErrURL
		}
		if to != nil {
			return nil, c.way.noSecret()
		}
	}
	return overLines{c.way.quiet, c.way.confined}.RoundTrip(request)
}

// newConfined returns the transport of confined calls. It has its own connections,
// because the connections of other calls may lead anywhere.
func (w *way) newConfined() *http.Transport {
	confined := w.transport.Clone()
	confined.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if w.out.Proxy != nil {
			return nil, w.noSecret()
		}
		return w.dialUnder(ctx, network, address, func(rule control) control {
			return func(network, address string, conn syscall.RawConn) error {
				if err := rule(network, address, conn); err != nil {
					return err
				}
				if target, err := netip.ParseAddrPort(address); err != nil || public(target.Addr()) {
					return ErrPublic
				}
				return nil
			}
		})
	}
	return confined
}
