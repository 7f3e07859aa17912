package fetch

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// scripted serves connections that answer each request with a text as it is, and counts them. After
// the answer a connection is closed if stays is false.
func scripted(t *testing.T, stays bool, answers ...string) (url string, conns *atomic.Int32) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns = new(atomic.Int32)
	var serving sync.WaitGroup
	serve := func(conn net.Conn) {
		defer conn.Close()
		from := bufio.NewReader(conn)
		for n := 0; ; n++ {
			request, err := http.ReadRequest(from)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, request.Body)
			if _, err := io.WriteString(conn, answers[min(n, len(answers)-1)]); err != nil || !stays {
				return
			}
		}
	}
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			serving.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return "http://" + listener.Addr().String(), conns
}

// twice makes two calls and returns the last one's answer.
func twice(t *testing.T, url string, held bool) (*Response, error) {
	t.Helper()
	c := New(Options{Networks: networks("127.0.0.1")})
	defer c.Close()
	call := Call{Method: http.MethodPost, URL: url, Body: []byte("ask"), MaxBody: 100, Held: held}
	if response, err := c.Do(t.Context(), call); err != nil {
		return response, err
	}
	return c.Do(t.Context(), call)
}

// Whatever an answer looks like, a held call gets what any other call gets, and its connection
// serves the next call where it may.
func TestAHeldCallHasWhatAnotherHas(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, tt := range map[string]struct {
		answer string
		closes bool  // the server closes the connection after an answer
		conns  int32 // for two calls
	}{
		"a length":                    {ok + "X-A: 1\r\nContent-Length: 5\r\n\r\nhello", false, 1},
		"nothing":                     {"HTTP/1.1 204 No Content\r\n\r\n", false, 1},
		"an empty body":               {ok + "Content-Length: 0\r\n\r\n", false, 1},
		"chunks":                      {ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", false, 1},
		"a header before the header":  {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok + "Content-Length: 5\r\n\r\nhello", false, 1},
		"a redirect is the answer":    {"HTTP/1.1 302 Found\r\nLocation: /else\r\nContent-Length: 0\r\n\r\n", false, 1},
		"an error":                    {"HTTP/1.1 524 A Timeout\r\nContent-Length: 5\r\n\r\nhello", false, 1},
		"to the end":                  {ok + "\r\nhello", true, 2},
		"the last one":                {ok + "Connection: close\r\nContent-Length: 5\r\n\r\nhello", true, 2},
		"the last one, unsaid":        {ok + "Content-Length: 5\r\n\r\nhello", true, 2},
		"an old version":              {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", true, 2},
		"too long":                    {ok + "Content-Length: 101\r\n\r\n" + strings.Repeat("x", 101), false, 1},
		"cut":                         {ok + "Content-Length: 5\r\n\r\nhel", true, 1},
		"cut in the header":           {ok + "Content-Le", true, 1},
		"cut at once":                 {"", true, 1},
		"no HTTP":                     {"SSH-2.0-OpenSSH_9.6\r\n\r\n", true, 1},
		"no compression, as it says":  {ok + "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", true, 1},
		"a header without end":        {ok + strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 100) + "\r\n", true, 1},
		"another protocol":            {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", true, 2},
		"hints without end":           {strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: "+strings.Repeat("x", 1000)+"\r\n\r\n", 100), true, 1},
		"what nobody asked for":       {ok + "Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong", false, 2},
		"two lengths":                 {ok + "Content-Length: 5\r\nContent-Length: 4\r\n\r\nhello", true, 1},
		"an answer that is only long": {ok + "Content-Length: 100\r\n\r\n" + strings.Repeat("x", 100), false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			url, conns := scripted(t, !tt.closes, tt.answer)
			got, err := twice(t, url, true)
			// The second call may take a connection that is about to be closed.
			for tries := 0; tries < 20 && tt.closes && conns.Load() < tt.conns; tries++ {
				url, conns = scripted(t, !tt.closes, tt.answer)
				got, err = twice(t, url, true)
			}
			if conns.Load() != tt.conns {
				t.Errorf("%d connections, want %d", conns.Load(), tt.conns)
			}
			other, _ := scripted(t, !tt.closes, tt.answer)
			want, wantErr := twice(t, other, false)
			// So may net/http.
			for tries := 0; tries < 20 && tt.closes && err == nil && wantErr != nil; tries++ {
				want, wantErr = twice(t, other, false)
			}
			var failed, wantFailed *Error
			if errors.As(err, &failed) != errors.As(wantErr, &wantFailed) || failed != nil && failed.Code != wantFailed.Code {
				t.Fatalf("got error %v, want %v", err, wantErr)
			}
			if err != nil {
				return
			}
			if got.Status != want.Status || string(got.Body) != string(want.Body) || len(got.Header) != len(want.Header) {
				t.Errorf("got %d %q %v, want %d %q %v", got.Status, got.Body, got.Header, want.Status, want.Body, want.Header)
			}
		})
	}
}

// A call that ends while it is held ends at once, and says why.
func TestAHeldCallEndsWithItsContext(t *testing.T) {
	asked := make(chan struct{}, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client has gone
		asked <- struct{}{}
		<-r.Context().Done()
	})
	c := client(t, Options{})
	for name, tt := range map[string]struct {
		cause error
		code  Code
	}{"cancelled": {nil, CodeCanceled}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-asked
			cancel(tt.cause)
		}()
		_, err := c.Do(ctx, Call{Method: http.MethodPost, URL: url, Body: []byte("ask"), Held: true})
		var failed *Error
		if !errors.As(err, &failed) || failed.Code != tt.code {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if n := c.way.Load().lines.oldest.Len(); n != 0 {
		t.Errorf("%d connections are kept", n)
	}
}

// The rule for addresses holds for held calls, and a connection of an earlier rule is not used.
func TestAHeldCallKeepsTheRule(t *testing.T) {
	url, conns := scripted(t, true, "HTTP/1.1 204 No Content\r\n\r\n")
	ask := func(c *Client, confined bool) error {
		_, err := c.Do(t.Context(), Call{Method: http.MethodPost, URL: url, Held: true, Confined: confined})
		return err
	}
	if err := ask(client(t, Options{Networks: networks("127.0.0.2")}), false); !errors.Is(err, ErrRefusedAddress) {
		t.Errorf("a private address: %v", err)
	}
	c := client(t, Options{})
	if err := cmp.Or(ask(c, false), ask(c, true)); err != nil || conns.Load() != 2 {
		t.Errorf("confined, with a connection of its own: %v, %d connections", err, conns.Load())
	}
	c.Permit(networks("127.0.0.2"))
	if err := ask(c, false); !errors.Is(err, ErrRefusedAddress) {
		t.Errorf("after a change: %v", err)
	}
	proxy := proxiedClient(t, Options{Proxy: "http://proxy.invalid:3128", AllowPrivate: true})
	if proxy.way.Load().linesOf(Call{Held: true}, mustParse(t, "https://example.com/")) != nil {
		t.Error("a proxy was passed by")
	}
}

// Over TLS the certificate is judged, HTTP/2 is left to net/http, and a compressed answer is read.
func TestAHeldCallOverTLS(t *testing.T) {
	versions := make(chan int, 3)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		versions <- r.ProtoMajor
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		defer zip.Close()
		_, _ = io.WriteString(zip, "hello")
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	newer := httptest.NewUnstartedServer(server.Config.Handler)
	newer.EnableHTTP2 = true
	newer.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(newer.Close)

	c := client(t, Options{})
	call := Call{Method: http.MethodPost, URL: server.URL, Body: []byte("ask"), Held: true}
	var failed *Error
	if _, err := c.Do(t.Context(), call); !errors.As(err, &failed) || failed.Code != CodeTLS {
		t.Errorf("an unknown certificate: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	roots.AddCert(newer.Certificate())
	way := c.way.Load()
	way.lines.config("127.0.0.1").RootCAs = roots
	way.transport.TLSClientConfig = way.lines.config("127.0.0.1").Clone()
	for url, version := range map[string]int{server.URL: 1, newer.URL: 2} {
		call.URL = url
		for range 2 {
			response, err := c.Do(t.Context(), call)
			if err != nil || string(response.Body) != "hello" {
				t.Fatalf("version %d: %v, %v", version, response, err)
			}
			if got := <-versions; got != version {
				t.Errorf("version %d, want %d", got, version)
			}
		}
	}
	if way.lines.oldest.Len() != 1 {
		t.Errorf("%d connections are kept, want that of HTTP/1.1", way.lines.oldest.Len())
	}
}
