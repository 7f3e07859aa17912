package poller

import (
	"sync"
	"time"
)

const (
	meterWindow = 100 * time.Millisecond
	// busyRate is the number of checks a second from which on it pays to gather work for
	// larger steps: half of a step's cost is the same for one account and for twenty.
	busyRate = 2000
)

// meter measures whether a replica is busy enough to gather work for larger steps.
type meter struct {
	mu    sync.Mutex
	since time.Time
	count int
	busy  bool
}

// add counts a check that ended.
func (m *meter) add(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roll(now)
	m.count++
}

// isBusy reports whether checks ended at busyRate in the last whole window.
func (m *meter) isBusy(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roll(now)
	return m.busy
}

func (m *meter) roll(now time.Time) {
	passed := now.Sub(m.since)
	if passed < meterWindow {
		return
	}
	m.busy = float64(m.count) >= busyRate*passed.Seconds()
	m.since, m.count = now, 0
}
