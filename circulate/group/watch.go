package group

import "context"

// Watch is an interest in the messages of one shard. However many watches a process has,
// of however many groups, it waits for their messages with one command for each node of
// Redis. A watch only wakes: it delivers nothing. If a wake-up is lost with its
// connection, the next wait, which asks from the same positions, repeats it.
//
// A Watch is for one goroutine at a time. Close it.
type Watch struct {
	groups *Groups
	shard  int
	at     *lookout // of the node that serves the shard
	told   string   // the position that it was last woken for
	from   string   // the position that it was parked at then
}

// Watch begins to watch a shard.
func (g *Groups) Watch(shard int) *Watch {
	w := &Watch{groups: g, shard: shard, at: g.lookouts.of(g, g.ring.Node(shard))}
	w.at.enter(shard)
	return w
}

// Park has wake called once, as soon as the shard has a message after a position, or at
// once if it has one already, until leave is called. Wake must not block. It may be
// called without a message.
func (w *Watch) Park(after string, wake func()) (leave func()) {
	if at := w.groups.lookouts.of(w.groups, w.groups.ring.Node(w.shard)); at != w.at {
		w.at.exit(w.shard)
		w.at = at
		at.enter(w.shard)
	}
	return w.at.park(w, after, wake)
}

// Close ends the watch. It must not be parked.
func (w *Watch) Close() { w.at.exit(w.shard) }

// Unwatched returns when no wait for messages is under way. While there is a [Watch] it
// returns at once: the wait is then for that one.
func (g *Groups) Unwatched(ctx context.Context) {
	for _, l := range g.lookouts.all() {
		select {
		case <-l.atRest():
		case <-ctx.Done():
			return
		}
	}
}
