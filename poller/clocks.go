package poller

import (
	"sync/atomic"
	"time"
)

// clocks translates between Redis' clock and ours by what each showed at the last claims. It never
// compares the two.
type clocks struct {
	last   atomic.Pointer[instant]   // at the last claim
	shards []atomic.Pointer[instant] // shard -> at its last claim
}

// instant is one moment, by Redis' clock and by ours.
type instant struct{ server, local time.Time }

func newClocks(shards int) *clocks {
	return &clocks{shards: make([]atomic.Pointer[instant], shards)}
}

// set notes both clocks' times of a claim.
func (c *clocks) set(shard int, server, local time.Time) {
	read := &instant{server: server, local: local}
	c.last.Store(read)
	c.shards[shard].Store(read)
}

// now returns the time by Redis' clock, from the last claim.
func (c *clocks) now() time.Time {
	if read := c.last.Load(); read != nil {
		return read.server.Add(time.Since(read.local))
	}
	return time.Now() // nothing was claimed yet
}

// nowOf is now by the last claim of a shard. Something must have been claimed from it before.
func (c *clocks) nowOf(shard int) time.Time {
	read := c.shards[shard].Load()
	return read.server.Add(time.Since(read.local))
}

// local translates a time by Redis' clock into one by ours, as of the last claim.
func (c *clocks) local(server time.Time) time.Time {
	if read := c.last.Load(); read != nil {
		return read.local.Add(server.Sub(read.server))
	}
	return time.Now()
}
