package poller

import (
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// patience is how long, on average, a shard with something due goes unclaimed
// by the replica whose part it is before one of the others looks at it. The
// others share that out among them, so that the cost of looking grows with the
// shards and not with the replicas.
const patience = 250 * time.Millisecond

// timetable knows when each shard is next worth a claim. Shards are taken one after
// the other, and no two claimers work on one at a time.
type timetable struct {
	mu      sync.Mutex
	at      []time.Time // when to claim next; of a busy shard: asked for meanwhile
	busy    []bool
	claimed []time.Time   // when a claim last began
	next    int           // the shard to look at first
	sooner  chan struct{} // has a value after a shard's time came nearer

	peers []string // the replicas that share the shards, sorted
	ours  []bool   // shard -> it is this replica's part

	left []time.Time // shard -> until when it is left to others even so
}

// never is a time after all others.
var never = time.Unix(1<<40, 0)

func newTimetable(shards int, now time.Time) *timetable {
	t := &timetable{
		at: make([]time.Time, shards), busy: make([]bool, shards), ours: make([]bool, shards), claimed: make([]time.Time, shards),
		left: make([]time.Time, shards), sooner: make(chan struct{}, 1),
	}
	for i := range t.at {
		t.at[i], t.ours[i] = now, true
	}
	return t
}

// take returns a shard whose time has come, or says how long to wait for one. The
// caller puts it back.
func (t *timetable) take(now time.Time, idle time.Duration) (shard int, ok bool, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wait = idle
	for i := range t.at {
		shard = (t.next + i) % len(t.at)
		if t.busy[shard] {
			continue
		}
		until := t.at[shard].Sub(now)
		if until <= 0 {
			t.busy[shard], t.at[shard], t.claimed[shard] = true, never, now
			t.next = (shard + 1) % len(t.at)
			return shard, true, 0
		}
		wait = min(wait, until)
	}
	return 0, false, wait
}

// put returns a shard, to be claimed at a time, or earlier if that was asked
// for while it was busy.
func (t *timetable) put(shard int, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy[shard] = false
	t.bringLocked(shard, at)
	t.signal()
}

// bring has a shard claimed no later than at.
func (t *timetable) bring(shard int, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bringLocked(shard, at)
}

// wake has a shard claimed no later than at, or than a gap after its last claim
// began where that is later.
func (t *timetable) wake(shard int, at time.Time, gap time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if after := t.claimed[shard].Add(gap); at.Before(after) {
		at = after
	}
	t.bringLocked(shard, at)
}

// bringAll has every shard claimed no later than at.
func (t *timetable) bringAll(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for shard := range t.at {
		t.bringLocked(shard, at)
	}
}

func (t *timetable) bringLocked(shard int, at time.Time) {
	if at.Before(t.at[shard]) {
		t.at[shard] = at
		t.signal()
	}
}

func (t *timetable) signal() {
	select {
	case t.sooner <- struct{}{}:
	default:
	}
}

// divide assigns each replica its part of the shards, by rendezvous: a shard goes
// to the replica whose hash with it is the highest, so that one that comes or
// goes moves only its own part. What has become ours is looked at now.
func (t *timetable) divide(self string, alive []string, now time.Time) {
	if !slices.Contains(alive, self) {
		alive = append(alive, self)
	}
	slices.Sort(alive)
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Equal(alive, t.peers) {
		return
	}
	t.peers = alive
	for shard := range t.ours {
		was := t.ours[shard]
		t.ours[shard] = circulate.Preferred(shard, alive) == self
		if t.ours[shard] && !was {
			t.bringLocked(shard, now)
		}
	}
}

// patience is how much longer than its own a replica leaves a shard alone, by a
// chance in [0, 1): with R replicas about R-1 times patience.
func (t *timetable) patience(shard int, chance float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := time.Now().Before(t.left[shard]) && len(t.peers) > 1
	if t.ours[shard] && !left {
		return 0
	}
	others := float64(max(1, len(t.peers)-1))
	wait := time.Duration((0.5 + chance) * others * float64(patience))
	if left {
		wait += 2 * time.Duration(others*float64(patience))
	}
	return wait
}

// leave has the others look at a shard before this replica for a while, whosever
// part it is: something is in it that this replica does not know.
func (t *timetable) leave(shard int, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left[shard] = until
}
