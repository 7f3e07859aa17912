package connect_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// TestEveryWayToCallIsSentOn makes each call that redigo has at a node that does not
// serve the key. A single command must go on to the right node. A pipeline must fail, and
// so must one on a connection that cannot be opened.
func TestEveryWayToCallIsSentOn(t *testing.T) {
	t.Parallel()
	calls := map[string]func(conn redis.Conn) (any, error){
		"do":           func(conn redis.Conn) (any, error) { return conn.Do("GET", "key") },
		"with timeout": func(conn redis.Conn) (any, error) { return redis.DoWithTimeout(conn, time.Second, "GET", "key") },
		"with context": func(conn redis.Conn) (any, error) { return redis.DoContext(conn, t.Context(), "GET", "key") },
		"with deadline": func(conn redis.Conn) (any, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return redis.DoContext(conn, ctx, "GET", "key")
		},
	}
	piped := map[string]func(conn redis.Conn) (any, error){
		"receive":      func(conn redis.Conn) (any, error) { return conn.Receive() },
		"with timeout": func(conn redis.Conn) (any, error) { return redis.ReceiveWithTimeout(conn, time.Second) },
		"with context": func(conn redis.Conn) (any, error) { return redis.ReceiveContext(conn, t.Context()) },
		"do nothing":   func(conn redis.Conn) (any, error) { return redis.DoContext(conn, t.Context(), "") },
	}
	lend := func(c *connect.Cluster) redis.Conn {
		conn, err := c.Conn(t.Context(), "key")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	right := node(t, map[string]handler{"GET": says("right")})
	wrong := node(t, map[string]handler{"GET": refuses("MOVED 12539 " + right.address())})
	for name, call := range calls {
		conn := lend(openCluster(t, wrong.address()))
		if got, err := redis.String(call(conn)); got != "right" || err != nil || conn.Err() != nil {
			t.Errorf("%s: %q, %v; the connection: %v", name, got, err, conn.Err())
		}
	}
	for name, receive := range piped {
		conn := lend(openCluster(t, wrong.address()))
		if err := errors.Join(conn.Send("GET", "key"), conn.Flush()); err != nil {
			t.Fatal(err)
		}
		got, err := receive(conn)
		if replies, ok := got.([]any); ok && len(replies) == 1 { // of a call that does nothing
			got, err = nil, replies[0].(error)
		}
		if err == nil || !strings.HasPrefix(err.Error(), "MOVED") {
			t.Errorf("%s in a pipeline: %v, %v", name, got, err)
		}
	}

	nowhere := closedAddress(t)
	var serving atomic.Value
	gone := startFake(t, map[string]handler{"GET": func(c *server.Peer, _ []string) {
		serving.Store(nowhere)
		c.WriteError("MOVED 12539 " + nowhere)
	}})
	serving.Store(gone.address())
	gone.on(t, "CLUSTER", slots(func() string { return serving.Load().(string) }))
	conn := lend(openCluster(t, gone.address()))
	if _, err := conn.Do("GET", "key"); err == nil {
		t.Fatal("a command was done by a node that nobody reaches")
	}
	if err := conn.Send("GET", "key"); err == nil {
		t.Error("a pipeline begins on a connection that cannot be had")
	}
	if err := conn.Flush(); err == nil {
		t.Error("a pipeline is flushed to a connection that cannot be had")
	}
	for name, receive := range piped {
		if _, err := receive(conn); err == nil {
			t.Errorf("%s: a reply came from a connection that cannot be had", name)
		}
	}
}

// If no node serves a slot, the map is read again. Then an error says so.
func TestSlotThatNobodyServesIsNamed(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.on(t, "CLUSTER", func(c *server.Peer, _ []string) {
		host, port, _ := strings.Cut(f.address(), ":")
		number, _ := strconv.Atoi(port)
		c.Block(func(w *server.Writer) { // not the slot of the key
			w.WriteLen(1)
			w.WriteLen(3)
			w.WriteInt(0)
			w.WriteInt(100)
			w.WriteLen(2)
			w.WriteBulk(host)
			w.WriteInt(number)
		})
	})
	c := openCluster(t, f.address())
	if _, err := c.Conn(t.Context(), "key"); err == nil || !strings.Contains(err.Error(), "12539") {
		t.Errorf("got %v", err)
	}
	if got := c.NodeOf("key"); got != "unknown" {
		t.Errorf("node of the key: %s", got)
	}
}
