package connect

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// sentinelConn is a connection to who was the master when it was opened. It is
// inside the pool: what it finds wrong closes it there.
type sentinelConn struct {
	redis.Conn
	of         *Sentinel
	address    string
	demoted    atomic.Bool
	subscribed atomic.Bool
}

// observe takes an outcome, which goes to the caller as it is.
func (k *sentinelConn) observe(reply any, err error) (any, error) {
	if err == nil {
		return reply, nil
	}
	var refused redis.Error
	if !errors.As(err, &refused) {
		k.of.suspect()
		return reply, err
	}
	switch code, _, _ := strings.Cut(string(refused), " "); code {
	case "READONLY", "NOREPLICAS", "MASTERDOWN":
		k.demoted.Store(true)
		k.of.suspect()
	}
	return reply, err
}

// Err is not nil where the connection must not be used again.
func (k *sentinelConn) Err() error {
	if k.demoted.Load() {
		return errNotMaster
	}
	return k.Conn.Err()
}

func (k *sentinelConn) Do(name string, args ...any) (any, error) {
	return k.observe(k.Conn.Do(name, args...))
}

func (k *sentinelConn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	return k.observe(redis.DoWithTimeout(k.Conn, timeout, name, args...))
}

func (k *sentinelConn) DoContext(ctx context.Context, name string, args ...any) (any, error) {
	return k.observe(redis.DoContext(k.Conn, ctx, name, args...))
}

func (k *sentinelConn) Send(name string, args ...any) error {
	if strings.EqualFold(name, "SUBSCRIBE") {
		k.subscribed.Store(true)
	}
	return k.Conn.Send(name, args...)
}

func (k *sentinelConn) Receive() (any, error) { return k.received(k.Conn.Receive()) }

func (k *sentinelConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return k.received(redis.ReceiveWithTimeout(k.Conn, timeout))
}

func (k *sentinelConn) ReceiveContext(ctx context.Context) (any, error) {
	return k.received(redis.ReceiveContext(k.Conn, ctx))
}

// received is observe, and ends a subscription at who is not the master any more:
// nothing need be heard from there, though the connection lives.
func (k *sentinelConn) received(reply any, err error) (any, error) {
	if err == nil && k.subscribed.Load() && k.of.left(k.address) {
		k.demoted.Store(true)
		return nil, errNotMaster
	}
	return k.observe(reply, err)
}
