package fetch

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/egress"
)

// socksProxy is a SOCKS5 proxy with a login that leads every connection to one server.
type socksProxy struct {
	listener net.Listener
	asked    atomic.Pointer[string] // the last host that it was asked for
}

func newSOCKS(t *testing.T, target string, reply byte) *socksProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	p := &socksProxy{listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(conn, target, reply)
		}
	}()
	return p
}

func (p *socksProxy) serve(conn net.Conn, target string, reply byte) {
	defer conn.Close()
	from := bufio.NewReader(conn)
	read := func(n int) []byte {
		b := make([]byte, n)
		_, _ = io.ReadFull(from, b)
		return b
	}
	read(int(read(2)[1]))
	_, _ = conn.Write([]byte{5, 2})
	user := string(read(int(read(2)[1])))
	password := string(read(int(read(1)[0])))
	if user != "me" || password != "pass" {
		_, _ = conn.Write([]byte{1, 1})
		return
	}
	_, _ = conn.Write([]byte{1, 0})
	var host string
	if read(4)[3] == 3 {
		host = string(read(int(read(1)[0])))
	} else {
		host = net.IP(read(4)).String()
	}
	_ = binary.BigEndian.Uint16(read(2))
	p.asked.Store(&host)
	_, _ = conn.Write([]byte{5, reply, 0, 1, 0, 0, 0, 0, 0, 0})
	if reply != 0 {
		return
	}
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer out.Close()
	go func() { _, _ = io.Copy(out, from); _ = out.Close() }()
	_, _ = io.Copy(conn, out)
}

func waysOf(t *testing.T, text string) egress.Ways {
	t.Helper()
	ways, err := egress.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return ways
}

// An account's calls go by its way, and by no other: when the way is gone, nothing reaches the host,
// although others reach it without a way.
func TestAnAccountGoesByItsWayOnly(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = io.WriteString(w, "feed")
	}))
	t.Cleanup(server.Close)
	target := strings.TrimPrefix(server.URL, "http://")
	socks, http1 := newSOCKS(t, target, 0), newGateway(t, server.URL)
	at := socks.listener.Addr().String()
	c := client(t, Options{Ways: waysOf(t, "berlin socks5://me:pass@"+at+" kind=a; wrong socks5://me:s3cret@"+at+"; paris "+strings.Replace(http1.url, "://", "://me:pass@", 1)+" kind=b; gone socks5://127.0.0.1:1 kind=c")})
	calls := func(kind, way, url string, held bool) (string, error) {
		a := egress.Account{ID: "x", Kind: kind, Labels: map[string]string{egress.Label: way}}
		if way == "" {
			a.Labels = nil
		}
		answer, err := c.Do(egress.For(t.Context(), &a), Call{URL: url, Held: held})
		if err != nil {
			return "", err
		}
		return string(answer.Body), nil
	}
	for _, held := range []bool{false, true} {
		if body, err := calls("a", "", "http://socks.example/", held); err != nil || body != "feed" || *socks.asked.Load() != "socks.example" {
			t.Errorf("by SOCKS5, held %v: %q, %v", held, body, err)
		}
		if body, err := calls("b", "", "http://http.example/", held); err != nil || body != "feed" || *http1.asked.Load() != "http.example" {
			t.Errorf("by HTTP, held %v: %q, %v", held, body, err)
		}
		if body, err := calls("other", "", server.URL, held); err != nil || body != "feed" {
			t.Errorf("without a way, held %v: %q, %v", held, body, err)
		}
	}
	before := requests.Load()
	for _, tt := range []struct {
		kind, way string
		code      Code
		scope     poller.ErrorScope
		text      string
	}{
		{"c", "", CodeProxy, poller.ScopeWay, "the way gone: no connection to the proxy"},
		{"a", "wrong", CodeProxy, poller.ScopeWay, "the way wrong: the proxy refuses the login"},
		{"a", "gone", CodeProxy, poller.ScopeWay, "the way gone: no connection to the proxy"},
		{"a", "nowhere", CodeUnknownWay, poller.ScopeEgress, `the label egress names the way "nowhere"`},
	} {
		for _, held := range []bool{false, true} {
			_, err := calls(tt.kind, tt.way, server.URL, held)
			var failed *Error
			if !errors.As(err, &failed) || failed.Code != tt.code || !strings.HasPrefix(err.Error(), tt.text) || CheckError(err).Scope != tt.scope || CheckError(err).Network || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s by %q, held %v: %v", tt.kind, tt.way, held, err)
			}
		}
	}
	// A way that refuses the login is to blame itself: the rest of our network is well.
	for _, held := range []bool{false, true} {
		for _, url := range []string{"http://login.example/", "https://login.example/"} {
			a := egress.Account{Kind: "b"}
			_, err := c.Do(egress.For(t.Context(), &a), Call{URL: url, Held: held})
			if got := CheckError(err); got.Code != string(CodeProxy) || got.Scope != poller.ScopeWay || got.Network {
				t.Errorf("%s, held %v: %v, %+v", url, held, err, got)
			}
		}
	}
	if _, err := c.Do(t.Context(), Call{URL: server.URL}); err == nil || err.Error() != errNobody.Error() {
		t.Errorf("a call of nobody: %v", err)
	}
	if n := requests.Load() - before; n != 0 {
		t.Errorf("%d requests reached the host past the way", n)
	}
}

// A protocol other than HTTP goes by the way too, even if the host speaks first.
func TestDialGoesByTheWay(t *testing.T) {
	target := cutting(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "* OK\r\n") })
	socks, http1 := newSOCKS(t, target, 0), newGateway(t, "http://"+target)
	refusing, down := newSOCKS(t, target, 2), newSOCKS(t, target, 4)
	way := func(p *socksProxy) string { return " socks5://me:pass@" + p.listener.Addr().String() }
	c := client(t, Options{Ways: waysOf(t, "berlin"+way(socks)+"; paris "+http1.url+"; refusing"+way(refusing)+"; down"+way(down)+"; elsewhere source://192.0.2.7")})
	by := func(name, host string) (string, error) {
		conn, err := c.Dial(egress.For(t.Context(), &egress.Account{Labels: map[string]string{egress.Label: name}}), host)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		said, err := io.ReadAll(conn)
		return string(said), err
	}
	for _, name := range []string{"berlin", "paris"} {
		if said, err := by(name, "mail.example:993"); err != nil || said != "* OK\r\n" {
			t.Errorf("%s: %q, %v", name, said, err)
		}
		if _, err := by(name, "10.0.0.1:993"); !errors.Is(err, ErrRefusedAddress) {
			t.Errorf("%s, a private address: %v", name, err)
		}
	}
	for name, want := range map[string]struct {
		code  Code
		scope poller.ErrorScope
	}{"refusing": {CodeRefusedAddress, poller.ScopeAccount}, "down": {CodeConnect, poller.ScopeRateKey}} {
		if _, err := by(name, "mail.example:993"); CheckError(err).Code != string(want.code) || CheckError(err).Scope != want.scope {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Another machine may have the address, so the way is not to blame.
	if _, err := by("elsewhere", target); !errors.Is(err, errSource) || CheckError(err).Scope != poller.ScopeEgress || CheckError(err).Network {
		t.Errorf("from an address that is not ours: %v", err)
	}
}

// A secret without TLS never goes through a proxy.
func TestConfinedCallsGoThroughNoWay(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	socks, http1 := newSOCKS(t, strings.TrimPrefix(server, "http://"), 0), newGateway(t, server)
	c := client(t, Options{Ways: waysOf(t, "berlin socks5://me:pass@"+socks.listener.Addr().String()+"; paris "+http1.url+"; here source://127.0.0.1")})
	for name, want := range map[string]error{"berlin": ErrPublic, "paris": ErrPublic, "here": nil} {
		for _, held := range []bool{false, true} {
			ctx := egress.For(t.Context(), &egress.Account{Labels: map[string]string{egress.Label: name}})
			if _, err := c.Do(ctx, Call{URL: server, Confined: true, Held: held}); !errors.Is(err, want) {
				t.Errorf("%s, held %v: %v", name, held, err)
			}
		}
	}
	if socks.asked.Load() != nil || http1.asked.Load() != nil {
		t.Error("a proxy was asked")
	}
}

// cutting returns the address of a server that serves each connection, and then cuts it.
func cutting(t *testing.T, serve func(conn net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn)
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// Until an HTTP proxy has answered, its end is its own fault, and so is an answer that no host can
// cause. What follows is the host's.
func TestWhoseFaultIsAnHTTPProxy(t *testing.T) {
	const way, host, account = poller.ScopeWay, poller.ScopeRateKey, poller.ScopeAccount
	for name, tt := range map[string]struct {
		says         string // empty: it cuts without a word
		early, reset bool   // before the request is read; with RST
		https, http  poller.ErrorScope
	}{
		"cuts at once":                                 {early: true, https: way, http: way},
		"cuts after the request":                       {https: way, http: way},
		"resets":                                       {reset: true, https: way, http: way},
		"cuts within the answer":                       {says: "HTTP/1.1 200", https: way, http: host},
		"speaks something else":                        {says: "SSH-2.0-x\r\n\r\n", https: way, http: account},
		"refuses the login":                            {says: "HTTP/1.1 407 x\r\nContent-Length: 0\r\n\r\n", https: way, http: way},
		"has no method CONNECT":                        {says: "HTTP/1.1 405 x\r\n\r\n", https: way},
		"asks for fewer requests":                      {says: "HTTP/1.1 429 x\r\n\r\n", https: way},
		"says that it has failed":                      {says: "HTTP/1.1 503 x\r\nProxy-Status: p; error=proxy_internal_error\r\n\r\n", https: way},
		"has no connection":                            {says: "HTTP/1.1 502 x\r\n\r\n", https: host},
		"finds no name":                                {says: "HTTP/1.1 503 x\r\nProxy-Status: p; error=dns_error\r\n\r\n", https: host},
		"refuses the host":                             {says: "HTTP/1.1 403 x\r\n\r\n", https: account},
		"is well, and the host cuts":                   {says: "HTTP/1.1 200 x\r\n\r\n", https: host},
		"is well, and the host cuts within its answer": {says: "HTTP/1.1 200 x\r\nContent-Length: 9\r\n\r\nab", http: host},
	} {
		t.Run(name, func(t *testing.T) {
			at := cutting(t, func(conn net.Conn) {
				if tt.early {
					return
				}
				_, _ = http.ReadRequest(bufio.NewReader(conn))
				_, _ = io.WriteString(conn, tt.says)
				if tcp, ok := conn.(*net.TCPConn); ok && tt.reset {
					_ = tcp.SetLinger(0)
				}
			})
			named := client(t, Options{Ways: waysOf(t, "berlin http://me:s3cret@"+at+" all")})
			plain := client(t, Options{Proxy: "http://me:s3cret@" + at})
			for url, want := range map[string]poller.ErrorScope{"https://feeds.example/": tt.https, "http://feeds.example/": tt.http} {
				if want == "" {
					continue
				}
				_, err := named.Do(egress.For(t.Context(), &egress.Account{}), Call{URL: url})
				if got := CheckError(err); got.Scope != want || (got.Scope == way) != (got.Code == string(CodeProxy) && strings.HasPrefix(got.Message, "the way berlin: ")) || strings.Contains(got.Message, "s3cret") {
					t.Errorf("%s by a way: %s: %v", url, got.Scope, err)
				}
				if want == way { // of our own network
					want = poller.ScopeEgress
				}
				if _, err := plain.Do(t.Context(), Call{URL: url}); CheckError(err).Scope != want || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("%s by the proxy of all: %s: %v", url, CheckError(err).Scope, err)
				}
			}
			if conn, err := named.Dial(egress.For(t.Context(), &egress.Account{}), "mail.example:993"); err == nil {
				_ = conn.Close()
			} else if got := CheckError(err); got.Scope != tt.https {
				t.Errorf("dialled: %s: %v", got.Scope, err)
			}
		})
	}
}

// The same with SOCKS5. Its replies are about the host, whatever they are called: a name that cannot be
// resolved has none of its own.
func TestWhoseFaultIsASOCKSProxy(t *testing.T) {
	const way, host, account = poller.ScopeWay, poller.ScopeRateKey, poller.ScopeAccount
	reply := func(code byte) string { return string([]byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0}) }
	for name, tt := range map[string]struct {
		greets, replies string
		scope           poller.ErrorScope
	}{
		"cuts at once":               {"", "", way},
		"speaks HTTP":                {"HTTP/1.1 400 x\r\n\r\n", "", way},
		"wants a login":              {"\x05\xff", "", way},
		"cuts after the greeting":    {"\x05\x00", "", way},
		"cuts within the reply":      {"\x05\x00", reply(0)[:7], way},
		"fails":                      {"\x05\x00", reply(1), host},
		"does not allow it":          {"\x05\x00", reply(2), account},
		"does not reach the host":    {"\x05\x00", reply(4), host},
		"is refused by the host":     {"\x05\x00", reply(5), host},
		"is well, and the host cuts": {"\x05\x00", reply(0), host},
	} {
		t.Run(name, func(t *testing.T) {
			at := cutting(t, func(conn net.Conn) {
				_, _ = io.ReadFull(conn, make([]byte, 3))
				if _, _ = io.WriteString(conn, tt.greets); tt.greets != "\x05\x00" {
					return
				}
				head := make([]byte, 5)
				_, _ = io.ReadFull(conn, head)
				_, _ = io.ReadFull(conn, make([]byte, int(head[4])+2))
				_, _ = io.WriteString(conn, tt.replies)
			})
			c := client(t, Options{Ways: waysOf(t, "berlin socks5://"+at+" all")})
			for _, url := range []string{"https://feeds.example/", "http://feeds.example/"} {
				_, err := c.Do(egress.For(t.Context(), &egress.Account{}), Call{URL: url})
				if got := CheckError(err); err == nil || got.Scope != tt.scope {
					t.Errorf("%s: %s: %v", url, got.Scope, err)
				}
			}
		})
	}
}
