package poller

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	roomLook      = 2 * time.Second        // between two looks at Redis' memory
	roomCalm      = 10 * time.Second       // between two looks while there is room and this replica writes no messages
	roomLeast     = 100 * time.Millisecond // the least between two looks, however much is written
	roomBytes     = 4 << 20                // bytes written since the last look that call for another
	roomMargin    = 0.05                   // how far below the mark messages are taken again
	roomQuiet     = 5 * time.Second        // how long after the last refusal messages are taken again, if the memory is known
	roomQuietLong = 30 * time.Second       // the same, if the memory is unknown
	roomBlind     = time.Minute            // how long a server that does not report its memory is not asked again
	roomTold      = time.Minute            // how long there must be room before that is logged: it may fill again at once
	roomPause     = 15 * time.Second       // the first wait of an account before it is tried again
	roomPauseMost = 45 * time.Second       // the longest: once there is room, all accounts are tried within a minute
)

// gauged is a Redis that can be asked for its memory.
type gauged interface {
	OneOfEachNode() []int
	Node(shard int) string
	Memory(ctx context.Context, shard int) (circulate.Memory, error)
	TryWriteTo(ctx context.Context, shard int) error
}

// room knows which nodes of Redis have no room for messages: nodes that have filled their memory up
// to a mark, or that refuse writes. The memory above the mark is for steps without messages.
type room struct {
	redis   gauged
	mark    float64 // of the limit
	log     *slog.Logger
	metrics *Metrics

	anyFull atomic.Bool  // there is such a node
	calm    atomic.Bool  // the next look is in roomCalm
	bytes   atomic.Int64 // bytes written since the last look
	early   signal       // has a value when the next look must come early

	mu    sync.Mutex
	nodes map[string]*nodeRoom
}

// nodeRoom is the state of one node.
type nodeRoom struct {
	full    bool
	since   time.Time // since when it is full, or has room
	short   time.Time // when the log said that it is full; zero: the log said that it has room
	refused time.Time // when it last refused a write
	blind   time.Time // until when it is not asked for its memory
}

func newRoom(redis gauged, percent int, log *slog.Logger, metrics *Metrics) *room {
	return &room{redis: redis, mark: float64(percent) / 100, log: log, metrics: metrics,
		early: newSignal(), nodes: make(map[string]*nodeRoom)}
}

// run looks at the memory of every node, until ctx is done: every roomLook, every roomCalm while there is
// room and nothing is written, and early when wrote asks for it.
func (r *room) run(ctx context.Context) {
	timer := time.NewTimer(roomLook)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.early:
		}
		calm := r.bytes.Load() == 0 && !r.anyFull.Load()
		r.look(ctx)
		if !sleep(ctx, roomLeast) {
			return
		}
		r.calm.Store(calm)
		wait := roomLook
		if calm && r.bytes.Load() == 0 { // wrote, if it came before the Store, did not ask for an early look
			wait = roomCalm
		}
		timer.Reset(wait)
	}
}

// wrote notes that bytes were written. The more is written, the more often room looks.
func (r *room) wrote(bytes int) {
	if bytes == 0 {
		return
	}
	if r.bytes.Add(int64(bytes)) >= roomBytes || r.calm.Swap(false) {
		r.early.give()
	}
}

// look looks at every node.
func (r *room) look(ctx context.Context) {
	r.bytes.Store(0)
	for _, shard := range r.redis.OneOfEachNode() {
		r.lookAt(ctx, shard)
	}
}

// lookAt judges whether the node of a shard is full, by its memory and by what it refused lately.
func (r *room) lookAt(ctx context.Context, shard int) {
	node := r.redis.Node(shard)
	r.mu.Lock()
	n := *r.of(node)
	r.mu.Unlock()
	now := time.Now()
	var memory circulate.Memory
	if !now.Before(n.blind) {
		var err error
		memory, err = r.redis.Memory(ctx, shard)
		if circulate.Unavailable(err) {
			return
		}
		if err != nil {
			r.log.Debug("redis does not report its memory", "node", node, "error", err)
			r.mu.Lock()
			r.of(node).blind = now.Add(roomBlind)
			r.mu.Unlock()
		}
	}
	r.tellRoom(node, now)
	quiet := now.Sub(n.refused)
	switch {
	case memory.Limit > 0 && memory.Share() >= r.mark:
		r.set(node, true, "used", memory.Used, "limit", memory.Limit)
	case !n.full:
	case memory.Limit > 0 && memory.Share() < r.mark-roomMargin && quiet >= roomQuiet,
		// The node's memory is unknown. A successful write must suffice.
		memory.Limit == 0 && quiet >= roomQuietLong && r.redis.TryWriteTo(ctx, shard) == nil:
		r.set(node, false)
	}
}

// refused notes that the node of a shard refused a write.
func (r *room) refused(shard int) {
	node := r.redis.Node(shard)
	r.mu.Lock()
	r.of(node).refused = time.Now()
	r.mu.Unlock()
	r.set(node, true, "refused", true)
}

// set notes whether a node is full, and logs when it becomes full.
func (r *room) set(node string, full bool, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.of(node)
	if n.full == full {
		return
	}
	n.full, n.since = full, time.Now()
	some := false
	for _, other := range r.nodes {
		some = some || other.full
	}
	r.anyFull.Store(some)
	if full {
		r.metrics.short.Set(1)
		if !n.short.IsZero() {
			return
		}
		n.short = n.since
		if node != "" {
			args = append(args, "node", node)
		}
		r.log.Warn("redis' memory is used up to the mark: no messages are taken until there is room", append(args, "mark", r.mark)...)
		return
	}
	if !some {
		r.metrics.short.Set(0)
	}
}

// tellRoom logs that a node has had room again for a while.
func (r *room) tellRoom(node string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.of(node)
	if n.full || n.short.IsZero() || now.Sub(n.since) < roomTold {
		return
	}
	args := []any{"after", n.since.Sub(n.short).Round(time.Millisecond)}
	if node != "" {
		args = append(args, "node", node)
	}
	n.short = time.Time{}
	r.log.Info("redis has room for messages again", args...)
}

// of returns the state of a node. The caller holds the lock.
func (r *room) of(node string) *nodeRoom {
	n, ok := r.nodes[node]
	if !ok {
		n = new(nodeRoom)
		r.nodes[node] = n
	}
	return n
}

// short reports whether the node of a shard has no room for messages.
func (r *room) short(shard int) bool {
	if !r.anyFull.Load() {
		return false
	}
	node := r.redis.Node(shard)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of(node).full
}

// pause returns how long an account of a shard without room waits. The longer there is no
// room, the longer it waits.
func (r *room) pause(shard int) time.Duration {
	node := r.redis.Node(shard)
	r.mu.Lock()
	defer r.mu.Unlock()
	longest := roomPause
	if n := r.of(node); n.full {
		longest = min(roomPauseMost, roomPause+time.Since(n.since)/4)
	}
	return longest/2 + rand.N(longest/2)
}
