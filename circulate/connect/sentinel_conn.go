package connect

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// sentinelConn is a connection to the server that was the master when it was opened. It
// is inside the pool: if it finds something wrong, the pool closes it.
type sentinelConn struct {
	redis.Conn
	of      *Sentinel
	address string
	demoted atomic.Bool
}

// errReplaced is the error of what was done, or published, by a server whose place
// another has taken meanwhile. Nobody knows whether it counts.
var errReplaced = errors.New("answered after another server had become the master")

// observe passes a result to the caller, unless it comes from a server that is no longer
// the master. A server that was frozen, or cut off, does and acknowledges what will be
// forgotten.
func (k *sentinelConn) observe(reply any, err error) (any, error) {
	if err == nil {
		if k.of.left(k.address) {
			k.demoted.Store(true)
			return nil, errReplaced
		}
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

// Err returns an error if the connection must not be used again.
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

func (k *sentinelConn) Receive() (any, error) { return k.observe(k.Conn.Receive()) }

func (k *sentinelConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return k.observe(redis.ReceiveWithTimeout(k.Conn, timeout))
}

func (k *sentinelConn) ReceiveContext(ctx context.Context) (any, error) {
	return k.observe(redis.ReceiveContext(k.Conn, ctx))
}
