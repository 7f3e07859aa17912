package fetch

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/dnstest"
)

// raw serves one fixed text on each connection, even if the text is broken HTTP.
func raw(t *testing.T, text string) string {
	t.Helper()
	return "http://" + cutting(t, func(conn net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, text)
	})
}

// Every failure has its code, kind and scope, and shows nothing of the URL.
func TestEveryFailure(t *testing.T) {
	const secret = "s3cret"
	hang := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	hangBody := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	large := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat(secret, 1000))) })
	zipped := raw(t, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 24\r\n\r\n"+strings.Repeat(secret, 4))
	redirect := func(to string) string {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		})
	}
	tlsServer := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsServer.Config.ErrorLog = log.New(io.Discard, "", 0)
	tlsServer.StartTLS()
	t.Cleanup(tlsServer.Close)
	plain := strings.Replace(hang, "http://", "https://", 1)
	closed := httptest.NewServer(nil)
	closed.Close()
	noName := dnstest.Resolver(func(string) []netip.Addr { return nil })
	noServer := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no way to " + secret)
	}}

	for _, c := range []struct {
		name    string
		url     string
		options Options
		code    Code
		kind    poller.ErrorKind
		scope   poller.ErrorScope
		is      error
	}{
		{"no such name", "http://s3cret.example.", Options{Resolver: noName}, CodeDNS, poller.Transient, poller.ScopeAccount, nil},
		{"no name server", "http://s3cret.example.", Options{Resolver: noServer}, CodeDNS, poller.Transient, poller.ScopeRateKey, nil},
		{"refused", closed.URL, Options{}, CodeConnect, poller.Transient, poller.ScopeRateKey, syscall.ECONNREFUSED},
		{"untrusted", tlsServer.URL, Options{}, CodeTLS, poller.Transient, poller.ScopeRateKey, nil},
		{"not TLS", plain, Options{}, CodeTLS, poller.Transient, poller.ScopeRateKey, nil},
		{"header timeout", hang, Options{HeaderTimeout: time.Millisecond}, CodeTimeout, poller.Transient, poller.ScopeAccount, context.DeadlineExceeded},
		{"timeout", hang, Options{Timeout: 300 * time.Millisecond}, CodeTimeout, poller.Transient, poller.ScopeAccount, context.DeadlineExceeded},
		{"body timeout", hangBody, Options{Timeout: 300 * time.Millisecond}, CodeTimeout, poller.Transient, poller.ScopeAccount, context.DeadlineExceeded},
		{"too large", large, Options{}, CodeTooLarge, poller.Protocol, poller.ScopeAccount, ErrTooLarge},
		{"no answer", raw(t, ""), Options{}, CodeReset, poller.Transient, poller.ScopeRateKey, nil},
		{"cut answer", raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ns3cret"), Options{}, CodeReset, poller.Transient, poller.ScopeRateKey, nil},
		{"not HTTP", raw(t, "s3cret\r\n\r\n"), Options{}, CodeHTTP, poller.Transient, poller.ScopeAccount, nil},
		{"huge header", raw(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat(secret, 20<<10)+"\r\n\r\n"), Options{}, CodeHTTP, poller.Transient, poller.ScopeAccount, nil},
		{"not gzip", zipped, Options{}, CodeHTTP, poller.Transient, poller.ScopeAccount, nil},
		{"redirect to a private address", redirect("http://10.0.0.1/?q=s3cret"), Options{}, CodeRefusedAddress, poller.Transient, poller.ScopeAccount, ErrRefusedAddress},
		{"redirect with user name", redirect("http://s3cret:s3cret@example.com/"), Options{}, CodeRefusedURL, poller.Transient, poller.ScopeAccount, ErrUserinfo},
		{"redirect to a file", redirect("file:///s3cret"), Options{}, CodeRefusedURL, poller.Transient, poller.ScopeAccount, ErrScheme},
		{"redirect to nonsense", redirect("http://[s3cret/"), Options{}, CodeHTTP, poller.Transient, poller.ScopeAccount, nil},
		{"nonsense", "http://[s3cret/", Options{}, CodeRefusedURL, poller.Transient, poller.ScopeAccount, ErrURL},
		{"private", "http://127.0.0.2", Options{}, CodeRefusedAddress, poller.Transient, poller.ScopeAccount, ErrRefusedAddress},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := client(t, c.options).Do(t.Context(), Call{
				URL: c.url + "/" + secret + "?token=" + secret, MaxBody: 100, MaxRedirects: 5,
				Header: http.Header{"Authorization": {secret}},
			})
			checked := CheckError(err)
			if checked.Code != string(c.code) || checked.Kind != c.kind || checked.Scope != c.scope {
				t.Errorf("got %s %s %s: %v", checked.Code, checked.Kind, checked.Scope, err)
			}
			if c.is != nil && !errors.Is(checked, c.is) {
				t.Errorf("%v is not %v", err, c.is)
			}
			for e := error(checked); e != nil; e = errors.Unwrap(e) {
				if strings.Contains(e.Error(), secret) {
					t.Errorf("%T tells a secret: %v", e, e)
				}
			}
		})
	}
}

// What is wrong with TLS is told apart.
func TestTLSFailuresSayWhich(t *testing.T) {
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	overTLS := func(url string) error {
		_, err := client(t, Options{}).Do(t.Context(), Call{URL: strings.Replace(url, "http://", "https://", 1)})
		return err
	}
	verified := func(err error) error {
		return newError(t.Context(), &tls.CertificateVerificationError{Err: err}, false)
	}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"HTTP", overTLS(serve(t, func(http.ResponseWriter, *http.Request) {})), "the host speaks HTTP on this port, not TLS"},
		{"neither", overTLS(raw(t, "220 mail.example.com ESMTP\r\n")), "the host does not speak TLS on this port"},
		{"unknown authority", overTLS(untrusted.URL), "the host's TLS certificate is self-signed, or from an authority that is not trusted"},
		{"wrong name", verified(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "s3cret"}), "the host's TLS certificate is for another name"},
		{"expired", verified(x509.CertificateInvalidError{Reason: x509.Expired}), "the host's TLS certificate has expired or is not valid yet"},
		{"not for servers", verified(x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}), "the host's TLS certificate is not acceptable"},
		{"alert", newError(t.Context(), tls.AlertError(40), false), "the TLS handshake with the host failed"},
	} {
		got := CheckError(c.err)
		if got.Code != string(CodeTLS) || got.Scope != poller.ScopeRateKey || !got.Network || got.Message != c.want {
			t.Errorf("%s: got %s %s: %q, want %q", c.name, got.Code, got.Scope, got.Message, c.want)
		}
		if plain := c.name == "HTTP" || c.name == "neither"; errors.Is(got, http.ErrSchemeMismatch) != plain {
			t.Errorf("%s: another scheme: %t", c.name, !plain)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	_, err := client(t, Options{}).Do(ctx, Call{URL: url})
	if got := CheckError(err); got.Code != string(CodeCanceled) || got.Scope != poller.ScopeEgress || !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v", got)
	}
}

func TestWhoIsToBlameForAConnect(t *testing.T) {
	v4, v6 := &net.TCPAddr{IP: net.IPv4(1, 1, 1, 1)}, &net.TCPAddr{IP: net.ParseIP("2606:4700::1")}
	for _, c := range []struct {
		errno syscall.Errno
		addr  net.Addr
		want  poller.ErrorScope
	}{
		{syscall.ENETUNREACH, v4, poller.ScopeEgress},
		{syscall.ENETUNREACH, nil, poller.ScopeEgress},
		{syscall.ENETUNREACH, v6, poller.ScopeRateKey},
		{syscall.EMFILE, v6, poller.ScopeEgress},
		{syscall.EHOSTUNREACH, v4, poller.ScopeRateKey},
		{syscall.ECONNREFUSED, v4, poller.ScopeRateKey},
	} {
		err := newError(t.Context(), &net.OpError{Op: "dial", Addr: c.addr, Err: c.errno}, false)
		if got := CheckError(err); got.Scope != c.want || got.Code != string(CodeConnect) || !errors.Is(got, c.errno) {
			t.Errorf("%v to %v: got %+v", c.errno, c.addr, got)
		}
	}
	if got := CheckError(errors.New("s3cret")); got.Kind != poller.Transient || strings.Contains(got.Error(), "s3cret") {
		t.Errorf("an unknown error: got %v", got)
	}
}

// A new connection that its host closes before the request is written has broken off, too.
func TestAConnectionThatIsClosedAtOnceHasBrokenOff(t *testing.T) {
	ours, theirs := net.Pipe()
	ended := &closedConn{Conn: ours, closed: make(chan struct{})}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ended, nil }}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { <-ended.closed }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://feeds.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(request)
	if err == nil {
		t.Fatal(errors.Join(errors.New("it has answered"), answer.Body.Close()))
	}
	if got := newError(t.Context(), err, true); got.Code != CodeReset || CheckError(got).Scope != poller.ScopeRateKey {
		t.Errorf("%v of %v", got, err)
	}
}

// closedConn tells that it was closed.
type closedConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *closedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// The error for an answer that exceeds a limit names that limit.
func TestLimitsAreNamed(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, _ = w.Write(make([]byte, 2000))
			return
		}
		<-release
	}))
	defer server.Close()
	defer close(release)
	c := New(Options{AllowPrivate: true, Timeout: 300 * time.Millisecond})
	defer c.Close()
	for path, want := range map[string]string{
		"/large": "the answer is too large: more than 1000 bytes", "/slow": "the host took too long to answer: more than 300ms",
	} {
		if _, err := c.Do(t.Context(), Call{URL: server.URL + path, MaxBody: 1000}); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
	if got := (&Error{Code: CodeTooLarge, text: "x"}).limited(t.Context(), time.Time{}, 8<<20).Error(); got != "x: more than 8 MiB" {
		t.Errorf("got %q", got)
	}
}
