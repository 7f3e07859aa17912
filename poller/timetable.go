package poller

import (
	"sync"
	"time"
)

// timetable knows when each shard is next worth a claim. Shards take turns, and
// no two claimers work on one at a time.
type timetable struct {
	mu     sync.Mutex
	at     []time.Time // when to claim next; of a busy shard: asked for meanwhile
	busy   []bool
	next   int           // whose turn it is
	sooner chan struct{} // has a value after a shard's time came nearer
}

// never is a time after all others.
var never = time.Unix(1<<40, 0)

func newTimetable(shards int, now time.Time) *timetable {
	t := &timetable{at: make([]time.Time, shards), busy: make([]bool, shards), sooner: make(chan struct{}, 1)}
	for i := range t.at {
		t.at[i] = now
	}
	return t
}

// take gives a shard whose time has come, or says how long to wait for one. The
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
			t.busy[shard], t.at[shard] = true, never
			t.next = (shard + 1) % len(t.at)
			return shard, true, 0
		}
		wait = min(wait, until)
	}
	return 0, false, wait
}

// put gives a shard back, to be claimed at a time, or earlier if that was asked
// for while it was busy.
func (t *timetable) put(shard int, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy[shard] = false
	if at.Before(t.at[shard]) {
		t.at[shard] = at
	}
	t.signal()
}

func (t *timetable) signal() {
	select {
	case t.sooner <- struct{}{}:
	default:
	}
}

// bring has a shard claimed no later than at.
func (t *timetable) bring(shard int, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.Before(t.at[shard]) {
		t.at[shard] = at
		t.signal()
	}
}
