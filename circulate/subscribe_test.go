package circulate_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// lending counts how the connections that it lends come back.
type lending struct {
	server                    circulate.Server
	usable, spent, subscribed atomic.Int64
}

func (l *lending) Conn(ctx context.Context, key string) (redis.Conn, error) {
	conn, err := l.server.Conn(ctx, key)
	if err != nil {
		return nil, err
	}
	return &lent{conn, l, false}, nil
}

type lent struct {
	redis.Conn
	from       *lending
	subscribes bool
}

func (c *lent) Send(name string, args ...any) error {
	c.subscribes = c.subscribes || name == "SUBSCRIBE"
	return c.Conn.Send(name, args...)
}

func (c *lent) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	return redis.DoWithTimeout(c.Conn, timeout, name, args...)
}

func (c *lent) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, timeout)
}

func (c *lent) Close() error {
	switch {
	case !c.subscribes:
		c.from.usable.Add(1)
	case c.Err() == nil:
		c.from.subscribed.Add(1)
	default:
		c.from.spent.Add(1)
	}
	return c.Conn.Close()
}

// A connection that was subscribed is not lent again: a message that comes late would be taken for
// the reply to another's command.
func TestASubscribedConnectionIsNotLentAgain(t *testing.T) {
	server := &lending{server: redistest.Embedded(t)}
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		if err := ring.Subscribe(ctx, cancel, func(circulate.Woken) {}); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if server.spent.Load() != 3 || server.subscribed.Load() != 0 || server.usable.Load() == 0 {
		t.Errorf("%d came back spent, %d subscribed, %d others", server.spent.Load(), server.subscribed.Load(), server.usable.Load())
	}
}
