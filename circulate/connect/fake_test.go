package connect_test

import (
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"
)

// fake is a server that answers as the test says, and counts its calls.
type fake struct {
	*server.Server
	mu    sync.Mutex
	asked map[string]int
}

type handler = func(c *server.Peer, args []string)

func startFake(t *testing.T, handlers map[string]handler) *fake {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	f := &fake{Server: s, asked: make(map[string]int)}
	for name, handle := range handlers {
		f.on(t, name, handle)
	}
	if handlers["CLIENT"] == nil {
		f.on(t, "CLIENT", func(c *server.Peer, _ []string) { c.WriteOK() })
	}
	return f
}

func (f *fake) on(t *testing.T, name string, handle handler) {
	t.Helper()
	if err := f.Register(name, func(c *server.Peer, _ string, args []string) {
		f.mu.Lock()
		f.asked[name]++
		f.mu.Unlock()
		handle(c, args)
	}); err != nil {
		t.Fatal(err)
	}
}

func (f *fake) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[name]
}

func (f *fake) address() string { return f.Addr().String() }

// slots answers CLUSTER SLOTS with all of them at one address.
func slots(address func() string) handler {
	return func(c *server.Peer, _ []string) {
		host, text, _ := net.SplitHostPort(address())
		port, _ := strconv.Atoi(text)
		c.Block(func(w *server.Writer) {
			w.WriteLen(1)
			w.WriteLen(3)
			w.WriteInt(0)
			w.WriteInt(16383)
			w.WriteLen(2)
			w.WriteBulk(host)
			w.WriteInt(port)
		})
	}
}

func says(text string) handler { return func(c *server.Peer, _ []string) { c.WriteBulk(text) } }

func refuses(text string) handler { return func(c *server.Peer, _ []string) { c.WriteError(text) } }

// closedAddress returns an address where nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// answeringLate runs a test of a server that answers a GET, by itself or in a pipeline,
// only after another server has taken its place, as a frozen one does. The test receives
// that server's handler and a function that sends the GET, has the server replaced
// meanwhile and returns the call's error.
func answeringLate(t *testing.T, test func(t *testing.T, late handler, ask func(conn redis.Conn, replace func()) error)) {
	t.Helper()
	for name, get := range map[string]func(conn redis.Conn) (any, error){
		"command": func(conn redis.Conn) (any, error) { return conn.Do("GET", "key") },
		"pipeline": func(conn redis.Conn) (any, error) {
			if err := errors.Join(conn.Send("GET", "key"), conn.Flush()); err != nil {
				return nil, err
			}
			return conn.Receive()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, answer := make(chan struct{}), make(chan struct{})
			late := func(c *server.Peer, _ []string) {
				asked <- struct{}{}
				<-answer
				c.WriteBulk("late")
			}
			test(t, late, func(conn redis.Conn, replace func()) error {
				done := make(chan error, 1)
				go func() {
					_, err := get(conn)
					done <- err
				}()
				<-asked
				replace()
				answer <- struct{}{}
				return <-done
			})
		})
	}
}

// halves answers CLUSTER SLOTS with one half of them at each of two addresses.
func halves(first, second string) handler {
	return func(c *server.Peer, _ []string) {
		c.Block(func(w *server.Writer) {
			w.WriteLen(2)
			for i, address := range []string{first, second} {
				host, text, _ := net.SplitHostPort(address)
				port, _ := strconv.Atoi(text)
				w.WriteLen(3)
				w.WriteInt(i * 8192)
				w.WriteInt(i*8192 + 8191)
				w.WriteLen(2)
				w.WriteBulk(host)
				w.WriteInt(port)
			}
		})
	}
}
