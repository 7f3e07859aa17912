package poller

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// What may settle a flight.
const (
	settledBySelf     int32 = iota + 1
	settledByWatch          // abandoned: the checker did not return in time
	settledByShutdown       // released: the replica is going down
	settledByLoss           // forgotten: another has the account
	settledBySecret         // returned: a secret that it uses has changed

	pageInHand int32 = 1 << 8 // beside one of these, or alone
)

// state is what has settled a flight, if anything has, and whether a page is in hand: whether its
// call has brought something that is not written. Both are one word, so that a page which arrives
// and another who settles the flight at the same moment cannot both go ahead.
//
//	         take                    settle
//	calling ──────▶ page in hand ──────────────▶ settled, page in hand
//	   │    ◀──────                               │ putDown
//	   │   putDown                                ▼
//	   └────────────────────────────────────▶ settled
//	       settle, settleIdle
type state struct {
	word atomic.Int32
	page sync.WaitGroup // one while a page is in hand
}

// owner returns what has settled the flight; 0: nothing yet.
func (s *state) owner() int32 { return s.word.Load() &^ pageInHand }

// hasPage reports whether a page is in hand.
func (s *state) hasPage() bool { return s.word.Load()&pageInHand != 0 }

// settle reports whether the caller is the first that settles the flight. If a page is in hand,
// a caller other than the flight has to wait for it before it touches the claim.
func (s *state) settle(who int32) bool {
	for word := s.word.Load(); word&^pageInHand == 0; word = s.word.Load() {
		if s.word.CompareAndSwap(word, word|who) {
			return true
		}
	}
	return false
}

// settleIdle is settle for callers that leave a flight with a page in hand alone.
func (s *state) settleIdle(who int32) bool { return s.word.CompareAndSwap(0, who) }

// take takes a page in hand. It returns false if the flight is settled.
func (s *state) take() bool {
	if s.owner() != 0 {
		return false
	}
	s.page.Add(1)
	if s.word.CompareAndSwap(0, pageInHand) {
		return true
	}
	s.page.Done()
	return false
}

// putDown ends what take began. It does nothing if no page is in hand.
func (s *state) putDown() {
	if s.word.And(^pageInHand)&pageInHand != 0 {
		s.page.Done()
	}
}

// running is the set of flights that are not settled.
type running struct {
	mu      sync.Mutex
	flights map[*flight]struct{}
	ended   []*flight     // flights that the shutdown ended, to be released
	kept    chan struct{} // has a value after a flight was kept
	empty   chan struct{} // has a value after the last flight was removed
}

func newRunning() *running {
	return &running{flights: make(map[*flight]struct{}), kept: make(chan struct{}, 1), empty: make(chan struct{}, 1)}
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

// keep removes a flight that the shutdown has ended, and keeps it for seize.
func (r *running) keep(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.flights[f]; ok {
		r.ended = append(r.ended, f)
		r.removeLocked(f)
		select {
		case r.kept <- struct{}{}:
		default:
		}
	}
}

// takeEnded returns the flights that the shutdown has ended since the last call.
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

// seize settles every flight that still runs. It returns these flights and those that the
// shutdown has ended.
func (r *running) seize() []*flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	seized := r.ended
	r.ended = nil
	for f := range r.flights {
		if f.state.settle(settledByShutdown) || f.state.owner() == settledByShutdown {
			seized = append(seized, f)
			delete(r.flights, f)
		}
	}
	return seized
}
