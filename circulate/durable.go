package circulate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// syncWait is how long one WAITAOF waits. With appendfsync everysec a healthy disk needs
	// a second.
	syncWait = 2 * time.Second
	// syncUnable is how long a server that cannot tell what is on its disk is not asked again:
	// it may be replaced, or its append-only file switched on, while replicas run.
	syncUnable = time.Minute
)

// ErrNotDurable reports that a Redis did not sync its append-only file in time. It may have
// done so since: ask again.
var ErrNotDurable = errors.New("circulate: redis did not sync its append-only file in time")

// Syncer waits until what was written to shards is on the disk of their Redis. Callers that
// wait at the same time share a round trip to each server. It is safe for concurrent use.
type Syncer struct {
	ring *Ring

	mu    sync.Mutex
	nodes map[string]*syncedNode // by the name of the node, as Wire.NodeOf has it
}

// NewSyncer returns a Syncer for a ring.
func NewSyncer(r *Ring) *Syncer { return &Syncer{ring: r, nodes: make(map[string]*syncedNode)} }

// syncedNode is one server. Its rounds follow one another: what comes while one is under way
// waits for the next, because that one's WAITAOF may have been sent before.
type syncedNode struct {
	next    *syncRound // nil: nobody waits for another round
	running bool
	unable  time.Time // until when it is not asked, because it cannot tell
}

// syncRound is what some callers wait for together.
type syncRound struct {
	shards map[int]error // of whoever waits; the outcome, once done is closed
	able   bool
	done   chan struct{}
}

// Sync waits until everything that was written to a shard before the call is on the disk of
// its Redis, as WAITAOF 1 0 tells. It reports false, without an error, if the server cannot
// tell: it is older than Redis 7.2, has no append-only file, or does not let this user ask.
// After an error nothing is known, and the caller may ask again.
func (s *Syncer) Sync(ctx context.Context, shard int) (bool, error) {
	round := s.join(s.ring.wire.NodeOf(s.ring.keys[shard].clock), shard)
	if round == nil {
		return false, nil
	}
	select {
	case <-round.done:
		return round.able && round.shards[shard] == nil, round.shards[shard]
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// join returns the round of a node that a caller waits for, or nil if the node cannot tell.
func (s *Syncer) join(name string, shard int) *syncRound {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name]
	if n == nil {
		n = &syncedNode{}
		s.nodes[name] = n
	}
	if time.Now().Before(n.unable) {
		return nil
	}
	if n.next == nil {
		n.next = &syncRound{shards: make(map[int]error), done: make(chan struct{})}
	}
	round := n.next
	round.shards[shard] = nil
	if !n.running {
		n.running = true
		go s.run(n)
	}
	return round
}

// run makes a node's rounds while anybody waits for one.
func (s *Syncer) run(n *syncedNode) {
	for {
		s.mu.Lock()
		round := n.next
		n.next = nil
		n.running = round != nil
		s.mu.Unlock()
		if round == nil {
			return
		}
		s.ask(round)
		if !round.able {
			s.mu.Lock()
			n.unable = time.Now().Add(syncUnable)
			s.mu.Unlock()
		}
		close(round.done)
	}
}

// ask makes a round. WAITAOF waits for what its own connection wrote, so each shard gets a
// write of no meaning first. It also finds out that a shard has moved to another node, whose
// disk this one knows nothing of. A server has one append-only file, which has all writes in
// their order.
func (s *Syncer) ask(round *syncRound) {
	var shards []int
	var commands []wire.Command
	for shard := range round.shards {
		shards = append(shards, shard)
		commands = append(commands, wire.Command{"HSET", s.ring.keys[shard].clock, "synced", 1})
	}
	commands = append(commands, wire.Command{"WAITAOF", 1, 0, syncWait.Milliseconds()})
	replies, err := s.ring.wire.PipelineFor(context.Background(), wire.Blocking, s.ring.keys[shards[0]].clock, commands...)
	round.able = true
	if replies == nil {
		for _, shard := range shards {
			round.shards[shard] = err
		}
		return
	}
	waited := replies[len(shards)]
	for i, shard := range shards {
		if refused, ok := replies[i].(error); ok {
			round.shards[shard] = refused
			continue
		}
		switch counts, err := redis.Int64s(waited, nil); {
		case wire.Replied(err) && !wire.Unavailable(err):
			round.able = false // it does not know the command, has no such file, or forbids to ask
		case err != nil:
			round.shards[shard] = err
		case len(counts) == 0 || counts[0] < 1:
			round.shards[shard] = ErrNotDurable
		}
	}
}
