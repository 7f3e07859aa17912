package wire

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Server lends connections to the Redis that serves a key. The caller closes
// them. Package connect has implementations.
type Server interface {
	Conn(ctx context.Context, key string) (redis.Conn, error)
}

// Divided is a Server that keeps connections apart for each purpose, so that one kind of
// call never waits behind another. With a Server that is not Divided all calls share
// connections.
type Divided interface {
	Server
	// VitalConn lends a connection for a heartbeat, a claim, or what returns a claim.
	// While these wait, accounts are not checked.
	VitalConn(ctx context.Context, key string) (redis.Conn, error)
	// GroupConn lends one for a step of a consumer group, of which there may be any
	// number.
	GroupConn(ctx context.Context, key string) (redis.Conn, error)
	// BlockingConn lends one for a call that Redis holds back until something happens, or
	// for a subscription. It is kept for seconds, or for good.
	BlockingConn(ctx context.Context, key string) (redis.Conn, error)
}

// Purpose is what a connection is needed for.
type Purpose uint8

// The purposes that a [Divided] server keeps apart.
const (
	Ordinary Purpose = iota
	Vital
	ForGroups
	Blocking
)

// Lend lends one of the server's connections for a purpose, and notes whether that was
// possible. The caller closes it.
func (w *Wire) Lend(ctx context.Context, key string, p Purpose) (redis.Conn, error) {
	// This is bounded even if the caller's context is not: the pool may be testing
	// connections of a silent server, one after the other.
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	conn, err := connFor(ctx, w.server, key, p)
	if err != nil {
		w.Note(key, time.Now(), err)
		if Replied(err) { // it was reached and refuses us
			return nil, fmt.Errorf("circulate: %w", err)
		}
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return conn, nil
}

func connFor(ctx context.Context, server Server, key string, p Purpose) (redis.Conn, error) {
	if s, ok := server.(Divided); ok {
		switch p {
		case Vital:
			return s.VitalConn(ctx, key)
		case ForGroups:
			return s.GroupConn(ctx, key)
		case Blocking:
			return s.BlockingConn(ctx, key)
		}
	}
	return server.Conn(ctx, key)
}
