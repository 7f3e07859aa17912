package fetch

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/dnstest"
)

// The header of a confined call never reaches the public internet, whatever a name resolves
// to, and not even over a connection that another call has left open.
func TestConfinedCallsStayPrivate(t *testing.T) {
	base, err := url.Parse(serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Header.Get("X-Secret"))) }))
	if err != nil {
		t.Fatal(err)
	}
	home, abroad := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("93.184.215.14")
	names := dnstest.Resolver(func(name string) []netip.Addr {
		if strings.HasPrefix(name, "inside.") {
			return []netip.Addr{home}
		}
		return []netip.Addr{abroad}
	})
	c := client(t, Options{Resolver: names})
	secret := http.Header{"X-Secret": {"hunter2"}}
	inside := "http://inside.test:" + base.Port()
	if got, err := c.Do(t.Context(), Call{URL: inside, Header: secret, Confined: true}); err != nil || string(got.Body) != "hunter2" {
		t.Errorf("a private host: %+v, %v", got, err)
	}
	for _, to := range []string{"http://outside.test:" + base.Port(), "http://93.184.215.14:" + base.Port()} {
		_, err := c.Do(t.Context(), Call{URL: to, Header: secret, Confined: true})
		var failed *Error
		if !errors.As(err, &failed) || failed.Code != CodeRefusedAddress || !errors.Is(err, ErrPublic) || strings.Contains(err.Error(), "93.184") {
			t.Errorf("%s: %v", to, err)
		}
	}
	// Confined calls do not use the transport of other calls.
	way := c.way.Load()
	if way.of(Call{Confined: true}, base) == way.of(Call{}, base) || way.confined == way.transport {
		t.Error("confined calls share connections with others")
	}
	if https := (&url.URL{Scheme: "https", Host: "outside.test"}); way.of(Call{Confined: true}, https) != way.round {
		t.Error("TLS is not confined")
	}
}

// A redirect to another host is followed as usual, without the call's own header.
func TestConfinedCallsThatAreRedirected(t *testing.T) {
	var seen http.Header
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() })
	first := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) })
	c := client(t, Options{})
	_, err := c.Do(t.Context(), Call{URL: first, Header: http.Header{"X-Secret": {"hunter2"}}, MaxRedirects: 3, Confined: true})
	if err != nil || seen == nil || seen.Get("X-Secret") != "" {
		t.Errorf("%v, %v", seen, err)
	}
}

func TestConfinedCallsAvoidProxies(t *testing.T) {
	var asked []string
	proxy := serve(t, func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r.URL.String()) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.NotFoundHandler()}}
	server.Start()
	defer server.Close()
	names := dnstest.Resolver(func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	c := client(t, Options{Proxy: proxy, NoProxy: "direct.test", Resolver: names})
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if _, err := c.Do(t.Context(), Call{URL: "http://inside.test:" + port, Confined: true}); !errors.Is(err, ErrPublic) {
		t.Errorf("through a proxy: %v", err)
	}
	if got, err := c.Do(t.Context(), Call{URL: "http://direct.test:" + port, Confined: true}); err != nil || got.Status != http.StatusNotFound {
		t.Errorf("past it: %+v, %v", got, err)
	}
	if len(asked) != 0 {
		t.Errorf("the proxy was asked for %v", asked)
	}
	bad := client(t, Options{Proxy: "ftp://proxy"})
	if _, err := bad.Do(t.Context(), Call{URL: "http://direct.test", Confined: true}); err == nil || !strings.Contains(err.Error(), "proxy") {
		t.Errorf("a proxy that cannot be used: %v", err)
	}
}
