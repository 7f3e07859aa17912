package poller

import (
	"context"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	settlers   = 4 // settling steps under way at once
	settleMost = circulate.MaxBatch
)

// settlement is how an attempt of a send went, before it is written.
type settlement struct {
	circulate.Settlement
	of *sending // nil: it was already settled as unknown, and its place is free
}

// settler writes how attempts went. Attempts that end while a step is under way are written
// together by the next one.
type settler struct {
	sends *sends
	kick  signal // has a value when there is something to write

	mu      sync.Mutex
	pending []settlement
}

// submit takes over a settlement. It never waits: the places bound how many there are.
func (w *settler) submit(one settlement) {
	w.mu.Lock()
	w.pending = append(w.pending, one)
	w.mu.Unlock()
	w.kick.give()
}

// take returns pending settlements, at most as many as one step may have.
func (w *settler) take() []settlement {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.pending), settleMost)
	some := w.pending[:n:n]
	if w.pending = w.pending[n:]; len(w.pending) > 0 {
		w.kick.give()
	}
	return some
}

// run writes settlements until ctx is done.
func (w *settler) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.kick:
		}
		if some := w.take(); len(some) > 0 {
			w.write(some)
		}
	}
}

// write writes settlements. While Redis is away it tries again, which is safe, until the attempts
// have long been unknown, or the last writes must end.
func (w *settler) write(some []settlement) {
	s := w.sends
	items := make([]circulate.Settlement, len(some))
	for i := range some {
		items[i] = some[i].Settlement
	}
	var settled []bool
	giveUp := time.Now().Add(s.config.LongTimeout)
	for try := 0; ; try++ {
		var err error
		if settled, err = s.outbox.Settle(s.writes, items); err == nil {
			break
		}
		s.metrics.redisErrors.WithLabelValues("settle").Inc()
		s.log.Debug("sends were not settled", "sends", len(items), "error", err)
		if !worthwhile(err) || time.Now().After(giveUp) || !sleep(s.writes, min(commitRetryMax, commitRetry<<min(try, 6))) {
			s.log.Warn("sends were not settled; they become unknown", "sends", len(items), "error", err)
			settled = make([]bool, len(items))
			break
		}
	}
	for i, one := range some {
		if one.of == nil {
			continue
		}
		outcome := "fenced"
		if settled[i] {
			outcome = outcomeWords[one.Outcome]
		}
		s.metrics.sends.WithLabelValues(one.of.attempt.Kind, outcome).Inc()
		if one.Outcome == circulate.AttemptUnknown {
			s.doubted.give()
		}
		if a := one.of; !one.After.IsZero() {
			// Nobody is woken for what is due later. Redis truncates its time to milliseconds.
			s.times.bring(a.attempt.Shard, a.received.Add(one.After.Sub(a.attempt.Since)+2*time.Millisecond))
		}
		s.remove(one.of)
	}
}
