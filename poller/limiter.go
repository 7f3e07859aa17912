package poller

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/limit"
)

// leaseMargin is how much longer than its pages a check may take, to wait and to be written.
const leaseMargin = 30 * time.Second

// leaseOf returns how long a lease lives: longer than any check that a replica with these settings
// does not abandon.
func leaseOf(c Config) time.Duration {
	return maxDrain + c.CheckTimeout + abandonAfter + leaseMargin
}

// limiter asks the limits that all replicas share. A check without a limit costs nothing.
type limiter struct {
	shared   limit.Limits
	board    limit.Board
	ledger   *limit.Ledger
	limits   atomic.Pointer[Limits]
	lease    time.Duration
	finisher *finisher
	log      *slog.Logger
	denied   *prometheus.CounterVec // by kind
	errors   *prometheus.CounterVec // by step
	recent   recent                 // denials, by limit
}

func newLimiter(ring *circulate.Ring, limits Limits, lease time.Duration, log *slog.Logger, m *Metrics) *limiter {
	shared := limit.Of(ring)
	l := &limiter{
		shared: shared, board: limit.BoardOf(ring), ledger: limit.NewLedger(), lease: lease, log: log, denied: m.limited, errors: m.redisErrors,
		finisher: newFinisher(shared.Finish, log, m.redisErrors.WithLabelValues("leave")),
	}
	l.set(limits)
	return l
}

// set changes the limits of checks that start from now on.
func (l *limiter) set(limits Limits) {
	leased := limits.leased(l.lease)
	l.limits.Store(&leased)
}

// run releases the leases of ended checks until ctx is done. Then it releases the rest, while
// writes lasts.
func (l *limiter) run(ctx, writes context.Context) { l.finisher.run(ctx, writes) }

// tellEvery is how often a replica reports what it sees of limits.
const tellEvery = 5 * time.Second

// tell reports what the replica sees of limits until ctx is done. A replica that asks no
// limit reports nothing.
func (l *limiter) tell(ctx context.Context, replica string, now func() time.Time) {
	told := false
	for sleep(ctx, tellEvery) {
		seen := l.ledger.Seen(now())
		if len(seen) == 0 && !told {
			continue
		}
		if err := l.board.Report(ctx, replica, seen); err != nil {
			l.log.Debug("could not report limits", "error", err)
			continue
		}
		told = len(seen) > 0
	}
	if !told {
		return
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := l.board.Withdraw(leaving, replica); err != nil {
		l.log.Debug("could not withdraw the report of limits", "error", err)
	}
}

// finish notes that an admitted check has ended, so that its leases are released.
func (l *limiter) finish(limits limitsOfCheck, checkID string) {
	for _, one := range limits {
		if one != nil {
			l.finisher.add(*one, checkID)
		}
	}
}

// candidate is a claimed account that asks to be checked.
type candidate struct {
	kind     string
	limits   limitsOfCheck
	checkID  string
	promised time.Time // the time that a limit last gave it to come back; zero: none did

	// These fields are the limits' answer. If until and err are zero the check may start,
	// and the caller must call finish when it has ended.
	until time.Time // denied until then, by Redis' clock; it is promised next time
	by    string    // the limit that denied it
	err   error     // the answer is unknown: the check must not start, and the account goes back as it came

	granted [len(limitsOfCheck{})]time.Time // when each limit granted it
}

func (c *candidate) admitted() bool { return c.until.IsZero() && c.err == nil }

// ask asks the limits for at most circulate.MaxBatch candidates, in their order. It takes one round
// trip for all rate keys, one for all kinds and one for all ways, and another if one of these denied
// what the ones before had granted.
func (l *limiter) ask(ctx context.Context, candidates []*candidate) {
	for level := range len(limitsOfCheck{}) {
		l.askLevel(ctx, level, candidates)
	}
	l.giveBack(ctx, candidates)
	for _, c := range candidates {
		if !c.until.IsZero() {
			l.denied.WithLabelValues(c.kind).Inc()
			l.recent.add(recentSort{name: c.by}, "", time.Now())
		}
	}
}

// askLevel asks the limits of one level, of rate keys, kinds or ways, for the candidates that no limit
// has denied yet.
func (l *limiter) askLevel(ctx context.Context, level int, candidates []*candidate) {
	var asks []limit.Asks
	var asking [][]*candidate
	index := make(map[string]int)
	for _, c := range candidates {
		one := c.limits[level]
		if one == nil || !c.admitted() {
			continue
		}
		i, ok := index[one.Name]
		if !ok {
			i = len(asks)
			index[one.Name] = i
			asks, asking = append(asks, limit.Asks{Limit: *one}), append(asking, nil)
		}
		asks[i].Asks = append(asks[i].Asks, limit.Ask{CheckID: c.checkID, Promised: c.promised})
		asking[i] = append(asking[i], c)
	}
	if len(asks) == 0 {
		return
	}
	answers, err := l.shared.Acquire(ctx, asks)
	for i, of := range asking {
		var answer limit.Answers
		if err == nil {
			answer = answers[i]
		} else {
			answer.Err = err
		}
		if answer.Err != nil {
			l.errors.WithLabelValues("acquire").Inc()
			l.log.Debug("a limit did not answer", "limit", asks[i].Limit.Name, "error", answer.Err)
		} else {
			l.ledger.Note(asks[i].Limit, answer)
		}
		for j, c := range of {
			switch {
			case answer.Err != nil:
				c.err = answer.Err
			case answer.At[j].IsZero():
				c.granted[level] = answer.Now
			default:
				c.until, c.by = answer.At[j], asks[i].Limit.Name
			}
		}
	}
}

// giveBack refunds the grants of candidates that may not start after all.
func (l *limiter) giveBack(ctx context.Context, candidates []*candidate) {
	var refunds []limit.Refund
	index := make(map[string]int)
	for _, c := range candidates {
		if c.err != nil {
			// Redis is unreliable now, and nobody knows what a limit has done. The leases are
			// released when Redis answers again.
			l.finish(c.limits, c.checkID)
			continue
		}
		for level, granted := range c.granted {
			if c.admitted() || granted.IsZero() {
				continue
			}
			one := c.limits[level]
			i, ok := index[one.Name]
			if !ok {
				i = len(refunds)
				index[one.Name] = i
				refunds = append(refunds, limit.Refund{Limit: *one, Granted: granted})
			}
			refunds[i].CheckIDs = append(refunds[i].CheckIDs, c.checkID)
		}
	}
	if len(refunds) == 0 {
		return
	}
	if err := l.shared.Refund(ctx, refunds); err != nil {
		// Little of the rate is lost, and the leases end by themselves.
		l.errors.WithLabelValues("refund").Inc()
		l.log.Debug("could not refund unused grants of limits", "error", err)
	}
}

const (
	finishLinger   = 10 * time.Millisecond // how long an ended check waits for others
	finishPending  = 20_000                // the most ended checks that wait while Redis is away; further leases end by themselves
	finishRetry    = 50 * time.Millisecond // doubled each time
	finishRetryMax = 2 * time.Second
)

// finisher gathers the ends of checks that have leases of limits, and sends them to the limits
// in batches.
type finisher struct {
	send   func(context.Context, []limit.Finished) error
	log    *slog.Logger
	failed prometheus.Counter

	kick signal // has a value when there is something to send

	mu      sync.Mutex
	pending map[string]*limit.Finished // by limit
	count   int
}

func newFinisher(send func(context.Context, []limit.Finished) error, log *slog.Logger, failed prometheus.Counter) *finisher {
	return &finisher{
		send: send, log: log, failed: failed,
		kick: newSignal(), pending: make(map[string]*limit.Finished),
	}
}

// add notes that a check has ended. It never waits.
func (f *finisher) add(of limit.Limit, checkIDs ...string) {
	if of.Concurrency == 0 {
		return // a limit without concurrency has no leases
	}
	f.mu.Lock()
	room := max(0, min(len(checkIDs), finishPending-f.count))
	if room > 0 {
		ended, ok := f.pending[of.Name]
		if !ok {
			ended = &limit.Finished{Limit: of}
			f.pending[of.Name] = ended
		}
		ended.CheckIDs = append(ended.CheckIDs, checkIDs[:room]...)
		f.count += room
	}
	f.mu.Unlock()
	if room < len(checkIDs) {
		f.failed.Add(float64(len(checkIDs) - room))
	}
	f.kick.give()
}

// run sends until ctx is done. Then it tries once to send what is left, while writes lasts. Nothing
// may be added after that.
func (f *finisher) run(ctx, writes context.Context) {
	failures := 0
	for {
		select {
		case <-ctx.Done():
		case <-f.kick:
		}
		sleep(ctx, finishLinger)
		for batch := f.take(); len(batch) > 0; batch = f.take() {
			err := f.send(writes, batch)
			if err == nil {
				failures = 0
				continue
			}
			f.failed.Inc()
			f.log.Debug("could not release leases of limits", "limits", len(batch), "error", err)
			if ctx.Err() != nil || !worthwhile(err) {
				continue
			}
			for _, of := range batch {
				f.add(of.Limit, of.CheckIDs...) // repeating is safe
			}
			sleep(ctx, min(finishRetryMax, finishRetry<<min(failures, 6)))
			failures++
		}
		if ctx.Err() != nil && f.empty() {
			return
		}
	}
}

// worthwhile reports whether a failed step may succeed later.
func worthwhile(err error) bool {
	return circulate.Unavailable(err) || circulate.Unknown(err) || circulate.Denied(err)
}

// take returns pending ends, at most as many as one step may have.
func (f *finisher) take() (batch []limit.Finished) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := circulate.MaxBatch
	for name, of := range f.pending {
		n := min(left, len(of.CheckIDs))
		batch = append(batch, limit.Finished{Limit: of.Limit, CheckIDs: of.CheckIDs[:n:n]})
		if of.CheckIDs = of.CheckIDs[n:]; len(of.CheckIDs) == 0 {
			delete(f.pending, name)
		}
		f.count -= n
		if left -= n; left == 0 {
			break
		}
	}
	return batch
}

func (f *finisher) empty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count == 0
}
