package connect

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// clusterConn is a connection to the node that serves a slot. If another node serves it
// meanwhile, a single command goes there.
type clusterConn struct {
	cluster *Cluster
	slot    int
	purpose purpose
	node    *node
	conn    redis.Conn // nil after a redirection: lent anew by the next command
	piping  bool       // something was sent without waiting for its reply
}

func (k *clusterConn) Do(name string, args ...any) (any, error) {
	if k.piping || name == "" {
		return k.observed(k.inner().Do(name, args...))
	}
	return k.single(0, func(c redis.Conn, _ time.Duration) (any, error) { return c.Do(name, args...) }, name, args)
}

func (k *clusterConn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	if k.piping || name == "" {
		return k.observed(redis.DoWithTimeout(k.inner(), timeout, name, args...))
	}
	return k.single(timeout, func(c redis.Conn, left time.Duration) (any, error) {
		return redis.DoWithTimeout(c, left, name, args...)
	}, name, args)
}

func (k *clusterConn) DoContext(ctx context.Context, name string, args ...any) (any, error) {
	if k.piping || name == "" {
		return k.observed(redis.DoContext(k.inner(), ctx, name, args...))
	}
	var timeout time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Nanosecond, time.Until(deadline))
	}
	return k.single(timeout, func(c redis.Conn, _ time.Duration) (any, error) {
		return redis.DoContext(c, ctx, name, args...)
	}, name, args)
}

func (k *clusterConn) Send(name string, args ...any) error {
	// Written once, because one goroutine may send while another receives.
	if !k.piping {
		k.piping = true
	}
	return k.inner().Send(name, args...)
}

func (k *clusterConn) Flush() error { return k.inner().Flush() }

func (k *clusterConn) Receive() (any, error) { return k.observed(k.inner().Receive()) }

func (k *clusterConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return k.observed(redis.ReceiveWithTimeout(k.inner(), timeout))
}

func (k *clusterConn) ReceiveContext(ctx context.Context) (any, error) {
	return k.observed(redis.ReceiveContext(k.inner(), ctx))
}

func (k *clusterConn) observed(reply any, err error) (any, error) {
	k.cluster.observe(k.node, err)
	if err == nil && k.node.left.Load() {
		// It may be out of the cluster, where nothing is published any more.
		return nil, k.node.replaced()
	}
	return reply, err
}

// replaced returns the error for what was done by a node that serves nothing any more,
// such as a master that was frozen while its replica took its place. Nobody knows whether
// it counts.
func (n *node) replaced() error {
	return fmt.Errorf("redis cluster: answered by %s, which serves nothing any more", n.address)
}

// inner returns the current connection. Only after a single command there may be none.
func (k *clusterConn) inner() redis.Conn {
	if err := k.lendAgain(0); err != nil {
		return failed{err}
	}
	return k.conn
}

func (k *clusterConn) Err() error {
	if k.conn == nil {
		return nil
	}
	return k.conn.Err()
}

func (k *clusterConn) Close() error { return k.release() }

func (k *clusterConn) release() error {
	conn := k.conn
	k.conn = nil
	if conn == nil {
		return nil
	}
	return conn.Close()
}
