package poller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/limit"
)

const (
	leaveLinger   = 10 * time.Millisecond // how long the end of a check waits for others
	leavesPending = 20_000                // the most while Redis is away; further leases end by themselves
	leaveRetry    = 50 * time.Millisecond // doubled each time
	leaveRetryMax = 2 * time.Second
)

// leaves gathers the ends of checks that hold leases of limits, and sends them to the limits
// in batches.
type leaves struct {
	send   func(context.Context, []limit.Finished) error
	log    *slog.Logger
	failed prometheus.Counter

	kick chan struct{} // has a value when there is something to send

	mu      sync.Mutex
	pending map[string]*limit.Finished // by limit
	count   int
}

func newLeaves(send func(context.Context, []limit.Finished) error, log *slog.Logger, failed prometheus.Counter) *leaves {
	return &leaves{
		send: send, log: log, failed: failed,
		kick: make(chan struct{}, 1), pending: make(map[string]*limit.Finished),
	}
}

// add notes that a check has ended. It never waits.
func (l *leaves) add(of limit.Limit, checkIDs ...string) {
	if of.Concurrency == 0 {
		return // it has no leases
	}
	l.mu.Lock()
	room := max(0, min(len(checkIDs), leavesPending-l.count))
	if room > 0 {
		ended, ok := l.pending[of.Name]
		if !ok {
			ended = &limit.Finished{Limit: of}
			l.pending[of.Name] = ended
		}
		ended.CheckIDs = append(ended.CheckIDs, checkIDs[:room]...)
		l.count += room
	}
	l.mu.Unlock()
	if room < len(checkIDs) {
		l.failed.Add(float64(len(checkIDs) - room))
	}
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// run sends until ctx is done, and then tries what is left once, while writes lasts. Nothing
// may be added after that.
func (l *leaves) run(ctx, writes context.Context) {
	failures := 0
	for {
		select {
		case <-ctx.Done():
		case <-l.kick:
		}
		sleep(ctx, leaveLinger)
		for batch := l.take(); len(batch) > 0; batch = l.take() {
			err := l.send(writes, batch)
			if err == nil {
				failures = 0
				continue
			}
			l.failed.Inc()
			l.log.Debug("could not release leases of limits", "limits", len(batch), "error", err)
			if ctx.Err() != nil || !worthwhile(err) {
				continue
			}
			for _, of := range batch {
				l.add(of.Limit, of.CheckIDs...) // repeating is safe
			}
			sleep(ctx, min(leaveRetryMax, leaveRetry<<min(failures, 6)))
			failures++
		}
		if ctx.Err() != nil && l.empty() {
			return
		}
	}
}

// worthwhile reports whether a failed step may succeed later.
func worthwhile(err error) bool {
	return circulate.Unavailable(err) || circulate.Unknown(err) || circulate.Denied(err)
}

// take returns pending ends, at most as many as one step may have.
func (l *leaves) take() (batch []limit.Finished) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := circulate.MaxBatch
	for name, of := range l.pending {
		n := min(left, len(of.CheckIDs))
		batch = append(batch, limit.Finished{Limit: of.Limit, CheckIDs: of.CheckIDs[:n:n]})
		if of.CheckIDs = of.CheckIDs[n:]; len(of.CheckIDs) == 0 {
			delete(l.pending, name)
		}
		l.count -= n
		if left -= n; left == 0 {
			break
		}
	}
	return batch
}

func (l *leaves) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count == 0
}
