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
	// syncUnable is how long a server that cannot sync is not asked again. It may be
	// replaced, or its append-only file switched on, while replicas run.
	syncUnable = time.Minute
)

// ErrNotDurable reports that a Redis did not sync its append-only file in time. It may
// have done so since: try again.
var ErrNotDurable = errors.New("circulate: redis did not sync its append-only file in time")

// Syncer waits until writes to shards are on the disk of their Redis. Callers that wait
// at the same time share a round trip to each server. It is safe for concurrent use.
type Syncer struct {
	ring *Ring

	mu    sync.Mutex
	nodes map[string]*syncedNode // by the name of the node, as Wire.NodeOf has it
}

// NewSyncer returns a Syncer for a ring.
func NewSyncer(r *Ring) *Syncer { return &Syncer{ring: r, nodes: make(map[string]*syncedNode)} }

// syncedNode is one server. Its rounds follow one another. A call that arrives during a
// round waits for the next one, because the round's WAITAOF may have been sent before the
// call.
type syncedNode struct {
	next    *syncRound // nil: no caller waits for another round
	running bool
	unable  time.Time // it cannot sync, and is not asked until then
}

// syncRound is one round trip that several callers share.
type syncRound struct {
	shards map[int]error // the callers' shards; their outcomes once done is closed
	able   bool
	done   chan struct{}
}

// Sync waits until everything written to a shard before the call is on the disk of its
// Redis, according to WAITAOF 1 0. It reports false, without an error, if the server
// cannot tell: it is older than Redis 7.2, has no append-only file, or does not permit
// the command. An error leaves the outcome open, and the caller may try again.
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

// join returns the node's round for a caller to wait on, or nil if the node cannot sync.
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

// run makes a node's rounds as long as a caller waits for one.
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

// ask makes a round. WAITAOF waits for the writes of its own connection, so each shard
// first gets a write without effect. That write also shows whether a shard has moved to
// another node, whose disk this node knows nothing about. A server has one append-only
// file, which contains all writes in order.
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
			round.able = false // it does not know the command, has no append-only file, or forbids the command
		case err != nil:
			round.shards[shard] = err
		case len(counts) == 0 || counts[0] < 1:
			round.shards[shard] = ErrNotDurable
		}
	}
}
