package poller

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// patience is how long, on average, the other replicas wait before one of them looks at a shard
// with due accounts that its own replica does not claim. The others share these looks, so their
// cost grows with the shards and not with the replicas.
const patience = 250 * time.Millisecond

// timetable knows when each shard is next worth a claim. It hands out the shards in
// turn, and only one claimer works on a shard at a time.
type timetable struct {
	mu      sync.Mutex
	at      []time.Time // when to claim next; for a busy shard: the time that was asked for meanwhile
	busy    []bool
	claimed []time.Time // when a claim last began
	next    int         // the shard to look at first
	sooner  signal      // has a value after a shard's time was brought forward

	peers []string // the replicas that share the shards, sorted
	ours  []bool   // shard -> it is this replica's part
	times int      // how often the shards were divided anew

	yielded []time.Time // shard -> until when others come first, although it may be ours

	idle time.Duration // how long a shard of ours waits for a look while nothing is due; zero: unknown
}

// never is a time later than all others.
var never = time.Unix(1<<40, 0)

func newTimetable(shards int, now time.Time) *timetable {
	t := &timetable{
		at: make([]time.Time, shards), busy: make([]bool, shards), ours: make([]bool, shards), claimed: make([]time.Time, shards),
		yielded: make([]time.Time, shards), sooner: newSignal(),
	}
	for i := range t.at {
		t.at[i], t.ours[i] = now, true
	}
	return t
}

// take returns a shard whose time has come, or how long to wait for one. The caller puts the
// shard back.
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

// await takes a shard whose time has come, as take does. It waits for one, but not longer than
// idle, and reports false if there was none.
func (t *timetable) await(ctx context.Context, idle time.Duration) (shard int, ok bool) {
	shard, ok, wait := t.take(time.Now(), idle)
	if ok {
		return shard, true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-t.sooner:
	}
	return 0, false
}

// put puts a shard back. It is claimed next at the given time, or earlier if an earlier time was
// asked for while it was busy.
func (t *timetable) put(shard int, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy[shard] = false
	t.bringLocked(shard, at)
	t.sooner.give()
}

// bring brings a shard's next claim forward to the given time, unless it is earlier already.
func (t *timetable) bring(shard int, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bringLocked(shard, at)
}

// wake is bring, but leaves at least a gap after the start of the last claim.
func (t *timetable) wake(shard int, at time.Time, gap time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if after := t.claimed[shard].Add(gap); at.Before(after) {
		at = after
	}
	t.bringLocked(shard, at)
}

// bringAll is bring for every shard.
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
		t.sooner.give()
	}
}

// divide assigns each replica its part of the shards by rendezvous hashing: a shard belongs to the
// replica whose hash with it is highest. A replica that starts or stops therefore moves only its
// own part. Shards that have become ours are claimed now.
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
	t.times++
	for shard := range t.ours {
		was := t.ours[shard]
		t.ours[shard] = circulate.Preferred(shard, alive) == self
		switch {
		case t.ours[shard] && !was:
			t.bringLocked(shard, now)
		case was && !t.ours[shard] && !t.busy[shard] && t.idle > 0 && t.at[shard].Sub(t.claimed[shard]) >= t.idle:
			t.at[shard] = t.at[shard].Add(t.idle * time.Duration(t.aloofLocked(shard)-1)) // nothing is due there
		}
	}
}

// divided returns how often the shards were divided anew.
func (t *timetable) divided() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.times
}

// lost reports whether a shard belongs to another replica since a later division than the given
// one.
func (t *timetable) lost(shard, times int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.times != times && !t.ours[shard]
}

// patience returns how much longer the replica waits for another replica's shard than for one of
// its own, for a chance in [0, 1). With R replicas it is about R-1 times patience.
func (t *timetable) patience(shard int, chance float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	yielded := time.Now().Before(t.yielded[shard]) && len(t.peers) > 1
	if t.ours[shard] && !yielded {
		return 0
	}
	others := float64(max(1, len(t.peers)-1))
	wait := time.Duration((0.5 + chance) * others * float64(patience))
	if yielded {
		wait += 2 * time.Duration(others*float64(patience))
	}
	return wait
}

// alone reports whether no other replica shares the shards.
func (t *timetable) alone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.peers) <= 1
}

// part returns which part of the shards is the replica's own.
func (t *timetable) part() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, ours := range t.ours {
		if ours {
			n++
		}
	}
	return float64(n) / float64(len(t.ours))
}

// aloof returns how many times less often the replica looks at another replica's shard than that
// replica, which looks at it in any case. All other replicas together look at most a quarter as
// often. If the shard's replica dies, the shards are divided anew.
func (t *timetable) aloof(shard int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.aloofLocked(shard)
}

func (t *timetable) aloofLocked(shard int) int {
	if t.ours[shard] {
		return 1
	}
	return 4 * max(1, len(t.peers)-1)
}

// yield lets other replicas come first in a shard for a while, even if it is ours, because it has
// an account that this replica does not know.
func (t *timetable) yield(shard int, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.yielded[shard] = until
}
