package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/net/http/httpproxy"
)

// ErrProxy reports a proxy's URL that cannot be used. It does not quote the URL.
var ErrProxy = errors.New("must be a URL such as http://proxy.example.com:3128, of the scheme http or https")

// ValidateProxy checks a proxy's URL, which may have a user and a password. The error is
// ErrProxy.
func ValidateProxy(raw string) error {
	_, err := parseProxy(raw)
	return err
}

// ValidateNoProxy checks Options.NoProxy. The error quotes the wrong entry.
func ValidateNoProxy(list string) error {
	if list == "" {
		return nil
	}
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if _, err := netip.ParsePrefix(entry); err != nil && (entry == "" || strings.ContainsAny(entry, "/ @\t")) {
			return fmt.Errorf("%q is neither a host's name, nor an address, nor a network such as 10.0.0.0/8", entry)
		}
	}
	return nil
}

func parseProxy(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, ErrProxy
	}
	bare := *u
	bare.User = nil
	if checkURL(&bare) != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return nil, ErrProxy
	}
	return u, nil
}

// proxied sends requests through a proxy, or directly to hosts that need no proxy.
// Behind the proxy, only a URL's address can be judged, because the proxy resolves
// names. A direct request is judged as usual, at each connection.
type proxied struct {
	rule    Rule
	way     string                           // the name of the way of Options.Ways; empty: it is none
	through func(*url.URL) (*url.URL, error) // nil: directly
	direct  http.RoundTripper
	proxy   *http.Transport // for http: the proxy makes the request
	tunnel  *http.Transport // for https: the proxy connects to the host
}

// exceptBy returns which URLs need the proxy, by Options.NoProxy.
func exceptBy(to *url.URL, except string) func(*url.URL) (*url.URL, error) {
	config := httpproxy.Config{HTTPProxy: to.String(), HTTPSProxy: to.String(), NoProxy: except}
	return config.ProxyFunc()
}

// newProxied returns the transport through a proxy. Requests for which through returns no proxy use
// the direct transport.
func (w *way) newProxied(to *url.URL, through func(*url.URL) (*url.URL, error)) *proxied {
	p := &proxied{rule: w.rule, way: w.out.Name, through: through, direct: w.direct, proxy: w.transport.Clone(), tunnel: w.transport.Clone()}
	p.tunnel.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) { return w.tunnel(ctx, to, address) }
	// The operator names the proxy, so its address is not judged.
	p.proxy.Proxy = http.ProxyURL(to)
	p.proxy.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) { return w.dialProxy(ctx, address) }
	return p
}

// closeIdle closes the idle connections.
func (p *proxied) closeIdle() {
	p.proxy.CloseIdleConnections()
	p.tunnel.CloseIdleConnections()
}

// noProxy refuses every call, for a proxy that cannot be used.
type noProxy struct{}

// RoundTrip implements http.RoundTripper.
func (noProxy) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &Error{Code: CodeProxy, text: "the proxy's URL " + ErrProxy.Error(), blame: blameUs}
}

// proxyOf returns the proxy for a URL, or nil if the URL is reached directly.
func (p *proxied) proxyOf(u *url.URL) (*url.URL, error) {
	target := *u
	target.Host = Host(target.String()) // in lower case, and without the dot at its end
	if host, port, err := net.SplitHostPort(target.Host); err == nil {
		target.Host = net.JoinHostPort(strings.TrimSuffix(host, "."), port)
	}
	return p.through(&target)
}

// RoundTrip implements http.RoundTripper.
func (p *proxied) RoundTrip(request *http.Request) (*http.Response, error) {
	to, err := p.proxyOf(request.URL)
	if err != nil {
		return nil, ErrURL
	}
	if to == nil {
		return p.direct.RoundTrip(request)
	}
	if err := p.rule.judge(request.URL); err != nil {
		return nil, err
	}
	if request.URL.Scheme == "https" {
		return p.tunnel.RoundTrip(request)
	}
	var heard atomic.Bool
	trace := &httptrace.ClientTrace{GotFirstResponseByte: func() { heard.Store(true) }}
	answer, err := p.proxy.RoundTrip(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	switch {
	case err != nil:
		return nil, p.failure(request.Context(), err, heard.Load())
	case answer.StatusCode == http.StatusProxyAuthRequired:
		answer.Body.Close()
		return nil, tunnelError(answer, p.way)
	}
	answer.Request = request
	return answer, nil
}

// failure returns the error of a request that the proxy was to make. The connection is the proxy's, so
// until a byte of an answer has come, its end is too: a proxy whose host has cut answers 502.
func (p *proxied) failure(ctx context.Context, err error, heard bool) error {
	failed := newError(ctx, err, true)
	op, ok := errors.AsType[*net.OpError](err)
	switch {
	case has[*Error](err), ctx.Err() != nil:
	case ok && op.Op == "proxyconnect": // by net/http, before the request: TLS with the proxy
		return brokenProxy("TLS failed", p.way)
	case failed.Code == CodeReset && !heard:
		return brokenProxy("the connection broke off", p.way)
	}
	return err
}

// brokenProxy returns the error for a proxy that does not answer as one.
func brokenProxy(how, way string) *Error {
	return (&Error{Code: CodeProxy, text: strings.TrimSuffix("no connection through the proxy: "+how, ": "), blame: blameUs}).by(way)
}

// unreachedProxy returns the error for a failed connection to the proxy of a way.
func unreachedProxy(err error, way string) *Error {
	e := &Error{Code: CodeProxy, text: "no connection to the proxy", blame: blameUs}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return e.by(way)
	}
	e.text, e.cause = e.text+": "+errno.Error(), errno
	if op, ok := errors.AsType[*net.OpError](err); ok && ours(errno, op.Addr) {
		return e // the rest of the network is out of reach too
	}
	return e.by(way)
}

// by blames a way for a proxy that cannot be used, and names it. Without a name the fault stays ours.
func (e *Error) by(way string) *Error {
	if way != "" {
		e.text, e.blame = fmt.Errorf("the way %s: %w", way, e).Error(), blameWay
	}
	return e
}

// tunnelError returns the error for a proxy's answer to CONNECT, or nil if the proxy has connected.
//
// The way is to blame for what no host can cause: the proxy refuses the login or the method, asks for
// money or fewer requests, or says itself that it has failed (RFC 9209, 2.3). The host is to blame for
// any other answer of 500 to 599, or one account with a dead host would stop all accounts of the way:
// Squid answers 503 for a name that it cannot resolve, and nginx 502. A proxy that reaches no host shows
// as an outage of its way. If the proxy refuses the host, the account is to blame.
func tunnelError(answer *http.Response, way string) error {
	said := fmt.Sprintf("%d %s", answer.StatusCode, cmp.Or(http.StatusText(answer.StatusCode), "of its own"))
	switch status := answer.StatusCode; {
	case status >= 200 && status <= 299:
		return nil
	case status == http.StatusProxyAuthRequired, status == http.StatusUnauthorized:
		return (&Error{Code: CodeProxy, text: "the proxy refuses the login: " + said, blame: blameUs}).by(way)
	case status == http.StatusPaymentRequired, status == http.StatusMethodNotAllowed, status == http.StatusTooManyRequests, status == http.StatusNotImplemented,
		status >= 500 && strings.Contains(answer.Header.Get("Proxy-Status"), "error=proxy_"):
		return (&Error{Code: CodeProxy, text: "the proxy refuses to connect: " + said, blame: blameUs}).by(way)
	case status >= 500:
		return &Error{Code: CodeConnect, text: "the proxy has no connection to the host: " + said, blame: blameHost}
	}
	return &Error{Code: CodeRefusedAddress, text: "the proxy refuses the host: " + said, cause: ErrRefusedAddress}
}
