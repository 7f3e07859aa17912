package poller

import (
	"context"
	"sync"
	"time"
)

const (
	aheadPeriod  = time.Second // how long waits are added up
	aheadForgets = 0.75        // what a period leaves of an earlier sum
	aheadRecalls = 40          // periods, after which nothing is left of it
)

// ahead bounds the attempts that are noted and have no place, because their calls have not begun or
// have ended. They wait until Redis has them on its disk and replicas, then for a place, and at last
// until their outcome is written. As many may be noted as will find a place when they have waited: as
// many as places are free, and twice as many as have waited at a time, lately, and then had a place. So
// nothing is noted ahead where nothing waits for a disk, and little where calls are slow: if this
// replica is killed, each noted attempt becomes unknown.
//
// How many wait at a time is the sum of their waits in a period, divided by the period. Many come out of
// their wait at once, when the disk has synced, and a busy disk does not do that in each period. So what
// counts is the largest sum of late.
type ahead struct {
	places *places
	most   int
	more   signal // has a value after there may be room

	mu     sync.Mutex
	n      int           // attempts that have no place and are not settled
	began  time.Time     // of the current period
	waited time.Duration // how long the attempts waited, in all, that got a place in this period
	lately time.Duration // the largest such sum of late; a quarter is forgotten in each period
}

func newAhead(places *places, most int) *ahead {
	return &ahead{places: places, most: most, more: newSignal(), began: time.Now()}
}

// take waits until an attempt may be noted, and takes up to n. It takes none if ctx is done.
func (h *ahead) take(ctx context.Context, n int) int {
	return h.more.await(ctx, func() int { return h.tryTake(n) })
}

func (h *ahead) tryTake(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	room := h.roomLocked(time.Now())
	got := min(n, room)
	if got <= 0 {
		return 0
	}
	h.n += got
	if room > got {
		h.more.give()
	}
	return got
}

func (h *ahead) roomLocked(now time.Time) int {
	h.turnLocked(now)
	return min(h.most, h.places.spare()+int(2*max(h.waited, h.lately)/aheadPeriod)) - h.n
}

// turnLocked begins a new period if the current one is over.
func (h *ahead) turnLocked(now time.Time) {
	past := int(now.Sub(h.began) / aheadPeriod)
	if past <= 0 {
		return
	}
	for range min(past, aheadRecalls) {
		h.lately = max(h.waited, time.Duration(aheadForgets*float64(h.lately)))
		h.waited = 0
	}
	if past >= aheadRecalls {
		h.lately = 0
	}
	h.began = h.began.Add(time.Duration(past) * aheadPeriod)
}

// leave notes that n attempts have a place, or are settled. Those with a place waited for Redis for so
// long each.
func (h *ahead) leave(n int, waited time.Duration) {
	if n == 0 {
		return
	}
	h.mu.Lock()
	h.turnLocked(time.Now())
	h.n -= n
	h.waited += time.Duration(n) * waited
	h.mu.Unlock()
	h.more.give()
}

// back notes that an attempt gives its place back, which the caller does next.
func (h *ahead) back() {
	h.mu.Lock()
	h.n++
	h.mu.Unlock()
}
