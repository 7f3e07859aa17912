package delivery

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/rounds-dev/rounds/circulate/group"
)

// hanging is the set of handlers that do not return although their context is done. Each keeps its
// slot until it returns.
type hanging struct {
	mu      sync.Mutex
	count   int
	shards  map[int]int // shard -> how many of them have its messages
	changed bool        // since the last call of news
}

func newHanging() *hanging { return &hanging{shards: make(map[int]int)} }

func (h *hanging) add(shard int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	h.shards[shard]++
	h.changed = true
}

func (h *hanging) remove(shard int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count--
	if h.shards[shard]--; h.shards[shard] == 0 {
		delete(h.shards, shard)
	}
	h.changed = true
}

// all returns how many handlers hang, and the shards whose messages they have.
func (h *hanging) all() (count int, shards []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count, slices.Sorted(maps.Keys(h.shards))
}

// news reports whether the set has changed since the last call.
func (h *hanging) news() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.changed
	h.changed = false
	return was
}

// aside takes the consumer out of its group while a handler hangs in each of its slots: it could
// not read, but its peers can. It reports whether the consumer is out.
func (g *member) aside(was bool) bool {
	count, _ := g.hanging.all()
	is := count >= g.Concurrency
	switch {
	case is && !was:
		g.meters.aside.Set(1)
		g.Log.Error("a handler hangs in every slot: the consumer leaves its group until one returns", "handlers", count)
		g.quit()
	case was && !is:
		g.meters.aside.Set(0)
		g.Log.Info("a handler has returned: the consumer is in its group again")
	}
	return is
}

// learn asks for the condition of the peers.
func (g *member) learn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	peers, err := group.Of(g.Ring).Conditions(ctx, g.Group)
	if err != nil {
		g.failed("conditions", err)
		return
	}
	g.peers = peers
}
