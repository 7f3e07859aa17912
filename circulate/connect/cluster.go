package connect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Cluster is the nodes of a Redis Cluster, with pools of connections to each, and the map
// from slots to nodes.
//
// The map is read when the first connection is lent, when a node says that it does not
// serve a slot, when a node cannot be reached, and when a connection is lost. There is no
// goroutine for it: the next caller that asks for a connection reads the map again, while
// others use the old one.
//
// A lent connection goes to the node that serves the key's slot, or to any node if the key
// is empty. A single command that the node redirects, by MOVED, ASK or TRYAGAIN, was not
// done and is sent to the right node. In a pipeline the caller gets such a reply: only the
// refused commands were not done. A transaction was not done at all if one of its commands
// or its EXEC was refused. The map is read again, so that the caller's next try succeeds.
//
// A node that has left the map may still answer. Its answer is returned as an error, like
// the error of a cut connection. A master that was frozen while its replica took its
// place still does the commands that it received, but they will be lost.
type Cluster struct {
	lender
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
	if err := o.refuseUnused(s.tls, false); err != nil {
		return nil, err
	}
	d, err := newDialer(s.nodes, o.PasswordFile, 0, s.tls, o)
	if err != nil {
		return nil, err
	}
	c := &Cluster{seeds: s.addresses, dial: d, o: o, nodes: make(map[string]*node), reading: make(chan struct{}, 1)}
	c.lender = c.connFor
	return c, nil
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

// lend lends a connection to the node that serves a slot. If that node does not answer, lend reads
// the map again and tries the node that has taken over.
func (c *Cluster) lend(ctx context.Context, slot int, p purpose) (*node, redis.Conn, error) {
	c.refresh(ctx)
	n := c.slots[slot].Load()
	if n == nil {
		if err := c.readMap(ctx); err != nil {
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
	if ctx.Err() != nil || c.readMap(ctx) != nil {
		return nil, nil, err
	}
	other := c.slots[slot].Load()
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
	if err := c.readMap(ctx); err != nil {
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

const (
	// mapTimeout bounds one node's answer with the map.
	mapTimeout = time.Second
	// mapInterval is the shortest time between two readings on suspicion.
	mapInterval = 100 * time.Millisecond
)

// suspect makes the next lending read the map again first.
func (c *Cluster) suspect() { c.stale.Store(true) }

// refresh reads the map if it is suspected to be wrong and no other goroutine reads it.
func (c *Cluster) refresh(ctx context.Context) {
	if !c.stale.Load() || time.Now().UnixNano()-c.began.Load() < int64(mapInterval) {
		return
	}
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
		_ = c.askNodes(ctx) // the old map may do; a caller that it fails reads it again
	default:
	}
}

// readMap reads the map, or waits for the goroutine that does.
func (c *Cluster) readMap(ctx context.Context) error {
	before := c.reads.Load()
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.reads.Load() != before {
		return nil // just done
	}
	return c.askNodes(ctx)
}

// askNodes asks one node after the other for the map, in any order, until one answers.
func (c *Cluster) askNodes(ctx context.Context) error {
	c.began.Store(time.Now().UnixNano())
	c.stale.Store(false)
	var failed error
	for _, address := range c.candidates() {
		if err := ctx.Err(); err != nil {
			failed = errors.Join(failed, err)
			break
		}
		ranges, err := c.ask(ctx, address)
		if err == nil {
			err = c.apply(ranges)
		}
		if err == nil {
			c.reads.Add(1)
			return nil
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", address, err))
	}
	c.suspect()
	return fmt.Errorf("redis cluster: no node reports the slots: %w", failed)
}

func (c *Cluster) candidates() []string {
	c.mu.Lock()
	known := make([]string, 0, len(c.nodes)+len(c.seeds))
	for address := range c.nodes {
		known = append(known, address)
	}
	c.mu.Unlock()
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	for _, seed := range c.seeds {
		if !slices.Contains(known, seed) {
			known = append(known, seed)
		}
	}
	return known
}

func (c *Cluster) ask(ctx context.Context, address string) ([]slotRange, error) {
	ctx, cancel := context.WithTimeout(ctx, min(mapTimeout, c.o.ConnectTimeout))
	defer cancel()
	conn, err := c.dial.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reply, err := redis.DoContext(conn, ctx, "CLUSTER", "SLOTS")
	var refused redis.Error
	if errors.As(err, &refused) && strings.Contains(string(refused), "cluster support disabled") {
		err = fmt.Errorf("is in no cluster; the URL of such a server begins with redis://: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return readSlots(reply, address)
}

// apply makes a map the current one, and closes nodes that are not in it.
func (c *Cluster) apply(ranges []slotRange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	serving := make(map[string]bool)
	next := 0
	for _, r := range ranges {
		n := c.nodeAt(r.address)
		serving[r.address] = true
		for ; next < r.first; next++ {
			c.slots[next].Store(nil)
		}
		for ; next <= r.last; next++ {
			c.slots[next].Store(n)
		}
	}
	for ; next < slotCount; next++ {
		c.slots[next].Store(nil)
	}
	for address, n := range c.nodes {
		if !serving[address] {
			n.left.Store(true)
			delete(c.nodes, address)
			_ = n.pools.Close()
		}
	}
	return nil
}

// nodeAt returns the node of an address. The caller holds mu.
func (c *Cluster) nodeAt(address string) *node {
	n := c.nodes[address]
	if n == nil {
		dial := func(ctx context.Context) (redis.Conn, error) { return c.dial.dial(ctx, address) }
		n = &node{address: address, pools: newPools(c.o, dial, pingIdle)}
		c.nodes[address] = n
	}
	return n
}

// moved records a node's word that another node serves a slot.
func (c *Cluster) moved(slot int, address string) {
	c.mu.Lock()
	if !c.closed {
		c.slots[slot].Store(c.nodeAt(address))
	}
	c.mu.Unlock()
	c.suspect() // more slots than this one may have moved
}

// slotRange is a range of slots that one master serves.
type slotRange struct {
	first, last int
	address     string
}

var errSlots = errors.New("CLUSTER SLOTS: unreadable reply")

// readSlots reads a node's reply to CLUSTER SLOTS: arrays of the first slot, the last,
// and nodes, the master first, each with host, port and more.
func readSlots(reply any, from string) ([]slotRange, error) {
	entries, err := redis.Values(reply, nil)
	if err != nil {
		return nil, errSlots
	}
	ranges := make([]slotRange, 0, len(entries))
	for _, e := range entries {
		entry, err := redis.Values(e, nil)
		if err != nil || len(entry) < 3 {
			return nil, errSlots
		}
		first, firstErr := redis.Int(entry[0], nil)
		last, lastErr := redis.Int(entry[1], nil)
		master, err := redis.Values(entry[2], nil)
		if errors.Join(firstErr, lastErr, err) != nil || len(master) < 2 || first < 0 || last < first || last >= slotCount {
			return nil, errSlots
		}
		host, _ := redis.String(master[0], nil) // nil: a node that does not know its own address
		port, err := redis.Int(master[1], nil)
		if err != nil {
			return nil, errSlots
		}
		ranges = append(ranges, slotRange{first, last, hostOr(host, strconv.Itoa(port), from)})
	}
	if len(ranges) == 0 {
		return nil, errors.New("serves no slots: it is not a member of a cluster, or its cluster has none assigned")
	}
	slices.SortFunc(ranges, func(a, b slotRange) int { return a.first - b.first })
	for i := 1; i < len(ranges); i++ {
		if ranges[i].first <= ranges[i-1].last {
			return nil, errSlots
		}
	}
	return ranges, nil
}

// hostOr returns an address. If the node does not know its own host, that is the host at
// which it was reached.
func hostOr(host, port, from string) string {
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(from)
	}
	return net.JoinHostPort(host, port)
}

// slotCount is how many slots a cluster has.
const slotCount = 16384

// Slot returns the slot of a cluster that has a key: CRC16 of its hash tag, or of the
// whole key without one, modulo 16384 (https://redis.io/docs/reference/cluster-spec/).
func Slot(key string) int {
	if _, behind, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(behind, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key) % slotCount)
}

// crc16 is CRC-16/XMODEM: polynomial 0x1021, beginning with 0. It uses no table, because
// tags are short.
func crc16(text string) uint16 {
	var crc uint16
	for i := range len(text) {
		crc ^= uint16(text[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}
