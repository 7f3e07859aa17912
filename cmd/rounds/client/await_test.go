package client

import (
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// A command that is typed right after the one that starts the service waits until the service
// answers. It does not wait for a service elsewhere, or for one that has said what is wrong.
func TestAwait(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := listener.Addr().String()
	_ = listener.Close()
	var asked atomic.Int32
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) {
		case 1, 2:
			answer(w, http.StatusServiceUnavailable, "application/problem+json", `{"detail":"starting"}`)
		case 3:
			answer(w, http.StatusOK, "application/json", `{"status":"ready"}`)
		default:
			answer(w, http.StatusServiceUnavailable, "application/problem+json", `{"detail":"starting: Redis cannot be reached"}`)
		}
	})}
	began := make(chan struct{})
	c := New("http://"+at, "")
	go func() {
		defer close(began)
		c.Await(t.Context(), time.Minute)
	}()
	if listener, err = net.Listen("tcp", at); err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	<-began
	if n := asked.Load(); n != 3 {
		t.Errorf("it was asked %d times, want 3", n)
	}
	c.Await(t.Context(), time.Minute)
	New("http://10.255.255.1:1", "").Await(t.Context(), time.Minute)
	c.Await(t.Context(), 0)
	if n := asked.Load(); n != 4 {
		t.Errorf("it was asked %d times, want 4", n)
	}
	_ = server.Close()
	c.Await(t.Context(), time.Millisecond)
}
