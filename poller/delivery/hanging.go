package delivery

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// hanging are the handlers that do not return though their context is done. Each
// keeps its slot until it does.
type hanging struct {
	mu      sync.Mutex
	count   int
	shards  map[int]int // shard -> how many of them have messages of it
	changed bool        // since it was asked
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

// all tells how many hang, and the shards that they have messages of.
func (h *hanging) all() (count int, shards []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count, slices.Sorted(maps.Keys(h.shards))
}

// news reports whether that has changed since it was asked last.
func (h *hanging) news() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.changed
	h.changed = false
	return was
}

// aside keeps the consumer out of its group while a handler hangs in each of its
// slots: it could read nothing, and its peers can. It reports whether it is out.
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

// divide tells which shards are this consumer's part among those that are alive. Who
// has a handler that hangs in a shard has declined it, and is left out where there
// is anybody else: what all have declined is read as if none had, for otherwise
// nobody would, and what hangs everybody ends as a dead letter.
func (g *member) divide(alive []string) (ours []bool) {
	_, hang := g.hanging.all()
	declined := make(map[int][]string) // shard -> by whom
	for _, name := range alive {
		shards := g.declined[name]
		if name == g.name {
			shards = hang
		}
		for _, shard := range shards {
			declined[shard] = append(declined[shard], name)
		}
	}
	ours = make([]bool, g.Ring.Shards())
	for shard := range ours {
		willing := alive
		if by := declined[shard]; len(by) > 0 && len(by) < len(alive) {
			willing = slices.DeleteFunc(slices.Clone(alive), func(name string) bool { return slices.Contains(by, name) })
		}
		ours[shard] = circulate.Preferred(shard, willing) == g.name
	}
	return ours
}

// learn asks which shards the peers have declined.
func (g *member) learn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	declined, err := group.Of(g.Ring).Declined(ctx, g.Group)
	if err != nil {
		g.failed("declined", err)
		return
	}
	g.declined = declined
}
