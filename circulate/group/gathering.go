package group

import (
	"slices"
	"sync"
	"time"
)

const (
	// gatherFor is the least time that a question waits for others to be asked together.
	gatherFor = 20 * time.Millisecond
	// gatherMax is the most questions that are asked together.
	gatherMax = 256
	// gatherAtOnce is how many steps are under way at once, over all shards. The longer
	// they take, the more questions are asked together.
	gatherAtOnce = 8
)

// gathering answers questions about a shard, which many groups of a process ask at about
// the same time, in one step.
type gathering[Q any] struct {
	mu      sync.Mutex
	waiting map[int][]Q // by shard
	slots   chan struct{}
}

// ask adds a question. Answer is soon called with it, among others.
func (g *gathering[Q]) ask(shard int, question Q, answer func(shard int, questions []Q)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == nil {
		g.waiting, g.slots = make(map[int][]Q), make(chan struct{}, gatherAtOnce)
	}
	g.waiting[shard] = append(g.waiting[shard], question)
	if len(g.waiting[shard]) > 1 {
		return // the first one has all of them answered
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
