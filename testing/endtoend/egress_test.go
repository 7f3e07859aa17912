package endtoend

import (
	"context"
	"encoding/base64"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/elazarl/goproxy"
	"github.com/things-go/go-socks5"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/egress"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// Proxies that others wrote take the calls of a way: plain HTTP, TLS in a tunnel, and a protocol other
// than HTTP. With a wrong password, and once a proxy is gone, nothing reaches the host.
func TestWaysLeadThroughRealProxies(t *testing.T) {
	var requests atomic.Int64
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = io.WriteString(w, "feed")
	}))
	t.Cleanup(plain.Close)
	host := plain.Listener.Addr().String()
	var asked atomic.Pointer[string]
	dial := func(_ context.Context, network, address string) (net.Conn, error) {
		asked.Store(&address)
		return net.Dial(network, host)
	}

	through := goproxy.NewProxyHttpServer()
	through.Logger = log.New(io.Discard, "", 0)
	through.Tr = &http.Transport{DialContext: dial}
	through.ConnectDial = func(network, address string) (net.Conn, error) { return dial(t.Context(), network, address) }
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:pass"))
	refusal := func(r *http.Request) *http.Response {
		if r.Header.Get("Proxy-Authorization") == login {
			return nil
		}
		return goproxy.NewResponse(r, goproxy.ContentTypeText, http.StatusProxyAuthRequired, "")
	}
	through.OnRequest().DoFunc(func(r *http.Request, _ *goproxy.ProxyCtx) (*http.Request, *http.Response) { return r, refusal(r) })
	through.OnRequest().HandleConnectFunc(func(host string, c *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
		if c.Resp = refusal(c.Req); c.Resp != nil {
			return goproxy.RejectConnect, host
		}
		return goproxy.OkConnect, host
	})
	http1 := httptest.NewServer(through)
	t.Cleanup(http1.Close)

	socks := socks5.NewServer(socks5.WithLogger(socks5.NewLogger(log.New(io.Discard, "", 0))), socks5.WithDial(dial), socks5.WithResolver(unresolved{}),
		socks5.WithCredential(socks5.StaticCredentials{"me": "pass"}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() { _ = socks.Serve(listener) }()

	at := map[string]string{"http": strings.TrimPrefix(http1.URL, "http://"), "socks5": listener.Addr().String()}
	var text []string
	for scheme, address := range at {
		text = append(text, scheme+" "+scheme+"://me:pass@"+address, scheme+"-wrong "+scheme+"://me:wrong@"+address)
	}
	ways, err := egress.Parse(strings.Join(text, "; "))
	if err != nil {
		t.Fatal(err)
	}
	client := fetch.New(fetch.Options{Ways: ways, AllowPrivate: true})
	t.Cleanup(client.Close)
	by := func(way string) context.Context {
		return egress.For(t.Context(), &egress.Account{Labels: map[string]string{egress.Label: way}})
	}
	call := func(ctx context.Context, url string, held bool) (string, error) {
		answer, err := client.Do(ctx, fetch.Call{URL: url, Held: held})
		if err != nil {
			return "", err
		}
		return string(answer.Body), nil
	}
	for scheme := range at {
		for _, held := range []bool{false, true} {
			if body, err := call(by(scheme), "http://feed.example/", held); err != nil || body != "feed" || *asked.Load() != "feed.example:80" {
				t.Errorf("by %s, held %v: %q, %v", scheme, held, body, err)
			}
			before := requests.Load()
			if _, err := call(by(scheme+"-wrong"), plain.URL, held); fetch.CheckError(err).Code != string(fetch.CodeProxy) || fetch.CheckError(err).Scope != poller.ScopeWay || requests.Load() != before {
				t.Errorf("by %s with a wrong password, held %v: %v", scheme, held, err)
			}
		}
		conn, err := client.Dial(by(scheme), "mail.example:993")
		if err != nil {
			t.Errorf("by %s: %v", scheme, err)
			continue
		}
		_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
		if said, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(said), "feed") || *asked.Load() != "mail.example:993" {
			t.Errorf("by %s: %q, %v", scheme, said, err)
		}
		_ = conn.Close()
		// The call that leaves as HTTPS is tunnelled; the server, which speaks no TLS, shows that it came.
		_, err = client.Do(by(scheme), fetch.Call{URL: "https://feed.example/"})
		if fetch.CheckError(err).Code != string(fetch.CodeTLS) || *asked.Load() != "feed.example:443" {
			t.Errorf("https by %s: %v", scheme, err)
		}
	}
	http1.Close()
	_ = listener.Close()
	client.Close()
	before := requests.Load()
	for scheme := range at {
		if _, err := call(by(scheme), plain.URL, true); fetch.CheckError(err).Code != string(fetch.CodeProxy) || fetch.CheckError(err).Scope != poller.ScopeWay {
			t.Errorf("by %s, which is gone: %v", scheme, err)
		}
	}
	if requests.Load() != before {
		t.Error("a call left past its way")
	}
	if body, err := call(egress.For(t.Context(), new(egress.Account)), plain.URL, true); err != nil || body != "feed" {
		t.Errorf("without a way: %q, %v", body, err)
	}
}

// unresolved leaves names to the dialer.
type unresolved struct{}

func (unresolved) Resolve(ctx context.Context, _ string) (context.Context, net.IP, error) {
	return ctx, nil, nil
}
