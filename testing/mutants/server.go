package mutants

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// Broken is a server on which a rule is broken.
type Broken struct {
	redistest.Redis
	*Rewriter
}

// On breaks a rule on a server.
func (m Mutant) On(server redistest.Redis) *Broken {
	return &Broken{Redis: server, Rewriter: NewRewriter(m.Apply)}
}

// Conn lends a connection on which scripts are broken.
func (b *Broken) Conn(ctx context.Context, key string) (redis.Conn, error) {
	c, err := b.Redis.Conn(ctx, key)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, rewriter: b.Rewriter}, nil
}

type conn struct {
	redis.Conn
	rewriter *Rewriter
}

func (c *conn) Do(command string, args ...any) (any, error) {
	return c.Conn.Do(command, c.rewriter.Instead(command, args)...)
}

func (c *conn) Send(command string, args ...any) error {
	return c.Conn.Send(command, c.rewriter.Instead(command, args)...)
}

func (c *conn) DoWithTimeout(timeout time.Duration, command string, args ...any) (any, error) {
	return redis.DoWithTimeout(c.Conn, timeout, command, c.rewriter.Instead(command, args)...)
}

func (c *conn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, timeout)
}

func (c *conn) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	return redis.DoContext(c.Conn, ctx, command, c.rewriter.Instead(command, args)...)
}

func (c *conn) ReceiveContext(ctx context.Context) (any, error) {
	return redis.ReceiveContext(c.Conn, ctx)
}
