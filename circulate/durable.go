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
	// syncGap is the least time between the beginnings of two rounds to a node, while the first
	// waits, and syncRounds is how many may wait. So with everysec a write waits until the
	// next sync of the disk, and not for one that began before it as well.
	syncGap    = 75 * time.Millisecond
	syncRounds = 16
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

// syncedNode is one server. A call joins the next round, which has not been sent. That round
// is sent when none is under way, or syncGap after the one before it.
type syncedNode struct {
	next    *syncRound // nil: no caller waits for another round
	running bool       // a goroutine sends rounds
	began   time.Time  // when the last round was sent
	unable  time.Time  // it cannot sync its disk, and is not asked to until then
	asking  int        // rounds under way
	ended   chan struct{}
}

// syncRound is one round trip that several callers share.
type syncRound struct {
	shards   map[int]error // the callers' shards; their outcomes once done is closed
	disk     bool          // the disk is asked, and once done is closed: could tell
	attempts []*heldAttempts
	done     chan struct{}
}

// heldAttempts are attempts of one shard, of which a round finds out whether they are still
// under the fence that they were noted under.
type heldAttempts struct {
	shard int
	all   []Attempt
	held  []bool // once the round is done
}

// Sync waits until everything written to a shard before the call is as durable as the
// Syncer wants. It reports whether it is on the disk of its Redis, according to WAITAOF 1 0.
// It reports false, without an error, if the server cannot tell: it is older than Redis
// 7.2, has no append-only file, or does not permit the command. An error leaves the outcome
// open, and the caller may try again.
func (s *Syncer) Sync(ctx context.Context, shard int) (bool, error) {
	return s.await(ctx, s.join(shard, nil), shard)
}

// Attempts is Sync for attempts of one shard, and reports for each whether it still counts.
// One that does not must not be sent: it has become unknown meanwhile, its account was
// deregistered, or its Redis is another one now, which has never had it. That is found after
// the wait, on the connection that waited. If there is nothing to wait for, nobody asks
// whether they count.
func (s *Syncer) Attempts(ctx context.Context, shard int, attempts []Attempt) (held []bool, durable bool, err error) {
	h := &heldAttempts{shard: shard, all: attempts, held: make([]bool, len(attempts))}
	round := s.join(shard, h)
	if round == nil {
		for i := range h.held {
			h.held[i] = true
		}
		return h.held, false, nil
	}
	if durable, err = s.await(ctx, round, shard); err != nil {
		return nil, false, err
	}
	return h.held, durable, nil
}

// await waits for the end of a round, of which nil has ended.
func (s *Syncer) await(ctx context.Context, round *syncRound, shard int) (bool, error) {
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

// join returns the round of a shard's node for a caller to wait on, or nil if there is nothing
// to wait for. Attempts may be nil.
func (s *Syncer) join(shard int, attempts *heldAttempts) *syncRound {
	name := s.ring.wire.NodeOf(s.ring.keys[shard].clock)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name]
	if n == nil {
		n = &syncedNode{ended: make(chan struct{}, 1)}
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
	if attempts != nil {
		round.attempts = append(round.attempts, attempts)
	}
	if !n.running {
		n.running = true
		go s.run(n)
	}
	return round
}

// run sends a node's rounds as long as a caller waits for one.
func (s *Syncer) run(n *syncedNode) {
	for {
		round, wait := s.take(n)
		switch {
		case round != nil:
			go s.make(n, round)
		case wait == 0:
			return
		default:
			timer := time.NewTimer(wait)
			select {
			case <-n.ended:
			case <-timer.C:
			}
			timer.Stop()
		}
	}
}

// take returns the next round to send, or how long to wait for one unless a round ends before. If
// it returns neither, no caller waits.
func (s *Syncer) take(n *syncedNode) (round *syncRound, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch left := time.Until(n.began.Add(syncGap)); {
	case n.next == nil:
		n.running = false
		return nil, 0
	case n.asking >= syncRounds:
		return nil, syncWait
	case n.asking > 0 && left > 0:
		return nil, left
	}
	round = n.next
	n.next, n.began = nil, time.Now()
	n.asking++
	return round, 0
}

// make makes a round, and tells its callers.
func (s *Syncer) make(n *syncedNode, round *syncRound) {
	asked := round.disk
	able := s.ask(round)
	s.mu.Lock()
	if asked && !able {
		n.unable = time.Now().Add(syncUnable)
	}
	n.asking--
	s.mu.Unlock()
	close(round.done)
	select {
	case n.ended <- struct{}{}:
	default:
	}
}

// ask makes a round, and reports whether the server could tell about its disk. WAITAOF and
// WAIT wait for the writes of their own connection, so each shard first gets a write without
// effect. That write also shows whether a shard has moved to another node, whose disk and
// replicas this node knows nothing about. A server has one append-only file and one stream of
// replication, which contain all writes in order.
//
// What the round finds out about attempts comes after the waits. The server has the attempts
// then, and had them when it got the writes without effect, so they are among the writes that
// it waited for.
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
	looks := len(commands)
	for _, h := range round.attempts {
		for i := range h.all {
			commands = append(commands, wire.Command{"ZSCORE", s.ring.keys[h.shard].outbox.ends, h.all[i].ID})
		}
	}
	replies, err := s.ring.wire.PipelineFor(context.Background(), wire.Blocking, s.ring.keys[shards[0]].clock, commands...)
	if replies == nil {
		for _, shard := range shards {
			round.shards[shard] = err
		}
		return true
	}
	for _, h := range round.attempts {
		for i := range h.all {
			ends, err := redis.Float64(replies[looks], nil)
			h.held[i] = err == nil && ends == h.all[i].ends
			looks++
		}
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
