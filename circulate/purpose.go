package circulate

import (
	"context"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// Divided is a Server that keeps connections apart for each purpose, so that one
// kind of call never waits behind another. Of a server that is not Divided all
// calls share the connections.
type Divided interface {
	Server
	// VitalConn lends a connection for a heartbeat, a claim, or what returns a
	// claim: while these wait, accounts are not checked.
	VitalConn(ctx context.Context, key string) (redis.Conn, error)
	// GroupConn lends one for a step of a consumer group, of which there may be any
	// number.
	GroupConn(ctx context.Context, key string) (redis.Conn, error)
	// BlockingConn lends one for a call that Redis holds back until something
	// happens, or for a subscription. It is kept for seconds, or for good.
	BlockingConn(ctx context.Context, key string) (redis.Conn, error)
}

// purpose is what a connection is wanted for.
type purpose uint8

const (
	ordinary purpose = iota
	vitally
	forGroups
	blocking
)

// connFor lends a connection of those that a server keeps for a purpose.
func connFor(ctx context.Context, server Server, key string, p purpose) (redis.Conn, error) {
	switch s := server.(type) {
	case *watched:
		return s.connFor(ctx, key, p)
	case Divided:
		switch p {
		case vitally:
			return s.VitalConn(ctx, key)
		case forGroups:
			return s.GroupConn(ctx, key)
		case blocking:
			return s.BlockingConn(ctx, key)
		}
	}
	return server.Conn(ctx, key)
}

// vital is a server whose every call is one that must not wait behind others.
type vital struct{ Server }

// Conn lends a connection that is kept for what is vital.
func (v vital) Conn(ctx context.Context, key string) (redis.Conn, error) {
	return connFor(ctx, v.Server, key, vitally)
}

// grouped is a server whose every call is a step of a consumer group.
type grouped struct{ Server }

// Conn lends a connection that is kept for consumer groups.
func (g grouped) Conn(ctx context.Context, key string) (redis.Conn, error) {
	return connFor(ctx, g.Server, key, forGroups)
}

func lend(ctx context.Context, server Server, key string) (redis.Conn, error) {
	return lendFor(ctx, server, key, ordinary)
}

func lendFor(ctx context.Context, server Server, key string, p purpose) (redis.Conn, error) {
	// Bounded even where the caller's context is not: the pool may be trying
	// connections of a server that keeps silent, one after the other.
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := connFor(ctx, server, key, p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return conn, nil
}
