package connect

import (
	"context"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// Embedded is a Redis in the process itself, in memory: for a laptop and for
// tests. It listens nowhere, and what it holds goes with the process.
type Embedded struct {
	server *miniredis.Miniredis
	pool   *redis.Pool
}

// NewEmbedded starts one.
func NewEmbedded() *Embedded {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	dial := func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", "embedded", redis.DialReadTimeout(10*time.Second),
			redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) {
				conn, err := server.Dial()
				if err != nil {
					return nil, err
				}
				return newBuffered(conn), nil
			}))
	}
	return &Embedded{
		server: server,
		pool:   &redis.Pool{MaxIdle: 64, MaxActive: 64, Wait: true, DialContext: dial},
	}
}

// Conn lends a connection.
func (e *Embedded) Conn(ctx context.Context, _ string) (redis.Conn, error) {
	return e.pool.GetContext(ctx)
}

// Name says what it is.
func (e *Embedded) Name() string { return "embedded" }

// Miniredis is the server itself, for tests that inject faults.
func (e *Embedded) Miniredis() *miniredis.Miniredis { return e.server }

// Close ends the server and forgets all it held.
func (e *Embedded) Close() error {
	err := e.pool.Close()
	e.server.Close()
	return err
}
