package group

import (
	"slices"
	"sync"
	"time"
)

const (
	// gatherFor is how long a question waits for others that go with it, at least.
	gatherFor = 20 * time.Millisecond
	// gatherMax is how many questions go together, at most.
	gatherMax = 256
	// gatherAtOnce is how many steps are under way at once, over all shards. The
	// longer they take, the more questions go together.
	gatherAtOnce = 8
)

// gathering has questions about a shard that many groups of a process ask at about
// the same time answered in one step.
type gathering[Q any] struct {
	mu      sync.Mutex
	waiting map[int][]Q // by shard
	slots   chan struct{}
}

// ask adds a question, which answer is called with soon, among others.
func (g *gathering[Q]) ask(shard int, question Q, answer func(shard int, questions []Q)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == nil {
		g.waiting, g.slots = make(map[int][]Q), make(chan struct{}, gatherAtOnce)
	}
	g.waiting[shard] = append(g.waiting[shard], question)
	if len(g.waiting[shard]) > 1 {
		return // whoever was first has all of them answered
	}
	time.AfterFunc(gatherFor, func() {
		g.slots <- struct{}{}
		defer func() { <-g.slots }()
		g.mu.Lock()
		all := g.waiting[shard]
		delete(g.waiting, shard)
		g.mu.Unlock()
		for some := range slices.Chunk(all, gatherMax) {
			answer(shard, some)
		}
	})
}
