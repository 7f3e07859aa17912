package connect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// Cluster is the nodes of a Redis Cluster, with pools of connections to each, and the map
// of which node serves which slot.
//
// The map is read when the first connection is lent, when a node says that it does not
// serve a slot, when a node cannot be reached, and when a connection is lost. There is no
// goroutine for it: the next caller that asks for a connection reads the map again, while
// others use the old one.
type Cluster struct {
	seeds []string
	dial  *dialer
	o     Options

	slots [slotCount]atomic.Pointer[node] // nil: no known node serves it

	mu     sync.Mutex
	nodes  map[string]*node // by address
	closed bool

	reading chan struct{} // has a value while the map is being read
	reads   atomic.Int64  // how often it was read
	began   atomic.Int64  // when the last reading began, unix ns
	stale   atomic.Bool   // it should be read again

	redirected atomic.Int64 // commands
}

// node is a server of a cluster.
type node struct {
	address string
	pools   *pools
	left    atomic.Bool // it serves nothing any more
}

var errClosed = errors.New("redis cluster: closed")

// OpenCluster prepares connections to the cluster of a redis+cluster:// or
// rediss+cluster:// URL, which names some of its nodes. MaxConns is for each node and
// purpose.
func OpenCluster(rawURL string, o Options) (*Cluster, error) {
	o = o.withDefaults()
	s, err := parseCluster(rawURL)
	if err != nil {
		return nil, err
	}
	if o.SentinelPasswordFile != "" {
		return nil, errNoSentinels
	}
	if !s.tls {
		if err := refuseUnusedFiles(o); err != nil {
			return nil, err
		}
	}
	d, err := newDialer(s.nodes, o.PasswordFile, 0, s.tls, o)
	if err != nil {
		return nil, err
	}
	return &Cluster{seeds: s.addresses, dial: d, o: o, nodes: make(map[string]*node), reading: make(chan struct{}, 1)}, nil
}

// Conn lends a connection to the node that serves the key's slot, or to any node if key
// is empty.
//
// A single command that the node redirects, by MOVED, ASK or TRYAGAIN, was not done and
// is sent to the right node. In a pipeline the caller gets such a reply: only the
// commands that were refused were not done. Of a transaction nothing was done if one of
// its commands or its EXEC was refused. The map is read again, so that the caller's next
// try succeeds.
//
// What a node answers after it has left the map is returned as an error, like that of a
// cut connection. A master that was frozen while its replica took its place still does
// the commands that it received, and that will be forgotten.
func (c *Cluster) Conn(ctx context.Context, key string) (redis.Conn, error) {
	return c.connFor(ctx, key, ordinary)
}

// VitalConn lends a connection for a heartbeat, a claim or what returns a claim.
func (c *Cluster) VitalConn(ctx context.Context, key string) (redis.Conn, error) {
	return c.connFor(ctx, key, vital)
}

// GroupConn lends a connection for a step of a consumer group.
func (c *Cluster) GroupConn(ctx context.Context, key string) (redis.Conn, error) {
	return c.connFor(ctx, key, groups)
}

// BlockingConn lends a connection for a call that blocks, or a subscription.
func (c *Cluster) BlockingConn(ctx context.Context, key string) (redis.Conn, error) {
	return c.connFor(ctx, key, blocking)
}

func (c *Cluster) connFor(ctx context.Context, key string, p purpose) (redis.Conn, error) {
	slot := rand.IntN(slotCount)
	if key != "" {
		slot = Slot(key)
	}
	n, conn, err := c.lend(ctx, slot, p)
	if err != nil {
		return nil, err
	}
	return &clusterConn{cluster: c, slot: slot, purpose: p, node: n, conn: conn}, nil
}

func (c *Cluster) lend(ctx context.Context, slot int, p purpose) (*node, redis.Conn, error) {
	c.refresh(ctx)
	n := c.slots[slot].Load()
	if n == nil {
		if err := c.read(ctx); err != nil {
			return nil, nil, err
		}
		if n = c.slots[slot].Load(); n == nil {
			return nil, nil, fmt.Errorf("redis cluster: no node serves slot %d", slot)
		}
	}
	conn, err := n.pools.lend(ctx, p)
	if err == nil {
		return n, conn, nil
	}
	c.suspect()
	if ctx.Err() != nil || c.read(ctx) != nil {
		return nil, nil, err
	}
	other := c.slots[slot].Load() // another may have taken over
	if other == nil || other == n {
		return nil, nil, err
	}
	conn, err = other.pools.lend(ctx, p)
	return other, conn, err
}

// NodeOf returns the node that serves a key, as far as is known.
func (c *Cluster) NodeOf(key string) string {
	if n := c.slots[Slot(key)].Load(); n != nil {
		return n.address
	}
	return "unknown"
}

// Nodes returns the addresses of all nodes that serve slots.
func (c *Cluster) Nodes(ctx context.Context) ([]string, error) {
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	addresses := make([]string, 0, len(c.nodes))
	for address := range c.nodes {
		addresses = append(addresses, address)
	}
	slices.Sort(addresses)
	return addresses, nil
}

// ConnTo lends a connection to the node at an address that Nodes returned. Redirected
// commands are not sent on.
func (c *Cluster) ConnTo(ctx context.Context, address string) (redis.Conn, error) {
	c.mu.Lock()
	n := c.nodes[address]
	c.mu.Unlock()
	if n == nil {
		return nil, fmt.Errorf("redis cluster: %s serves nothing", address)
	}
	return n.pools.lend(ctx, ordinary)
}

// Redirected returns how many commands a node refused because another serves their slot,
// or because the slot is on its way.
func (c *Cluster) Redirected() int64 { return c.redirected.Load() }

// Name returns the addresses of the URL, without a password.
func (c *Cluster) Name() string { return "cluster " + strings.Join(c.seeds, ",") }

// Close ends the connections that are not lent.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.pools.Close())
	}
	return errors.Join(errs...)
}
