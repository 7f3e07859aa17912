package poller

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/rounds-dev/rounds/circulate"
)

// claims are the accounts that a replica knows it has claimed, until their returns are written.
// After a lost reply to a claim or a page, the replica may have claimed more. It releases those
// itself: because it lives, the monitors would requeue them only after the long timeout.
type claims struct {
	mu    sync.Mutex
	count map[string]int // by account
	lost  map[int]bool   // shards in which there may be more claims than are known
}

func newClaims() *claims {
	return &claims{count: make(map[string]int), lost: make(map[int]bool)}
}

func (c *claims) add(all []circulate.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range all {
		c.count[all[i].ID]++
	}
}

func (c *claims) remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[id]--; c.count[id] <= 0 {
		delete(c.count, id)
	}
}

// lose notes that the replica may have claims in a shard without knowing it.
func (c *claims) lose(shard int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost[shard] = true
}

// loseAll is lose for every shard.
func (c *claims) loseAll(shards int) {
	for shard := range shards {
		c.lose(shard)
	}
}

// suspicious reports whether the replica may have unknown claims in a shard, and forgets that it
// may.
func (c *claims) suspicious(shard int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.lost[shard]
	delete(c.lost, shard)
	return was
}

// suspects returns the shards in which the replica may have unknown claims, and forgets them.
func (c *claims) suspects() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	shards := slices.Sorted(maps.Keys(c.lost))
	clear(c.lost)
	return shards
}

func (c *claims) has(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count[id] > 0
}

const lostChunk = 256 // entries looked at in one step

// reclaim releases the claims in a shard that this replica has without knowing it. No
// other claimer of this replica claims from the shard meanwhile.
func (c *claimer) reclaim(ctx context.Context, shard int) error {
	for passed := 0; ; {
		entries, _, err := c.ring.Oldest(ctx, shard, passed, lostChunk)
		if err != nil {
			return err
		}
		var unknown []circulate.ClaimedEntry
		for _, h := range entries {
			if !h.Malformed() && h.Entry.Replica == c.config.Replica && !c.claims.has(h.Entry.ID) {
				unknown = append(unknown, h)
			}
		}
		n := 0
		if len(unknown) > 0 {
			if n, err = c.ring.ReleaseEntries(ctx, shard, unknown); err != nil {
				return err
			}
			c.metrics.reclaimed.Add(float64(n))
			c.log.Info("claims that this replica did not know of are released", "shard", shard, "accounts", n)
		}
		if len(entries) < lostChunk {
			return nil
		}
		passed += len(entries) - n
	}
}

// reclaimAll releases the claims that the replica may have without knowing it, before it signs off.
func (c *claimer) reclaimAll(ctx context.Context) {
	for _, shard := range c.claims.suspects() {
		if err := c.reclaim(ctx, shard); err != nil {
			c.log.Warn("could not look for unknown claims; they will be requeued", "shard", shard, "error", err)
		}
	}
}
