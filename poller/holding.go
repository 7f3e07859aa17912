package poller

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/rounds-dev/rounds/circulate"
)

// holding is the accounts that a replica knows it holds, from the claim until the return is
// written. After a lost reply to a claim or a page it may hold more. It releases those
// itself: the monitors would requeue them only after the long timeout, because the replica
// lives.
type holding struct {
	mu    sync.Mutex
	count map[string]int // by account
	lost  map[int]bool   // shards in which there may be more than is known
}

func newHolding() *holding {
	return &holding{count: make(map[string]int), lost: make(map[int]bool)}
}

func (h *holding) add(claims []circulate.Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range claims {
		h.count[claims[i].ID]++
	}
}

func (h *holding) remove(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count[id]--; h.count[id] <= 0 {
		delete(h.count, id)
	}
}

// lose notes that the replica may hold accounts of a shard without knowing it.
func (h *holding) lose(shard int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost[shard] = true
}

// loseAll is lose for each shard.
func (h *holding) loseAll(shards int) {
	for shard := range shards {
		h.lose(shard)
	}
}

// suspicious reports whether the replica may hold unknown accounts of a shard, and resets
// that.
func (h *holding) suspicious(shard int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.lost[shard]
	delete(h.lost, shard)
	return was
}

// suspects returns the shards of which the replica may hold unknown accounts, and resets them.
func (h *holding) suspects() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	shards := slices.Sorted(maps.Keys(h.lost))
	clear(h.lost)
	return shards
}

func (h *holding) has(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count[id] > 0
}

const lostChunk = 256 // entries looked at in one step

// reclaim releases the accounts of a shard that this replica holds without knowing it. No
// other claimer of this replica claims from the shard meanwhile.
func (c *claimer) reclaim(ctx context.Context, shard int) error {
	for passed := 0; ; {
		held, _, err := c.ring.Oldest(ctx, shard, passed, lostChunk)
		if err != nil {
			return err
		}
		var unknown []circulate.Held
		for _, h := range held {
			if !h.Malformed() && h.Entry.Replica == c.config.Replica && !c.holding.has(h.Entry.ID) {
				unknown = append(unknown, h)
			}
		}
		n := 0
		if len(unknown) > 0 {
			if n, err = c.ring.ReleaseHeld(ctx, shard, unknown); err != nil {
				return err
			}
			c.metrics.reclaimed.Add(float64(n))
			c.log.Info("accounts were held without knowing it, and are returned", "shard", shard, "accounts", n)
		}
		if len(held) < lostChunk {
			return nil
		}
		passed += len(held) - n
	}
}

// reclaimAll releases what the replica may hold without knowing it, before it signs off.
func (c *claimer) reclaimAll(ctx context.Context) {
	for _, shard := range c.holding.suspects() {
		if err := c.reclaim(ctx, shard); err != nil {
			c.log.Warn("could not look for accounts that may be held; they will be requeued", "shard", shard, "error", err)
		}
	}
}
