package callback

import (
	"sync"
	"time"
)

// recentCount is the most callbacks of one period that are remembered.
const recentCount = 1 << 15

// recently remembers texts for at least twice window, which is as long as a callback may be
// repeated. If there are too many, it forgets the oldest. A callback that is carried out twice only
// costs a check.
type recently struct {
	limit int

	mu         sync.Mutex
	young, old map[string]struct{}
	since      time.Time // of the young
}

func newRecently(limit int) *recently {
	return &recently{limit: limit, young: make(map[string]struct{})}
}

func (r *recently) has(text string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.age(now)
	_, young := r.young[text]
	_, old := r.old[text]
	return young || old
}

func (r *recently) add(text string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.age(now)
	r.young[text] = struct{}{}
}

// age drops a generation after a period, or when there is no more room.
func (r *recently) age(now time.Time) {
	passed := now.Sub(r.since)
	if passed < 2*window && len(r.young) < r.limit {
		return
	}
	r.old, r.young, r.since = r.young, make(map[string]struct{}), now
	if passed >= 4*window {
		r.old = nil
	}
}
