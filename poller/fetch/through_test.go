package fetch

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// closing serves so many requests on each connection, and closes it at the next one without an answer,
// like a host whose time-out for idle connections ends at that moment.
func closing(t *testing.T, each int) (url string, requests *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	requests = new(atomic.Int64)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				from := bufio.NewReader(conn)
				for range each {
					request, err := http.ReadRequest(from)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, request.Body)
					requests.Add(1)
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
				_, _ = http.ReadRequest(from)
				requests.Add(1)
			}()
		}
	}()
	return "http://" + listener.Addr().String(), requests
}

// A request without consequences is repeated if the host closes the connection just then. A request
// that the host may have obeyed is not.
func TestAKeptConnectionIsClosed(t *testing.T) {
	url, requests := closing(t, 1)
	c := client(t, Options{})
	for i, want := range []int64{1, 3} {
		if response, err := c.Do(t.Context(), Call{URL: url}); err != nil || string(response.Body) != "ok" || requests.Load() != want {
			t.Errorf("call %d: %v, %v after %d requests", i, response, err, requests.Load())
		}
	}
	_, err := c.Do(t.Context(), Call{Method: http.MethodPost, URL: url, Body: []byte("once")})
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != CodeReset || requests.Load() != 4 {
		t.Errorf("a POST: %v after %d requests", err, requests.Load())
	}
	nothing, requests := closing(t, 0)
	if _, err := c.Do(t.Context(), Call{URL: nothing}); !errors.As(err, &failed) || failed.Code != CodeReset || requests.Load() != 1 {
		t.Errorf("a new connection: %v after %d requests", err, requests.Load())
	}
}

// Whatever the form of an answer, its connection serves the next call, unless more of the answer is
// left than the client reads.
func TestConnectionsAreUsedAgain(t *testing.T) {
	var made atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		case "/unchanged":
			w.WriteHeader(http.StatusNotModified)
		case "/known":
			_, _ = io.WriteString(w, "known")
		case "/chunks":
			_, _ = io.WriteString(w, "chunk")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "chunk")
		case "/fault":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "fault")
		case "/moved":
			http.Redirect(w, r, "/known", http.StatusMovedPermanently)
		case "/long":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, strings.Repeat("x", 4*errorBody))
		case "/last":
			w.Header().Set("Connection", "close")
		}
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c := client(t, Options{})
	for _, test := range []struct {
		path   string
		status int
		body   string
		made   int64 // by this call and the next one to /known
	}{
		{"/empty", 204, "", 0}, {"/unchanged", 304, "", 0}, {"/known", 200, "known", 0}, {"/chunks", 200, "chunkchunk", 0}, {"/fault", 500, "fault", 0},
		{"/moved", 200, "known", 0}, {"/long", 500, strings.Repeat("x", errorBody), 1}, {"/last", 200, "", 1}, {"/empty", 204, "", 0},
	} {
		ask := func(path string) *Response {
			t.Helper()
			response, err := c.Do(t.Context(), Call{URL: server.URL + path, MaxRedirects: 3})
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			return response
		}
		ask("/known")
		before := made.Load()
		if got := ask(test.path); got.Status != test.status || string(got.Body) != test.body {
			t.Errorf("%s: got %d, %d bytes", test.path, got.Status, len(got.Body))
		}
		ask("/known")
		if n := made.Load() - before; n != test.made {
			t.Errorf("%s: %d more connections, want %d", test.path, n, test.made)
		}
	}
}

// A host that answers without reading a large request is heard.
func TestAnAnswerBeforeTheRequestIsRead(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
		}
		<-done
	}()
	call := Call{Method: http.MethodPost, URL: "http://" + listener.Addr().String(), Body: make([]byte, 32<<20)}
	if response, err := client(t, Options{}).Do(t.Context(), call); err != nil || response.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("got %v, %v", response, err)
	}
}

// An idle connection has no goroutine here. The one that has been idle for longest makes room for
// another.
func TestKeptLines(t *testing.T) {
	const most, hosts = 8, 20
	c := client(t, Options{Kept: most})
	var urls []string
	var made atomic.Int64
	for range hosts {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				made.Add(1)
			}
		}
		server.Start()
		t.Cleanup(server.Close)
		urls = append(urls, server.URL)
	}
	ask := func(url string) {
		t.Helper()
		if _, err := c.Do(t.Context(), Call{URL: url}); err != nil {
			t.Fatal(err)
		}
	}
	before := runtime.NumGoroutine()
	for _, url := range urls {
		ask(url)
	}
	if more := runtime.NumGoroutine() - before; more > hosts {
		t.Errorf("%d goroutines more: the servers have one for each connection", more)
	}
	lines := c.way.Load().lines
	if n, origins := lines.oldest.Len(), len(lines.idle); n != most || origins != most {
		t.Errorf("%d connections of %d hosts are kept, want %d", n, origins, most)
	}
	for _, url := range urls[hosts-most:] {
		ask(url)
	}
	if made.Load() != hosts {
		t.Errorf("%d connections were made, want %d: the newest are kept", made.Load(), hosts)
	}
	ask(urls[0])
	ask(urls[hosts-most]) // its connection made room
	if made.Load() != hosts+2 {
		t.Errorf("%d connections were made, want %d", made.Load(), hosts+2)
	}
	if got := lines.oldest.Len(); got != most {
		t.Errorf("%d connections are kept", got)
	}
}
