package poller

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts"
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

const (
	recentWindow = 30 * time.Second
	recentApart  = 1000 // sorts that are counted apart in a window
	recentTold   = 5    // sorts that are reported
)

// recentSort is what events that are counted together have in common.
type recentSort struct{ name, code string }

// recent counts what happened within the last half to whole minute. It is bounded: third
// parties decide how many sorts there are.
type recent struct {
	mu          sync.Mutex
	since       time.Time
	now, before map[recentSort]int
	whole       bool // before is a whole window
}

// add counts an event.
func (r *recent) add(sort recentSort, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.roll(now)
	if _, known := r.now[sort]; known || len(r.now) < recentApart {
		r.now[sort]++
	}
}

// report returns the most frequent sorts, with how often they happen in a minute.
func (r *recent) report(now time.Time) []accounts.Recent {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil {
		return nil
	}
	r.roll(now)
	window := now.Sub(r.since)
	if r.whole {
		window += recentWindow
	}
	sums := maps.Clone(r.now)
	for sort, n := range r.before {
		sums[sort] += n
	}
	var all []accounts.Recent
	for sort, n := range sums {
		// At the beginning a few events do not make a rate.
		rate := float64(n) * float64(time.Minute) / float64(max(window, recentWindow))
		all = append(all, accounts.Recent{Name: sort.name, Code: sort.code, PerMinute: max(1, int(rate))})
	}
	slices.SortFunc(all, func(a, b accounts.Recent) int {
		return cmp.Or(cmp.Compare(b.PerMinute, a.PerMinute), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Code, b.Code))
	})
	return all[:min(len(all), recentTold)]
}

func (r *recent) roll(now time.Time) {
	passed := now.Sub(r.since)
	switch {
	case r.now == nil || passed >= 2*recentWindow:
		r.now, r.before, r.since, r.whole = make(map[recentSort]int), nil, now, r.now != nil
	case passed >= recentWindow:
		r.now, r.before, r.since, r.whole = make(map[recentSort]int), r.now, r.since.Add(recentWindow), true
	}
}
