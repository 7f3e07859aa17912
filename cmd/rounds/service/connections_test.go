package service

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/testing/processes"
)

// pipes is a listener whose connections are pipes in the process, so that time can be faked.
type pipes struct {
	incoming chan net.Conn
	closed   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.incoming:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestHalfSentRequestsEnd sends requests that stop half way. Each connection is closed within
// the timeout for the part of the request that is missing.
func TestHalfSentRequestsEnd(t *testing.T) {
	ignore := func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	read := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	for name, test := range map[string]struct {
		sent    string
		handler http.HandlerFunc
		within  time.Duration
	}{
		"nothing":                        {"", ignore, headerTimeout},
		"half a header":                  {"GET /healthz HTTP/1.1\r\nHo", ignore, headerTimeout},
		"half a body, not read":          {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc", ignore, bodyTimeout},
		"half a body that is read":       {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc", read, bodyTimeout},
		"a request, and then no further": {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", ignore, idleTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := &pipes{make(chan net.Conn), make(chan struct{})}
				limited := newConnections(listener, "api", 16, slog.New(slog.DiscardHandler))
				server := newHTTPServer(limited, test.handler, limited.log)
				served := make(chan error, 1)
				go func() { served <- server.Serve(limited) }()
				ours, theirs := net.Pipe()
				listener.incoming <- theirs
				began := time.Now()
				go func() { _, _ = io.WriteString(ours, test.sent) }()
				_, _ = io.Copy(io.Discard, ours) // until the server closes the connection
				// The server closes half a second later if it replied before it had read the
				// whole request.
				if took := time.Since(began); took > test.within+time.Second {
					t.Errorf("the connection was open for %v, want %v", took, test.within)
				}
				_ = ours.Close()
				_ = server.Close()
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// TestACrowdOfHalfSentRequestsKeepsNobodyOut opens three times as many connections as are
// allowed, none with a whole request. A whole request is still answered, and requests that
// are being answered are not displaced.
func TestACrowdOfHalfSentRequestsKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	const most = 16
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	limited := newConnections(inner, "api", most, slog.New(slog.NewTextHandler(&log, nil)))
	begun, goOn := make(chan struct{}, most), make(chan struct{})
	server := newHTTPServer(limited, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if r.URL.Path == "/long" {
			begun <- struct{}{}
			<-goOn
		}
		fmt.Fprint(w, "answered")
	}, slog.New(slog.DiscardHandler))
	go func() { _ = server.Serve(limited) }()
	defer server.Close()

	dial := func(send string) net.Conn {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, send); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	status := func(conn net.Conn) string {
		line, _ := bufio.NewReader(conn).ReadString('\n')
		return strings.TrimSpace(line)
	}
	long := dial("GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	for range 3 * most {
		dial("GET /healthz HTTP/1.1\r\nHo")
		dial("POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
	}
	if got := status(dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); got != "HTTP/1.1 200 OK" {
		t.Errorf("in the crowd: %q", got)
	}
	for range most - 1 {
		dial("GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
		<-begun
	}
	if got := status(dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); got != "HTTP/1.1 503 Service Unavailable" {
		t.Errorf("while all are being answered: %q", got)
	}
	close(goOn)
	if got := status(long); got != "HTTP/1.1 200 OK" {
		t.Errorf("one that was being answered: %q", got)
	}
	limited.mu.Lock()
	defer limited.mu.Unlock()
	if limited.closed["displaced"] == 0 || limited.closed["refused"] == 0 || strings.Count(log.String(), "at their limit") != 1 {
		t.Errorf("closed %v, logged %q", limited.closed, log.String())
	}
}

// TestRepliesThatAreNotReadKeepNobodyOut fills all connections with replies that nobody reads. A
// caller that reads, if slowly, keeps its connection.
func TestRepliesThatAreNotReadKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, part = 16, 64 << 10
		const size = 100 * part
		listener := &pipes{make(chan net.Conn), make(chan struct{})}
		limited := newConnections(listener, "api", most, slog.New(slog.DiscardHandler))
		server := newHTTPServer(limited, func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(make([]byte, size)) // the callers' end is what is judged
		}, limited.log)
		served := make(chan error, 1)
		go func() { served <- server.Serve(limited) }()
		dial := func() net.Conn {
			ours, theirs := net.Pipe()
			listener.incoming <- theirs
			go func() { _, _ = io.WriteString(ours, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") }()
			return ours
		}
		status := func(conn net.Conn) string {
			line, _ := bufio.NewReaderSize(conn, 16).ReadString('\n')
			return strings.TrimSpace(line)
		}
		slow := dial()
		slowly := make(chan int64)
		go func() {
			var n int64
			for {
				m, err := io.CopyN(io.Discard, slow, part)
				if n += m; err != nil {
					slowly <- n
					return
				}
				time.Sleep(stuckWrite / 4)
			}
		}()
		synctest.Wait()
		time.Sleep(stuckWrite)
		stuck := make([]net.Conn, most-1)
		for i := range stuck {
			stuck[i] = dial()
		}
		synctest.Wait()
		if got := status(dial()); got != "HTTP/1.1 503 Service Unavailable" {
			t.Errorf("while replies have just begun: %q", got)
		}
		time.Sleep(stuckWrite)
		fresh := dial()
		if got := status(fresh); got != "HTTP/1.1 200 OK" {
			t.Errorf("while no reply is read: %q", got)
		}
		if n := <-slowly; n < size {
			t.Errorf("a caller that reads slowly got %d bytes", n)
		}
		if limited.closed["displaced"] != 1 || limited.closed["refused"] != 1 {
			t.Errorf("closed %v", limited.closed)
		}
		for _, conn := range append(stuck, slow, fresh) {
			_ = conn.Close()
		}
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// TestServeThroughRepliesThatAreNotRead is the same over real connections, none of which would end
// by itself.
func TestServeThroughRepliesThatAreNotRead(t *testing.T) {
	t.Parallel()
	const most = 16
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := newConnections(inner, "api", most, slog.New(slog.DiscardHandler))
	begun := make(chan struct{}, most)
	server := newHTTPServer(limited, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/long" {
			return
		}
		begun <- struct{}{}
		for err := error(nil); err == nil; {
			_, err = w.Write(make([]byte, 1<<20))
		}
	}, limited.log)
	go func() { _ = server.Serve(limited) }()
	defer server.Close()
	for range most {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /long HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-begun
	}
	processes.AwaitStatus(t, "http://"+inner.Addr().String()+"/", http.StatusOK)
	limited.mu.Lock()
	defer limited.mu.Unlock()
	if limited.closed["displaced"] == 0 {
		t.Errorf("closed %v", limited.closed)
	}
}

// TestServeThroughHalfSentRequests sends the service 600 requests of three kinds that stop
// half way. The API and the operators' routes still answer, and a metric counts the closed
// connections.
func TestServeThroughHalfSentRequests(t *testing.T) {
	t.Parallel()
	p := start(t, map[string]string{
		"ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_OPS_ADDR": "127.0.0.1:0", "ROUNDS_API_CONNECTIONS": "64",
	})
	public, ops := p.base(t, "api"), p.base(t, "ops")
	processes.AwaitStatus(t, public+"/readyz", http.StatusOK)
	for i := range 600 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(public, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// A connection may be displaced before it is written to, so the error is ignored.
		_, _ = io.WriteString(conn, []string{
			"GET /v1/accounts HTTP/1.1\r\nHo",
			"PUT /v1/accounts/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
			"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
		}[i%3])
	}
	processes.AwaitStatus(t, ops+"/readyz", http.StatusOK)
	processes.AwaitStatus(t, public+"/v1/accounts", http.StatusOK)
	_, metrics := processes.Get(t, ops+"/metrics", "")
	for _, line := range []string{`rounds_http_connections_closed_total{reason="displaced",server="api"} 0`, `rounds_http_connections{server="api"} 0`} {
		if strings.Contains(metrics, line+"\n") {
			t.Errorf("metrics say %s", line)
		}
	}
	p.log.Await(t, "HTTP connections are at their limit")
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}
