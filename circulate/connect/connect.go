// Package connect reaches Redis: one server ([Single]), the master that Sentinel names
// ([Sentinel]), the nodes of a cluster ([Cluster]), or one embedded in the process
// ([Embedded]). These lend connections to package circulate.
//
// A connection never repeats a command whose outcome is unknown. It sends on only a
// command that a node of a cluster redirected, because that node did not do it.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Options say how to reach a server. The zero value means the defaults.
type Options struct {
	// CAFile, CertFile and KeyFile are PEM files for rediss://: an authority to trust in
	// addition to the system's, and our own certificate and key.
	CAFile, CertFile, KeyFile string

	// PasswordFile has the password instead of the URL, which may have the user. It is
	// read for each connection, so that a password can be changed while connections last.
	// SentinelPasswordFile is the same for the sentinels.
	PasswordFile, SentinelPasswordFile string

	MaxConns       int           // at most this many connections for each purpose, half as many for groups; 64
	ConnectTimeout time.Duration // 3 s
	ReadTimeout    time.Duration // of a call without an earlier deadline; 10 s
	WriteTimeout   time.Duration // 5 s

	// Dialed is called with the address of each server that was reached, including
	// sentinels and the nodes of a cluster, before anything is sent to it. It must not
	// block. Nil: it is not called.
	Dialed func(net.Addr)
}

func (o Options) withDefaults() Options {
	o.MaxConns = cmp.Or(o.MaxConns, 64)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 3*time.Second)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 10*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 5*time.Second)
	return o
}

// refuseUnused returns an error if a file is set that a URL without TLS, or without sentinels, does
// not use.
func (o Options) refuseUnused(tls, sentinels bool) error {
	switch {
	case o.SentinelPasswordFile != "" && !sentinels:
		return errors.New("redis URL: a file for the sentinels' password is set, but the URL names no sentinels: it does not begin with redis+sentinel://")
	case !tls && (o.CAFile != "" || o.CertFile != "" || o.KeyFile != ""):
		return errors.New("redis URL: certificates are given, but only rediss:// uses them")
	}
	return nil
}

// Server lends connections to Redis, however it is reached.
type Server interface {
	// Conn lends a connection to the server that has a key, or to any server if key is
	// empty. The caller closes it.
	Conn(ctx context.Context, key string) (redis.Conn, error)
	// VitalConn is Conn for heartbeats, claims and steps that end claims. These have
	// connections of their own.
	VitalConn(ctx context.Context, key string) (redis.Conn, error)
	// GroupConn is Conn for steps of consumer groups.
	GroupConn(ctx context.Context, key string) (redis.Conn, error)
	// BlockingConn is Conn for calls that Redis does not answer until something happens,
	// and for subscriptions. These have connections of their own, too.
	BlockingConn(ctx context.Context, key string) (redis.Conn, error)
	// Name returns the server's address, without a password.
	Name() string
	// Close ends the connections that are not lent.
	Close() error
}

// Open prepares connections to Redis. It does not connect yet: a server that is away is
// an error of Conn. A URL is one of
//
//	redis://[USER:PASSWORD@]HOST:PORT[/DATABASE]
//	redis+sentinel://[USER:PASSWORD@]HOST:PORT[,HOST:PORT…]/MASTER[?db=DATABASE&…]
//	redis+cluster://[USER:PASSWORD@]HOST:PORT[,HOST:PORT…]
//
// or the same with rediss, for TLS. See [OpenSingle], [OpenSentinel] and [OpenCluster].
func Open(rawURL string, o Options) (Server, error) {
	scheme, _, _ := strings.Cut(rawURL, "://")
	switch strings.ToLower(scheme) {
	case "redis+sentinel", "rediss+sentinel":
		return orNil(OpenSentinel(rawURL, o))
	case "redis+cluster", "rediss+cluster":
		return orNil(OpenCluster(rawURL, o))
	}
	return orNil(OpenSingle(rawURL, o))
}

// orNil prevents a nil pointer from becoming a Server that is not nil.
func orNil[S Server](s S, err error) (Server, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Single is one Redis server, and pools of connections to it.
type Single struct {
	lender
	pools *pools
	name  string
}

// OpenSingle prepares connections to the one server of a redis:// or rediss://
// URL.
func OpenSingle(rawURL string, o Options) (*Single, error) {
	o = o.withDefaults()
	target, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	if err := o.refuseUnused(target.tls, false); err != nil {
		return nil, err
	}
	d, err := newDialer(credentials{target.user, target.password}, o.PasswordFile, target.database, target.tls, o)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context) (redis.Conn, error) { return d.dial(ctx, target.address) }
	pools := newPools(o, dial, pingIdle)
	return &Single{lender: pools.connFor, name: target.address, pools: pools}, nil
}

// Name returns the server's address, without a password.
func (s *Single) Name() string { return s.name }

// Close ends the connections that are not lent.
func (s *Single) Close() error { return s.pools.Close() }

// EachServer calls fn with a connection to every server that accepts writes, one after
// the other: all masters of a cluster, or the one server. It closes the connections. If a
// server cannot be reached, or fn fails, the error names it, and the others are still
// called.
func EachServer(ctx context.Context, server connector, fn func(ctx context.Context, name string, conn redis.Conn) error) error {
	all, err := mastersOf(ctx, server)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range all {
		conn, err := m.lend(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("redis %s: %w", m.name, err))
			continue
		}
		errs = append(errs, fn(ctx, m.name, conn), conn.Close())
	}
	return errors.Join(errs...)
}

// connector is any server that lends connections.
type connector interface {
	Conn(ctx context.Context, key string) (redis.Conn, error)
}

// master is a server that accepts writes.
type master struct {
	name string // as configured, or its address in a cluster
	lend func(ctx context.Context) (redis.Conn, error)
}

// mastersOf returns all masters of a cluster, or the one server.
func mastersOf(ctx context.Context, server connector) ([]master, error) {
	cluster, ok := server.(*Cluster)
	if !ok {
		name := ""
		if named, ok := server.(interface{ Name() string }); ok {
			name = named.Name()
		}
		return []master{{name, func(ctx context.Context) (redis.Conn, error) { return server.Conn(ctx, "") }}}, nil
	}
	addresses, err := cluster.Nodes(ctx)
	all := make([]master, len(addresses))
	for i, address := range addresses {
		all[i] = master{address, func(ctx context.Context) (redis.Conn, error) { return cluster.ConnTo(ctx, address) }}
	}
	return all, err
}
