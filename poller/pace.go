package poller

import (
	"sync"
	"time"
)

// This file decides how soon an account's next held call follows, so that no third
// party is called in a hot loop, and none by all accounts at once.

// heldEnd is how a held call ended.
type heldEnd uint8

// The ends.
const (
	endFound   heldEnd = iota // with messages
	endNothing                // an answer without messages
	endBroken                 // no answer: a time-out, a cut connection, or a gateway that gave up
)

const (
	// tolerated is how many calls in a row may break at once before the check fails.
	tolerated = 2

	whileMost  = 5 * time.Second // a call that was held for that long was held for a while
	floorLeast = time.Second
	floorMost  = time.Minute

	burst  = 20          // answers with messages that may follow one another at once
	refill = time.Second // the time in which one more may
)

// heldWhile returns how long a call must have lasted to count as held for a while: a quarter of the
// hold, at most five seconds.
func heldWhile(hold time.Duration) time.Duration { return min(hold/4, whileMost) }

// pace is the pace of one account's held calls. The zero pace is ready to use. It is safe for
// concurrent use.
type pace struct {
	mu     sync.Mutex
	quick  int       // calls in a row that ended at once with nothing
	broken int       // calls in a row that broke at once
	full   time.Time // when a whole burst is allowed again
}

// Next notes how a call ended now, and how long it took of its hold. It returns how long the next
// call must wait, and whether calls keep breaking at once, which is a failure of the check. chance
// is in [0, 1).
//
// After a call that was held for a while, the next one follows at once. After calls that end at
// once with nothing, the wait grows from a second to a minute until a call is held again.
func (p *pace) Next(end heldEnd, took, hold time.Duration, now time.Time, chance float64) (wait time.Duration, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if took >= heldWhile(hold) {
		p.quick, p.broken = 0, 0
		if end != endFound {
			return 0, false
		}
	}
	switch end {
	case endFound:
		p.broken = 0
		return p.spend(now), false
	case endBroken:
		if p.broken++; p.broken > tolerated {
			return 0, true
		}
	}
	p.quick++
	floor := min(floorMost, floorLeast<<min(p.quick-1, 10))
	return floor/2 + time.Duration(chance*float64(floor/2)), false
}

// spend takes one answer of the burst, and returns how long to wait for it.
func (p *pace) spend(now time.Time) time.Duration {
	if p.full.Before(now) {
		p.full = now
	}
	p.full = p.full.Add(refill)
	return max(0, p.full.Sub(now)-burst*refill)
}

// gate lets calls through at a rate. It is safe for concurrent use.
type gate struct {
	every time.Duration

	mu   sync.Mutex
	next time.Time
}

// newGate returns a gate with a rate in calls a second.
func newGate(rate int) *gate { return &gate{every: time.Second / time.Duration(rate)} }

// pass returns how long a call that comes now has to wait.
func (g *gate) pass(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next.Before(now) {
		g.next = now
	}
	wait := g.next.Sub(now)
	g.next = g.next.Add(g.every)
	return wait
}

const (
	turnPause = 10 * time.Second // the longest wait of an account that found no place
	turnSoon  = time.Second      // the longest wait of an account that has waited for long
	turnLong  = 2 * time.Hour    // the longest that an account counts as having waited
	turnMemo  = 16               // about how many turns the usual wait is the mean of
)

// turns shares places fairly among more accounts than there are places. An account that has waited
// much longer than the accounts that had their turns lately looks for a place more often, and so
// gets one of the next. The zero turns is ready to use. It is safe for concurrent use.
type turns struct {
	mu    sync.Mutex
	usual time.Duration // that accounts have waited when they had their turn
}

// took notes that an account had its turn, and how long it had waited.
func (t *turns) took(waited time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.usual += (clamp(waited) - t.usual) / turnMemo
}

// pause returns how long an account that found no place waits before it looks again, by how long it
// has waited already. chance is in [0, 1).
func (t *turns) pause(waited time.Duration, chance float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	most := turnPause
	if clamp(waited) > t.usual+t.usual/4 {
		most = turnSoon
	}
	return most/2 + time.Duration(chance*float64(most/2))
}

func clamp(waited time.Duration) time.Duration { return min(max(0, waited), turnLong) }
