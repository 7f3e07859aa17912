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
	meterLeast  = 20 // checks that a window needs to show a rate
	// busyRate is the rate of checks a second, in all shards, from which it pays to gather work for
	// larger steps: half of a step's cost is the same for one account and for twenty.
	busyRate = 2000
)

// meter measures whether a replica is busy enough to gather work for larger steps. What counts is
// how much each shard brings, so a replica with a part of the shards needs only that part of the
// rate.
type meter struct {
	mu    sync.Mutex
	since time.Time
	count int
	busy  bool
	part  float64 // of the shards; 0: all
}

// share sets which part of the shards the replica has.
func (m *meter) share(part float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.part = part
}

// add counts an ended check.
func (m *meter) add(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roll(now)
	m.count++
}

// isBusy reports whether checks ended at the replica's part of busyRate in the last whole window.
func (m *meter) isBusy(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roll(now)
	return m.busy
}

func (m *meter) roll(now time.Time) {
	passed := now.Sub(m.since)
	rate := float64(busyRate)
	if m.part > 0 {
		rate *= m.part
	}
	if passed < max(meterWindow, time.Duration(meterLeast/rate*float64(time.Second))) {
		return
	}
	m.busy = float64(m.count) >= rate*passed.Seconds()
	m.since, m.count = now, 0
}

const (
	recentWindow = 30 * time.Second
	recentApart  = 1000 // sorts that are counted separately in a window
	recentTold   = 5    // sorts that are reported
)

// recentSort is what events of one sort have in common.
type recentSort struct{ name, code string }

// recentCount is the number of events of one sort, with the account of the latest as an example.
type recentCount struct {
	events  int
	account string
}

// recent counts the events of the last half to whole minute. It is bounded, because third parties
// decide how many sorts there are.
type recent struct {
	mu          sync.Mutex
	since       time.Time
	now, before map[recentSort]recentCount
	whole       bool // before covers a whole window
}

// add counts an event. Account may be empty.
func (r *recent) add(sort recentSort, account string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.roll(now)
	if c, known := r.now[sort]; known || len(r.now) < recentApart {
		r.now[sort] = recentCount{c.events + 1, account}
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
	for sort, c := range r.before {
		sums[sort] = recentCount{sums[sort].events + c.events, cmp.Or(sums[sort].account, c.account)}
	}
	var all []accounts.Recent
	for sort, c := range sums {
		// A few events just after the start do not make a rate.
		rate := float64(c.events) * float64(time.Minute) / float64(max(window, recentWindow))
		all = append(all, accounts.Recent{Name: sort.name, Code: sort.code, PerMinute: max(1, int(rate)), Account: c.account})
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
		r.now, r.before, r.since, r.whole = make(map[recentSort]recentCount), nil, now, r.now != nil
	case passed >= recentWindow:
		r.now, r.before, r.since, r.whole = make(map[recentSort]recentCount), r.now, r.since.Add(recentWindow), true
	}
}

// firsts knows which sorts of events there were. It is bounded: third parties decide how many there
// are.
type firsts struct {
	mu   sync.Mutex
	seen map[recentSort]bool
}

// first reports whether this is the first event of its sort.
func (f *firsts) first(sort recentSort) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen[sort] || len(f.seen) == recentApart {
		return false
	}
	if f.seen == nil {
		f.seen = make(map[recentSort]bool)
	}
	f.seen[sort] = true
	return true
}
