package poller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// idleWorkers is the most goroutines without a check that wait for the next one. A claim brings
// half as many checks at once.
const idleWorkers = 2 * claimBatch

// flights are the checks under way. A claimed account that may be checked becomes a flight, until
// it is settled. Flights never claim accounts, and return them through the writer.
type flights struct {
	*replica
	limiter  *limiter
	writer   *writer
	mover    *mover
	outages  outages
	troubles *troubles

	maintained *maintained
	latest     *latestChecks

	places    *places
	crowds    *crowds
	running   *running
	held      *heldChecks
	crew      *crew[*flight]
	abandoned atomic.Int64
	sends     *sends
	tokens    TokenSealer // nil: tokens of windows are stored as they are
	warned    recent      // warnings of checks, by kind and code
	warnings  firsts      // those of which the log has an example
	suspect   atomic.Bool // the one place for suspects is taken

	checks context.Context // done after the grace period
	halt   atomic.Bool     // no further pages
}

func newFlights(r *replica, l *limiter, w *writer, m *mover, h *heldChecks) *flights {
	fs := &flights{
		replica: r, limiter: l, writer: w, mover: m, held: h, troubles: newTroubles(h.ring, r.config.Heartbeat, r.log, r.metrics),
		maintained: newMaintained(h.ring, r.log, r.metrics), latest: newLatest(h.ring, r.log, r.metrics),
		outages: newOutages(r.config.Ways), places: newPlaces(r.config.Concurrency), crowds: newCrowds(r.config.Concurrency), running: newRunning(),
	}
	fs.crew = newCrew(idleWorkers, func() crewWorker[*flight] { return worker{newBox(fs.checks)} })
	return fs
}

// worker makes checks, one after the other.
type worker struct{ box *box }

// Do makes a check.
func (w worker) Do(f *flight) { f.run(w.box) }

// Close ends the use of the worker's box.
func (w worker) Close() { w.box.Close() }

// start begins a check. A held check lasts, so it gets a goroutine of its own.
func (fs *flights) start(f *flight) {
	if f.hold == nil {
		f.set().add(f)
		fs.crew.Do(f)
		return
	}
	fs.metrics.held.Inc()
	f.set().add(f)
	go func() {
		box := newBox(f.hold.calls)
		defer box.Close()
		f.run(box)
	}()
}

func (fs *flights) stopping() bool { return fs.halt.Load() }

// count returns the number of checks that are not settled.
func (fs *flights) count() int { return fs.running.count() }

// drained waits until no check runs, until d has passed, or until hurry is closed, and
// reports whether no check runs.
func (fs *flights) drained(d time.Duration, hurry <-chan struct{}) bool {
	until := time.Now().Add(d)
	return fs.running.drained(d, hurry) && fs.held.running.drained(time.Until(until), hurry)
}

// tooManyAbandoned reports whether as many checkers hang as there are places. Claims then pause, so
// that checkers that never return do not eat up the process. A small pool tolerates some more, or
// one bad account would stop it.
func (fs *flights) tooManyAbandoned() bool {
	return fs.abandoned.Load() >= int64(max(fs.config.Concurrency, leastAbandoned))
}

// callOffAll calls off all checks that still run. The caller must end their calls.
func (fs *flights) callOffAll() {
	for _, f := range append(fs.running.all(), fs.held.running.all()...) {
		f.state.move(stops)
	}
}

// releaseAll releases the claims of all running checks. While a page is in hand, it waits until the
// page is written, which gives the claim a new entry.
func (fs *flights) releaseAll() {
	var idle, writing []*flight
	for _, f := range append(fs.running.seize(), fs.held.running.seize()...) {
		if f.state.now().at == seized {
			writing = append(writing, f)
		} else {
			idle = append(idle, f)
		}
	}
	fs.release(idle)
	for _, f := range writing {
		f.state.page.Wait()
	}
	fs.release(writing)
}

// release releases the accounts of settled flights.
func (fs *flights) release(settled []*flight) {
	byShard := make(map[int][]*circulate.Claim)
	for _, f := range settled {
		f.trace.end(outcomeReleased)
		if f.state.now().by == byLoss { // its page was not written
			fs.writer.forget(f.claim)
			continue
		}
		if f.hold != nil {
			f.claim.Due = f.now() // it was held until now
		}
		byShard[f.claim.Shard] = append(byShard[f.claim.Shard], f.claim)
	}
	for shard, claims := range byShard {
		for len(claims) > 0 {
			n := min(len(claims), circulate.MaxBatch)
			fs.writer.release(fs.writer.writes, shard, claims[:n])
			claims = claims[n:]
		}
	}
}

// running is the set of flights that are not settled.
type running struct {
	mu      sync.Mutex
	flights map[*flight]struct{}
	ended   []*flight // flights that the shutdown called off, to be released
	stops   signal    // has a value after another has ended
	empty   signal    // has a value after the last flight was removed
}

func newRunning() *running {
	return &running{flights: make(map[*flight]struct{}), stops: newSignal(), empty: newSignal()}
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

// stopped moves a flight that the shutdown called off to those to be released.
func (r *running) stopped(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.flights[f]; ok {
		r.ended = append(r.ended, f)
		r.removeLocked(f)
		r.stops.give()
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
		r.empty.give()
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
// the flights that the shutdown has ended.
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
