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
	roomLeast     = 100 * time.Millisecond // likewise, however much is written
	roomBytes     = 4 << 20                // written since the last look: time for another
	roomMargin    = 0.05                   // below the mark, until messages are taken again
	roomSettles   = 5 * time.Second        // after the last refusal, where the memory is known
	roomProbed    = 30 * time.Second       // likewise, where it is not
	roomBlind     = time.Minute            // until a server is asked again that does not tell
	roomTold      = time.Minute            // with room, until that is told: it may fill again at once
	roomPause     = 15 * time.Second       // until an account is tried again, at first
	roomPauseMost = 45 * time.Second       // and at most: all is as before within a minute
)

// gauged is the Redis whose memory a room looks at.
type gauged interface {
	OneOfEachNode() []int
	Node(shard int) string
	Memory(ctx context.Context, shard int) (circulate.Memory, error)
	TryWriteTo(ctx context.Context, shard int) error
}

// room knows which nodes of Redis have no room for messages: those that use their
// memory up to a mark, or refuse to take more. What is left above the mark is for
// what does not bring messages.
type room struct {
	redis   gauged
	mark    float64 // of the limit
	log     *slog.Logger
	metrics *Metrics

	some  atomic.Bool   // there is such a node
	bytes atomic.Int64  // written since the last look
	kick  chan struct{} // has a value when it is time for another

	mu    sync.Mutex
	nodes map[string]*nodeRoom
}

// nodeRoom is what is known of one node.
type nodeRoom struct {
	full    bool
	since   time.Time // that it is full, or has room
	short   time.Time // when it was told that it is full; zero: it was told that it has room
	refused time.Time // that it last refused to take more
	blind   time.Time // until then it is not asked for its memory
}

func newRoom(redis gauged, percent int, log *slog.Logger, metrics *Metrics) *room {
	return &room{redis: redis, mark: float64(percent) / 100, log: log, metrics: metrics,
		kick: make(chan struct{}, 1), nodes: make(map[string]*nodeRoom)}
}

// run looks every now and then until ctx is done.
func (r *room) run(ctx context.Context) {
	timer := time.NewTimer(roomLook)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.kick:
		}
		r.look(ctx)
		if !sleep(ctx, roomLeast) {
			return
		}
		timer.Reset(roomLook)
	}
}

// wrote takes that so many bytes were written: who writes much looks often.
func (r *room) wrote(bytes int) {
	if r.bytes.Add(int64(bytes)) >= roomBytes {
		select {
		case r.kick <- struct{}{}:
		default:
		}
	}
}

// look asks every node.
func (r *room) look(ctx context.Context) {
	r.bytes.Store(0)
	for _, shard := range r.redis.OneOfEachNode() {
		r.lookAt(ctx, shard)
	}
}

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
			r.log.Debug("redis does not tell of its memory", "node", node, "error", err)
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
	case memory.Limit > 0 && memory.Share() < r.mark-roomMargin && quiet >= roomSettles,
		// How full it is is not known: that it takes something must do.
		memory.Limit == 0 && quiet >= roomProbed && r.redis.TryWriteTo(ctx, shard) == nil:
		r.set(node, false)
	}
}

// refused takes that the node of a shard did not take more.
func (r *room) refused(shard int) {
	node := r.redis.Node(shard)
	r.mu.Lock()
	r.of(node).refused = time.Now()
	r.mu.Unlock()
	r.set(node, true, "refused", true)
}

// set notes whether a node is full, and tells when that changes.
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
	r.some.Store(some)
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

// tellRoom tells that a node has had room again for a while.
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

// of is what is known of a node. The lock is held.
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
	if !r.some.Load() {
		return false
	}
	node := r.redis.Node(shard)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of(node).full
}

// pause is for how long an account of a shard without room is left alone: the
// longer, the longer that lasts.
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
