package delivery_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/delivery"
)

// TestLostReadOfARewoundGroup has a group rewound under a consumer that runs, and
// the reply to the first read after that lost: what it was given stands before all
// that it has seen, and must not stay pending.
func TestLostReadOfARewoundGroup(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		server := &lossy{Server: w.server, names: w.names}
		w.server = server
		w.add(20, "a", "b")
		c := w.start(delivery.Consumer{Handler: w.effect(time.Hour), Batch: 8})
		time.Sleep(10 * time.Second)
		stream := w.ring.Tag(0) + ":messages"
		server.loses.Store(true)
		w.do("XGROUP", "DESTROY", stream, "g")
		w.do("XGROUP", "CREATE", stream, "g", "0-0")
		time.Sleep(time.Minute)
		if server.loses.Load() {
			t.Error("no read was lost")
		}
		w.appliedOnce()
		w.nothingLeft()
		c.stop(t)
	})
}

// lossy is a server that loses the reply to one read that has messages.
type lossy struct {
	circulate.Server
	names *scriptNames
	loses atomic.Bool
}

func (l *lossy) Conn(ctx context.Context, key string) (redis.Conn, error) {
	conn, err := l.Server.Conn(ctx, key)
	if err != nil {
		return nil, err
	}
	return &lossyConn{conn, l}, nil
}

type lossyConn struct {
	redis.Conn
	server *lossy
}

func (c *lossyConn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	step := c.server.names.name(name, args)
	reply, err := redis.DoWithTimeout(c.Conn, timeout, name, args...)
	if values, _ := reply.([]any); step == "read" && len(values) > 4 && c.server.loses.CompareAndSwap(true, false) {
		return nil, errCut
	}
	return reply, err
}

func (c *lossyConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, timeout)
}
