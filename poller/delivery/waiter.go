package delivery

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	// longWait is how long one wait for messages lasts while every session waits:
	// the end of the consumer need not wait longer.
	longWait = time.Second
	// shortWait is how long it lasts while some do not, as what they find when they
	// come to wait is not waited for before the next one.
	shortWait = 10 * time.Millisecond
)

// waiters wait for messages, one for each node of Redis, with one command for all
// shards whose sessions are idle.
type waiters struct {
	ring *circulate.Ring
	log  *slog.Logger

	ctx context.Context
	end context.CancelFunc
	all sync.WaitGroup

	mu    sync.Mutex
	nodes map[string]*waiter
}

func newWaiters(ring *circulate.Ring, log *slog.Logger) *waiters {
	w := &waiters{ring: ring, log: log, nodes: make(map[string]*waiter)}
	w.ctx, w.end = context.WithCancel(context.Background())
	return w
}

func (w *waiters) stop() {
	w.end()
	w.all.Wait()
}

// enter says that a shard has a session, leave that it has none any more.
func (w *waiters) enter(shard int) (leave func()) {
	node := w.of(shard)
	node.read(shard, true)
	return func() { node.read(shard, false) }
}

// reads reports whether a shard has a session.
func (w *waiters) reads(shard int) bool {
	node := w.of(shard)
	node.mu.Lock()
	defer node.mu.Unlock()
	return node.sessions[shard]
}

// park has a shard waited for, until the caller leaves: woken is closed when it
// has a message after the position. With no position nothing is waited for.
func (w *waiters) park(shard int, after string) (woken <-chan struct{}, leave func()) {
	wake := make(chan struct{})
	node, p := w.of(shard), &parked{after: after, woken: wake}
	node.mu.Lock()
	node.parked[shard] = p
	node.mu.Unlock()
	node.signal()
	return wake, func() {
		node.mu.Lock()
		defer node.mu.Unlock()
		delete(node.parked, shard)
	}
}

func (w *waiters) of(shard int) *waiter {
	name := w.ring.Node(shard)
	w.mu.Lock()
	defer w.mu.Unlock()
	node := w.nodes[name]
	if node == nil {
		node = &waiter{parked: make(map[int]*parked), sessions: make(map[int]bool), changed: make(chan struct{}, 1)}
		w.nodes[name] = node
		w.all.Go(func() { node.run(w) })
	}
	return node
}

// waiter waits for the shards of one node.
type waiter struct {
	mu       sync.Mutex
	parked   map[int]*parked
	sessions map[int]bool
	changed  chan struct{} // has a value after a shard was parked
}

type parked struct {
	after string
	woken chan struct{} // nil once it is closed
}

func (n *waiter) read(shard int, is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if is {
		n.sessions[shard] = true
	} else {
		delete(n.sessions, shard)
	}
}

func (n *waiter) signal() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

func (n *waiter) run(w *waiters) {
	for w.ctx.Err() == nil {
		after, block := n.waitFor()
		if len(after) == 0 {
			select {
			case <-w.ctx.Done():
			case <-n.changed:
			}
			continue
		}
		ready, err := w.ring.AwaitMessages(w.ctx, after, block)
		if err != nil {
			// Sessions look by themselves each time that they renew their leases.
			w.log.Debug("waiting for messages failed", "error", err)
			_ = sleep(w.ctx, longWait/4)
		}
		n.wake(ready)
	}
}

// waitFor tells what to wait for, and for how long.
func (n *waiter) waitFor() (after map[int]string, block time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	after = make(map[int]string, len(n.parked))
	waiting := 0
	for shard, p := range n.parked {
		if p.woken == nil {
			continue // woken, and about to leave
		}
		waiting++
		if p.after != "" {
			after[shard] = p.after
		}
	}
	if waiting < len(n.sessions) {
		return after, shortWait
	}
	return after, longWait
}

func (n *waiter) wake(ready []int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, shard := range ready {
		if p := n.parked[shard]; p != nil && p.woken != nil {
			close(p.woken)
			p.woken = nil
		}
	}
}
