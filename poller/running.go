package poller

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// running is the set of flights that are not settled.
type running struct {
	mu      sync.Mutex
	flights map[*flight]struct{}
	ended   []*flight     // flights that the shutdown called off, to be released
	stops   chan struct{} // has a value after there is another
	empty   chan struct{} // has a value after the last flight was removed
}

func newRunning() *running {
	return &running{flights: make(map[*flight]struct{}), stops: make(chan struct{}, 1), empty: make(chan struct{}, 1)}
}

func (r *running) add(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flights[f] = struct{}{}
}

func (r *running) remove(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeLocked(f)
}

// stopped moves a flight that the shutdown called off to those that are to be released.
func (r *running) stopped(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.flights[f]; ok {
		r.ended = append(r.ended, f)
		r.removeLocked(f)
		select {
		case r.stops <- struct{}{}:
		default:
		}
	}
}

// takeEnded returns the flights that the shutdown called off and that ended since the last call.
func (r *running) takeEnded() []*flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := r.ended
	r.ended = nil
	return ended
}

func (r *running) removeLocked(f *flight) {
	delete(r.flights, f)
	if len(r.flights) == 0 {
		select {
		case r.empty <- struct{}{}:
		default:
		}
	}
}

// all returns the flights.
func (r *running) all() []*flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.flights))
}

func (r *running) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.flights)
}

// drained waits until no flight runs, until d has passed, or until hurry is closed, and
// reports whether no flight runs. Nothing may be added meanwhile.
func (r *running) drained(d time.Duration, hurry <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for r.count() > 0 {
		select {
		case <-timer.C:
			return r.count() == 0
		case <-hurry:
			return r.count() == 0
		case <-r.empty:
		}
	}
	return true
}

// seize settles every flight that still runs, or waits for its page. It returns these flights and
// those that the shutdown has ended.
func (r *running) seize() []*flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	seized := r.ended
	r.ended = nil
	for f := range r.flights {
		if _, ok := f.state.move(seizes); ok || f.state.now().by == byShutdown {
			seized = append(seized, f)
			delete(r.flights, f)
		}
	}
	return seized
}
