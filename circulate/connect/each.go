package connect

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// EachServer calls fn with a connection to every server that accepts writes, one after
// the other: all masters of a cluster, or the one server. It closes the connections. If a
// server cannot be reached, or fn fails, the error names it, and the others are still
// called.
func EachServer(ctx context.Context, server interface {
	Conn(ctx context.Context, key string) (redis.Conn, error)
}, fn func(ctx context.Context, name string, conn redis.Conn) error) error {
	with := func(name string, lend func() (redis.Conn, error)) error {
		conn, err := lend()
		if err != nil {
			return fmt.Errorf("redis %s: %w", name, err)
		}
		return errors.Join(fn(ctx, name, conn), conn.Close())
	}
	cluster, ok := server.(*Cluster)
	if !ok {
		name := ""
		if named, ok := server.(interface{ Name() string }); ok {
			name = named.Name()
		}
		return with(name, func() (redis.Conn, error) { return server.Conn(ctx, "") })
	}
	addresses, err := cluster.Nodes(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, address := range addresses {
		errs = append(errs, with(address, func() (redis.Conn, error) { return cluster.ConnTo(ctx, address) }))
	}
	return errors.Join(errs...)
}
