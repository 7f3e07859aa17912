package connect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// mapTimeout bounds one node's answer with the map.
	mapTimeout = time.Second
	// mapInterval is the shortest time between two readings on suspicion.
	mapInterval = 100 * time.Millisecond
)

// suspect has the map read again before the next connection is lent.
func (c *Cluster) suspect() { c.stale.Store(true) }

// refresh reads the map if it is suspected to be wrong and no other goroutine reads it.
func (c *Cluster) refresh(ctx context.Context) {
	if !c.stale.Load() || time.Now().UnixNano()-c.began.Load() < int64(mapInterval) {
		return
	}
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
		_ = c.readAll(ctx) // the old map may do; a caller for whom it does not reads it again
	default:
	}
}

// read reads the map, or waits for the goroutine that does.
func (c *Cluster) read(ctx context.Context) error {
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
	return c.readAll(ctx)
}

// readAll asks one node after the other, in any order, until one answers.
func (c *Cluster) readAll(ctx context.Context) error {
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
	return fmt.Errorf("redis cluster: no node tells which slots there are: %w", failed)
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
		n = &node{address: address, pools: newPools(c.o, dial, nil)}
		c.nodes[address] = n
	}
	return n
}

// moved believes a node that another serves a slot.
func (c *Cluster) moved(slot int, address string) {
	c.mu.Lock()
	if !c.closed {
		c.slots[slot].Store(c.nodeAt(address))
	}
	c.mu.Unlock()
	c.suspect() // more slots than this one may have moved
}
