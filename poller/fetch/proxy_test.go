package fetch

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/dnstest"
)

// gateway is an HTTP proxy that leads all requests to one server, whatever host they ask for.
type gateway struct {
	url   string
	asked atomic.Pointer[string] // the last host that it was asked for
	auth  atomic.Pointer[string] // the login that it was sent
}

func newGateway(t *testing.T, to string) *gateway {
	t.Helper()
	g := &gateway{}
	target := mustParse(t, to).Host
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, auth := r.Host, r.Header.Get("Proxy-Authorization")
		g.asked.Store(&host)
		g.auth.Store(&auth)
		switch {
		case strings.HasPrefix(host, "login."):
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		case strings.HasPrefix(host, "away."):
			w.WriteHeader(http.StatusBadGateway)
			return
		case strings.HasPrefix(host, "denied."):
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if r.Method != http.MethodConnect {
			request, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+target+r.URL.Path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			answer, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Body.Close()
			w.WriteHeader(answer.StatusCode)
			_, _ = io.Copy(w, answer.Body)
			return
		}
		out, err := net.Dial("tcp", target)
		if err != nil {
			t.Error(err)
			return
		}
		in, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
		_, _ = io.Copy(in, out)
		_ = in.Close()
	}))
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

func proxiedClient(t *testing.T, o Options) *Client {
	t.Helper()
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

// The proxy itself may be at a private address. It resolves the hosts' names.
func TestCallsGoThroughTheProxy(t *testing.T) {
	g := newGateway(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "feed") }))
	c := proxiedClient(t, Options{Proxy: strings.Replace(g.url, "://", "://me:pass@", 1)})
	answer, err := c.Do(t.Context(), Call{URL: "http://feeds.example/x"})
	if err != nil || string(answer.Body) != "feed" || *g.asked.Load() != "feeds.example" || *g.auth.Load() != "Basic bWU6cGFzcw==" {
		t.Errorf("got %v, %v, asked for %v", answer, err, g.asked.Load())
	}
	// TLS is with the host, not with the proxy. This host does not speak TLS.
	_, err = c.Do(t.Context(), Call{URL: "https://feeds.example/x"})
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != CodeTLS || *g.asked.Load() != "feeds.example:443" {
		t.Errorf("got %v, asked for %v", err, *g.asked.Load())
	}
}

// What can be checked is checked even with a proxy. A private address is refused in any
// spelling, and as the target of a redirect.
func TestAddressesAreRefusedBeforeTheProxy(t *testing.T) {
	g := newGateway(t, serve(t, func(w http.ResponseWriter, r *http.Request) {}))
	c := proxiedClient(t, Options{Proxy: g.url})
	for _, host := range []string{"10.0.0.1", "169.254.169.254", "[fd00::1]", "[::ffff:10.0.0.1]", "2130706433", "0x7f000001", "0x7f.1", "10.0.0.0x1", "10.0.1", "0177.0.0.1", "\uff11\uff12\uff17.0.0.1", "169\u3002254\u3002169\u3002254", "x.localhost", "a.localhost."} {
		for _, scheme := range []string{"http://", "https://"} {
			_, err := c.Do(t.Context(), Call{URL: scheme + host + "/"})
			if !errors.Is(err, ErrRefusedAddress) {
				t.Errorf("%s: got %v", scheme+host, err)
			}
		}
	}
	if g.asked.Load() != nil {
		t.Errorf("the proxy was asked for %s", *g.asked.Load())
	}
	open := proxiedClient(t, Options{Proxy: g.url, AllowPrivate: true})
	if _, err := open.Do(t.Context(), Call{URL: "http://10.0.0.1/"}); err != nil || *g.asked.Load() != "10.0.0.1" {
		t.Errorf("where private addresses are allowed: %v", err)
	}
	some := proxiedClient(t, Options{Proxy: g.url, Networks: networks("10.1.0.0/16")})
	if _, err := some.Do(t.Context(), Call{URL: "http://10.1.2.3/"}); err != nil {
		t.Errorf("in a network that is allowed: %v", err)
	}
}

func TestRedirectsAreJudgedBeforeTheProxy(t *testing.T) {
	redirecting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://169.254.169.254/latest/")
		w.WriteHeader(http.StatusFound)
	}))
	t.Cleanup(redirecting.Close)
	c := proxiedClient(t, Options{Proxy: redirecting.URL}) // answers for any host
	if _, err := c.Do(t.Context(), Call{URL: "http://feeds.example/", MaxRedirects: 3}); !errors.Is(err, ErrRefusedAddress) {
		t.Errorf("got %v", err)
	}
}

// Calls to hosts left out of the proxy and to loopback go directly, and their addresses are
// checked.
func TestWhatIsLeftOutOfTheProxyIsJudged(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {})
	port := mustParse(t, server).Port()
	g := newGateway(t, server)
	resolve := dnstest.Resolver(func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	c := proxiedClient(t, Options{Proxy: g.url, NoProxy: "inner.example, 10.0.0.0/8", Resolver: resolve})
	for _, url := range []string{"http://inner.example.:" + port, "http://a.inner.example:" + port, "http://10.0.0.1:" + port, "http://127.0.0.1:" + port, g.url} {
		if _, err := c.Do(t.Context(), Call{URL: url}); !errors.Is(err, ErrRefusedAddress) && !isNoAddress(err) {
			t.Errorf("%s: got %v", url, err)
		}
	}
	if g.asked.Load() != nil {
		t.Errorf("the proxy was asked for %s", *g.asked.Load())
	}
	if _, err := client(t, Options{Proxy: g.url, NoProxy: "*", Resolver: resolve}).Do(t.Context(), Call{URL: "http://any.example.:" + port}); err != nil || g.asked.Load() != nil {
		t.Errorf("all left out: %v", err)
	}
}

func TestFaultsOfTheProxy(t *testing.T) {
	g := newGateway(t, serve(t, func(http.ResponseWriter, *http.Request) {}))
	c := proxiedClient(t, Options{Proxy: g.url})
	gone := proxiedClient(t, Options{Proxy: "http://me:s3cret@127.0.0.1:1"})
	bad := proxiedClient(t, Options{Proxy: "socks5://s3cret"})
	for _, tt := range []struct {
		client *Client
		url    string
		code   Code
		scope  poller.ErrorScope
		text   string
	}{
		{gone, "https://feeds.example/", CodeProxy, poller.ScopeEgress, "no connection to the proxy: connection refused"},
		{gone, "http://feeds.example/", CodeProxy, poller.ScopeEgress, "no connection to the proxy: connection refused"},
		{bad, "http://feeds.example/", CodeProxy, poller.ScopeEgress, "the proxy's URL must be a URL such as"},
		{c, "https://login.example/", CodeProxy, poller.ScopeEgress, "the proxy refuses the login: 407"},
		{c, "http://login.example/", CodeProxy, poller.ScopeEgress, "the proxy refuses the login: 407"},
		{c, "https://away.example/", CodeConnect, poller.ScopeRateKey, "the proxy has no connection to the host: 502"},
		{c, "https://denied.example/", CodeRefusedAddress, poller.ScopeAccount, "the proxy refuses the host: 403"},
	} {
		_, err := tt.client.Do(t.Context(), Call{URL: tt.url})
		var failed *Error
		if !errors.As(err, &failed) || failed.Code != tt.code || CheckError(err).Scope != tt.scope || !strings.HasPrefix(err.Error(), tt.text) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v", tt.url, err)
		}
	}
}

func TestValidateProxy(t *testing.T) {
	for url, ok := range map[string]bool{
		"http://proxy:3128": true, "https://u:p@proxy.example/": true, "http://10.0.0.1:8080": true,
		"proxy:3128": false, "socks5://proxy:1080": false, "http://": false, "http://proxy/path": false, "http://proxy?x=1": false, "http://proxy:0": false, "http://[x": false,
	} {
		if err := ValidateProxy(url); (err == nil) != ok || err != nil && !errors.Is(err, ErrProxy) {
			t.Errorf("%s: got %v", url, err)
		}
	}
	for list, ok := range map[string]bool{"": true, "a.example, .b.example,10.0.0.0/8,[::1]:80,*": true, "a,,b": false, "http://a": false, "10.0.0.0/64": false, "a b": false} {
		if err := ValidateNoProxy(list); (err == nil) != ok {
			t.Errorf("%s: got %v", list, err)
		}
	}
}
