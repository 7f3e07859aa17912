package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// tlsServer serves over TLS, and has a client trust it.
func tlsServer(t *testing.T, c *Client, handler http.HandlerFunc, change func(*httptest.Server)) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	change(server)
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	c.way.Load().lines.config("127.0.0.1").RootCAs = roots
	return server.URL
}

// A host whose connection was closed is asked to resume the TLS session, but not after the
// client's rule has changed.
func TestTLSSessionsAreResumed(t *testing.T) {
	var last atomic.Pointer[tls.ConnectionState]
	c := client(t, Options{})
	url := tlsServer(t, c, func(_ http.ResponseWriter, r *http.Request) { last.Store(r.TLS) }, func(*httptest.Server) {})
	for i, resumed := range []bool{false, true, true} {
		if _, err := c.Do(t.Context(), Call{URL: url}); err != nil {
			t.Fatal(err)
		}
		if got := last.Load().DidResume; got != resumed {
			t.Errorf("call %d: resumed %t, want %t", i, got, resumed)
		}
		c.Close() // the connection
	}
	roots := c.way.Load().lines.config("127.0.0.1").RootCAs
	c.Permit(networks("127.0.0.1"))
	c.way.Load().lines.config("127.0.0.1").RootCAs = roots
	if _, err := c.Do(t.Context(), Call{URL: url}); err != nil || last.Load().DidResume {
		t.Errorf("after the rule has changed: resumed %t, %v", last.Load().DidResume, err)
	}
}

// A connection stays open for the next call, unless so many others do already.
func TestKeptConnections(t *testing.T) {
	for _, test := range []struct{ kept, made int }{{1, 6}, {2, 2}} {
		var made atomic.Int64
		count := func(s *httptest.Server) {
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					made.Add(1)
				}
			}
		}
		c := client(t, Options{Kept: test.kept})
		one := httptest.NewUnstartedServer(http.NotFoundHandler())
		other := httptest.NewUnstartedServer(http.NotFoundHandler())
		for _, server := range []*httptest.Server{one, other} {
			count(server)
			server.Start()
			t.Cleanup(server.Close)
		}
		for range 3 {
			for _, server := range []*httptest.Server{one, other} {
				if _, err := c.Do(t.Context(), Call{URL: server.URL}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := int(made.Load()); got != test.made {
			t.Errorf("%d kept: %d connections for six calls of two hosts, want %d", test.kept, got, test.made)
		}
	}
}
