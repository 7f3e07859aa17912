package poller

import (
	"sync"
	"time"
)

const (
	turnPause = 10 * time.Second // the longest wait of an account that found no place
	turnSoon  = time.Second      // the same of one that has waited for long
	turnLong  = 2 * time.Hour    // for which an account counts as having waited, at most
	turnMemo  = 16               // turns of which the usual wait is the mean, about
)

// Turns keeps turns fair among more accounts than there are places. Whoever has waited for much
// longer than those who had their turns lately looks for a place more often than the others, and so
// gets one of the next. The zero Turns is ready to use. It is safe for concurrent use.
type Turns struct {
	mu    sync.Mutex
	usual time.Duration // that accounts have waited when they had their turn
}

// Took notes the turn of an account that has waited for so long.
func (t *Turns) Took(waited time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.usual += (clamp(waited) - t.usual) / turnMemo
}

// Pause returns when an account that has waited for so long looks for a place again, after it
// found none. Chance is in [0, 1).
func (t *Turns) Pause(waited time.Duration, chance float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	most := turnPause
	if clamp(waited) > t.usual+t.usual/4 {
		most = turnSoon
	}
	return most/2 + time.Duration(chance*float64(most/2))
}

func clamp(waited time.Duration) time.Duration { return min(max(0, waited), turnLong) }
