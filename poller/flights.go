package poller

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// flights are the checks under way: a claimed account that may be checked becomes
// one, and is one until it is settled. They do not claim, and have all that they
// return written by the writer.
type flights struct {
	*replica
	limiter   *limiter
	writer    *writer
	mover     *mover
	outage    *outage
	places    *places
	running   *running
	abandoned atomic.Int64
	suspect   atomic.Bool // the one place for suspects is taken

	checks context.Context // done after the grace period
	halt   atomic.Bool     // no further pages
}

func newFlights(r *replica, l *limiter, w *writer, m *mover) *flights {
	return &flights{
		replica: r, limiter: l, writer: w, mover: m,
		outage: newOutage(), places: newPlaces(r.config.Concurrency), running: newRunning(),
	}
}

// start begins a check in a goroutine of its own.
func (fs *flights) start(f *flight) {
	fs.running.add(f)
	go f.run()
}

func (fs *flights) stopping() bool { return fs.halt.Load() }

// count returns how many checks are not settled.
func (fs *flights) count() int { return fs.running.count() }

// drained waits for at most d, and until hurry is closed, and reports whether no check
// runs any more.
func (fs *flights) drained(d time.Duration, hurry <-chan struct{}) bool {
	return fs.running.drained(d, hurry)
}

// tooManyAbandoned holds claims while as many checkers hang as there are places:
// checkers that never come back must not eat up the process. A small pool may
// have some more, or one bad account would stop it.
func (fs *flights) tooManyAbandoned() bool {
	return fs.abandoned.Load() >= int64(max(fs.config.Concurrency, leastAbandoned))
}

// releaseAll returns, unchecked, what still runs. Where a page is being written the
// claim is returned after that, by the entry that it then has.
func (fs *flights) releaseAll() {
	var idle, writing []*flight
	for _, f := range fs.running.seize() {
		if f.isWriting() {
			writing = append(writing, f)
		} else {
			idle = append(idle, f)
		}
	}
	fs.release(idle)
	for _, f := range writing {
		f.awaitWriting()
	}
	fs.release(writing)
}

// release returns flights that are settled, unchecked.
func (fs *flights) release(settled []*flight) {
	byShard := make(map[int][]*circulate.Claim)
	for _, f := range settled {
		if f.unsure {
			fs.writer.forget(f.claim)
			continue
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
