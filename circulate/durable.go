package circulate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// syncWait is how long one WAITAOF or WAIT waits. With appendfsync everysec a healthy
	// disk needs a second.
	syncWait = 2 * time.Second
	// syncUnable is how long a server that cannot sync is not asked again. It may be
	// replaced, or its append-only file switched on, while replicas run.
	syncUnable = time.Minute
)

var (
	// ErrNotDurable reports that a Redis did not sync its append-only file in time. It may
	// have done so since: try again.
	ErrNotDurable = errors.New("circulate: redis did not sync its append-only file in time")
	// ErrNotReplicated reports that too few replicas of a Redis had its writes in time. They
	// may have them since: try again.
	ErrNotReplicated = errors.New("circulate: too few replicas of redis had the writes in time")
)

// Durability is what must have writes before a caller relies on them. The zero value is
// nothing.
type Durability struct {
	// Disk is the disk of the Redis that did the writes, as far as that server can tell.
	Disk bool
	// Replicas is how many of its replicas must have them, in memory. So a failover to one of
	// these loses none. A server that cannot tell counts as one without replicas.
	Replicas int
}

// Syncer waits until writes to shards are durable. Callers that wait at the same time share
// a round trip to each server. It is safe for concurrent use.
type Syncer struct {
	ring *Ring
	want Durability

	mu    sync.Mutex
	nodes map[string]*syncedNode // by the name of the node, as Wire.NodeOf has it
}

// NewSyncer returns a Syncer for a ring.
func NewSyncer(r *Ring, want Durability) *Syncer {
	return &Syncer{ring: r, want: want, nodes: make(map[string]*syncedNode)}
}

// syncedNode is one server. Its rounds follow one another. A call that arrives during a
// round waits for the next one, because the round may have been sent before the call.
type syncedNode struct {
	next    *syncRound // nil: no caller waits for another round
	running bool
	unable  time.Time // it cannot sync its disk, and is not asked to until then
}

// syncRound is one round trip that several callers share.
type syncRound struct {
	shards map[int]error // the callers' shards; their outcomes once done is closed
	disk   bool          // the disk is asked, and once done is closed: could tell
	done   chan struct{}
}

// Sync waits until everything written to a shard before the call is as durable as the
// Syncer wants. It reports whether it is on the disk of its Redis, according to WAITAOF 1 0.
// It reports false, without an error, if the server cannot tell: it is older than Redis
// 7.2, has no append-only file, or does not permit the command. An error leaves the outcome
// open, and the caller may try again.
func (s *Syncer) Sync(ctx context.Context, shard int) (bool, error) {
	round := s.join(s.ring.wire.NodeOf(s.ring.keys[shard].clock), shard)
	if round == nil {
		return false, nil
	}
	select {
	case <-round.done:
		return round.disk && round.shards[shard] == nil, round.shards[shard]
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// join returns the node's round for a caller to wait on, or nil if there is nothing to wait
// for.
func (s *Syncer) join(name string, shard int) *syncRound {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name]
	if n == nil {
		n = &syncedNode{}
		s.nodes[name] = n
	}
	disk := s.want.Disk && !time.Now().Before(n.unable)
	if !disk && s.want.Replicas <= 0 {
		return nil
	}
	if n.next == nil {
		n.next = &syncRound{shards: make(map[int]error), disk: disk, done: make(chan struct{})}
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
		if asked := round.disk; !s.ask(round) && asked {
			s.mu.Lock()
			n.unable = time.Now().Add(syncUnable)
			s.mu.Unlock()
		}
		close(round.done)
	}
}

// ask makes a round, and reports whether the server could tell about its disk. WAITAOF and
// WAIT wait for the writes of their own connection, so each shard first gets a write without
// effect. That write also shows whether a shard has moved to another node, whose disk and
// replicas this node knows nothing about. A server has one append-only file and one stream of
// replication, which contain all writes in order.
//
// Replicas are asked by WAIT. WAITAOF can ask them too, but for their disks: it waits a
// second longer for each everysec, and in vain if a replica has no append-only file. A
// failover needs the write in the replica's memory only.
func (s *Syncer) ask(round *syncRound) bool {
	var shards []int
	var commands []wire.Command
	for shard := range round.shards {
		shards = append(shards, shard)
		commands = append(commands, wire.Command{"HSET", s.ring.keys[shard].clock, "synced", 1})
	}
	if s.want.Replicas > 0 {
		commands = append(commands, wire.Command{"WAIT", s.want.Replicas, syncWait.Milliseconds()})
	}
	if round.disk {
		commands = append(commands, wire.Command{"WAITAOF", 1, 0, syncWait.Milliseconds()})
	}
	replies, err := s.ring.wire.PipelineFor(context.Background(), wire.Blocking, s.ring.keys[shards[0]].clock, commands...)
	if replies == nil {
		for _, shard := range shards {
			round.shards[shard] = err
		}
		return true
	}
	var failed error
	waits := replies[len(shards):]
	if s.want.Replicas > 0 {
		failed = replicated(waits[0], s.want.Replicas)
		waits = waits[1:]
	}
	if round.disk {
		switch counts, err := redis.Int64s(waits[0], nil); {
		case wire.Replied(err) && !wire.Unavailable(err):
			round.disk = false // it does not know the command, has no append-only file, or forbids the command
		case err != nil:
			failed = errors.Join(failed, err)
		case len(counts) == 0 || counts[0] < 1:
			failed = errors.Join(failed, ErrNotDurable)
		}
	}
	for i, shard := range shards {
		round.shards[shard] = failed
		if refused, ok := replies[i].(error); ok {
			round.shards[shard] = refused
		}
	}
	return round.disk
}

// replicated returns the error of a WAIT that has not said that so many replicas have the
// writes.
func replicated(reply any, want int) error {
	n, err := redis.Int(reply, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotReplicated, err)
	}
	if n < want {
		return fmt.Errorf("%w: %d of %d", ErrNotReplicated, n, want)
	}
	return nil
}
