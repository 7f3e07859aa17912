package poller

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	claimers   = 2   // claims under way at once
	claimBatch = 128 // the most accounts of one claim

	gatherPlaces = 2 * time.Millisecond

	// departGap is how far apart checks of accounts that were claimed ahead begin: several begin at
	// once, so that several ask for limits at once.
	departGap    = 20 * time.Millisecond
	departLimits = 50 * time.Millisecond
	// departWait is how long such checks wait for places before their accounts are released.
	departWait = 50 * time.Millisecond

	claimRetry    = 100 * time.Millisecond // after a claim that failed, doubled each time
	claimRetryMax = 5 * time.Second
)

// claimer claims accounts when places for checks are free and shards have due accounts.
// An account that may be checked becomes a flight.
type claimer struct {
	*replica
	ring       *circulate.Ring
	checkers   Checkers
	peers      *peers
	limiter    *limiter
	flights    *flights
	writer     *writer
	sends      *sends
	claims     *claims
	records    *circulate.Records[*record]
	subscribed atomic.Bool // wake-ups reach this replica
	panics     sync.Map    // kind and method -> true, once their panic was logged
	spanNames  map[string]string

	early     atomic.Int64   // accounts that were claimed ahead and are not due yet
	departing sync.WaitGroup // goroutines that wait with these
}

func newClaimer(r *replica, ring *circulate.Ring, checkers Checkers, ps *peers, l *limiter, fs *flights, w *writer, s *sends) *claimer {
	c := &claimer{replica: r, ring: ring, checkers: checkers, peers: ps, limiter: l, flights: fs, writer: w, sends: s, claims: w.claims, spanNames: spanNamesOf(checkers.Kinds())}
	c.records = circulate.NewRecords(ring, r.config.RecordsKept, r.config.RecordBytes, recordTTL, c.decode)
	return c
}

// run claims accounts and starts their checks until ctx is done.
func (c *claimer) run(ctx context.Context) {
	failures := 0
	for {
		shard, ok := c.awaitShard(ctx)
		if !ok {
			return
		}
		n := c.takePlaces(ctx)
		if n == 0 {
			return
		}
		started, next, err := c.claimShard(ctx, shard, n)
		c.flights.places.give(n - started)
		if err == nil {
			failures = 0
			c.timetable.put(shard, next)
			continue
		}
		c.metrics.redisErrors.WithLabelValues("claim").Inc()
		c.log.Debug("claim failed", "shard", shard, "error", err)
		pause := min(claimRetryMax, claimRetry<<min(failures, 6))
		failures++
		c.timetable.put(shard, time.Now().Add(pause))
		if circulate.Unavailable(err) && c.ring.Node(shard) == "" {
			// The whole server is unreachable, so the other shards need not be tried.
			if !sleep(ctx, pause) {
				return
			}
		}
	}
}

// takePlaces waits for free places. When checks fill the pool, places become free one by one, and a
// claim for each would cost Redis more than one claim for several. takePlaces therefore waits a
// moment until several are free.
func (c *claimer) takePlaces(ctx context.Context) int {
	most := claimBatch
	if c.flights.held.behind() {
		most = heldClaim
	}
	n := c.flights.places.take(ctx, most)
	if few := min(most, c.config.Concurrency/8); n > 0 && n < few && sleep(ctx, gatherPlaces) {
		n += c.flights.places.tryTake(most - n)
	}
	return n
}

// awaitShard waits until a shard is due for a claim.
func (c *claimer) awaitShard(ctx context.Context) (int, bool) {
	for ctx.Err() == nil {
		if c.flights.tooManyAbandoned() {
			sleep(ctx, hangingPause)
			continue
		}
		if shard, ok := c.timetable.await(ctx, c.config.idle(c.subscribed.Load())); ok {
			return shard, true
		}
	}
	return 0, false
}

// claimShard claims up to n accounts of a shard and starts their checks. It returns how
// many took an ordinary place, and when the shard should be claimed from next.
func (c *claimer) claimShard(ctx context.Context, shard, n int) (started int, next time.Time, err error) {
	c.metrics.claims.Inc()
	ahead, asked := c.ahead(shard), time.Now()
	batch, err := c.ring.ClaimAhead(ctx, shard, c.config.Replica, n, c.records.Known(shard), ahead, c.peers.kinds...)
	if err != nil {
		if circulate.Unknown(err) || circulate.Unavailable(err) {
			// The next answer may come from another server, which lost the last writes and may
			// still count returned accounts as this replica's.
			c.claims.lose(shard)
		}
		return 0, time.Time{}, err
	}
	received := time.Now()
	c.claims.add(batch.Claims)
	if c.claims.suspicious(shard) {
		if err := c.reclaim(ctx, shard); err != nil {
			c.claims.lose(shard)
			c.log.Debug("lost claims of the shard were not looked for", "shard", shard, "error", err)
		}
	}
	c.clocks.set(shard, batch.Now, received)
	c.metrics.void.Add(float64(batch.Void))
	c.metrics.passedBy.Add(float64(batch.Passed))
	c.metrics.claimed.Add(float64(len(batch.Claims)))
	records, err := c.records.Resolve(ctx, shard, &batch)
	if len(batch.Claims) > 0 && (err != nil || ctx.Err() != nil) {
		// We will not check these, so we release them. If that fails, the monitor requeues them.
		claims := make([]*circulate.Claim, len(batch.Claims))
		for i := range claims {
			claims[i] = &batch.Claims[i]
		}
		c.writer.release(ctx, shard, claims)
		return 0, time.Now(), err
	}
	claimed := make([]*flight, len(batch.Claims))
	for i := range claimed {
		claimed[i] = c.newFlight(&batch.Claims[i], records[i], checkID(&batch.Claims[i], i), received)
		claimed[i].trace = c.traceOf(claimed[i], asked, received)
	}
	due, later := dueNow(c.passOn(ctx, shard, claimed), &batch)
	if len(later) > 0 {
		c.early.Add(int64(len(later)))
		c.departing.Go(func() { c.depart(ctx, shard, later, batch.Now, received) })
	}
	started, held := c.start(ctx, shard, due)
	c.flights.held.pace(ctx, held)
	return started, c.nextClaim(shard, &batch, received, ahead), nil
}

// newFlight prepares the check of an account that was claimed at a time by our clock.
func (c *claimer) newFlight(claim *circulate.Claim, r *record, id string, at time.Time) *flight {
	f := &flight{
		flights: c.flights, claim: claim, record: r, limits: c.limiter.limitsOf(r), checkID: id,
		localAt: at, due: claim.Due, first: len(claim.Cursor) == 0,
		unsynced: len(claim.Cursor) > 0 && confirms(r.checker),
	}
	f.memory, f.forgot = accounts.ReadMemory(claim.State)
	return f
}

// start starts the checks of a shard's admitted accounts. It returns how many took an ordinary
// place, and how many a place for held checks.
func (c *claimer) start(ctx context.Context, shard int, claimed []*flight) (started, held int) {
	for _, f := range c.flights.admit(ctx, shard, claimed) {
		if f.hold != nil {
			held++
		} else {
			started++
		}
		c.flights.start(f)
	}
	return started, held
}

// checkID names the check of a claim by its ticket, which all claims of a batch share,
// and by its place in the batch. No two batches of a shard have the same ticket.
func checkID(c *circulate.Claim, place int) string {
	id := append(strconv.AppendInt(make([]byte, 0, 32), int64(c.Shard), 10), '-')
	id = append(append(id, c.Ticket()...), '-')
	return string(strconv.AppendInt(id, int64(place), 10))
}

// nextClaim returns when a shard should be claimed from next: when its next account is
// due. If the shard belongs to another replica, that replica gets some more time.
func (c *claimer) nextClaim(shard int, b *circulate.Batch, received time.Time, ahead time.Duration) time.Time {
	idle := c.config.idle(c.subscribed.Load()) * time.Duration(c.timetable.aloof(shard))
	switch {
	case b.More:
		return received
	case b.NextDue.IsZero():
		return received.Add(idle)
	}
	// Redis truncates its time to milliseconds. Without another millisecond, the claim would be early.
	wait := max(0, b.NextDue.Sub(b.Now)) + time.Millisecond
	switch {
	case ahead > 0:
		// Accounts that are due until then were claimed ahead. The claimer comes back before the next
		// ones are due.
		wait = max(wait-(ahead-c.gather()), c.gather())
	case c.meter.isBusy(received):
		wait = max(wait, c.config.GatherInterval)
	}
	return received.Add(min(idle, wait+c.timetable.patience(shard, rand.Float64())))
}

// sleep waits for d, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// gather returns the least time between two claims of a shard that claim ahead.
func (c *claimer) gather() time.Duration {
	return min(2*c.config.GatherInterval, circulate.MaxAhead*3/4)
}

// ahead returns how long before they are due the next claim of a shard may take accounts. In a
// shard of its own, a busy replica takes the accounts that become due until its next claim there,
// and a little later. It takes nothing ahead while most places are taken, because an account must
// not wait longer here than anywhere else.
func (c *claimer) ahead(shard int) time.Duration {
	if !c.meter.isBusy(time.Now()) || c.timetable.patience(shard, 0) > 0 || 4*c.flights.count() > 3*c.config.Concurrency ||
		int(c.early.Load()) > 2*c.config.Concurrency {
		return 0
	}
	return (c.gather() * 4 / 3).Truncate(time.Millisecond)
}

// dueNow splits the flights of a batch into those that are due and those that are due later, the
// earliest first. An account that is due beyond circulate.MaxAhead was claimed by a clock that has
// since gone back.
func dueNow(claimed []*flight, b *circulate.Batch) (due, later []*flight) {
	due = claimed[:0:len(claimed)]
	for _, f := range claimed {
		if wait := f.claim.Due.Sub(b.Now); wait > 0 && wait <= circulate.MaxAhead {
			later = append(later, f)
			continue
		}
		due = append(due, f)
	}
	slices.SortFunc(later, func(f, g *flight) int { return f.claim.Due.Compare(g.claim.Due) })
	return due, later
}

// depart starts the checks of accounts that were claimed before they were due, by Redis' clock
// and by ours. If ctx ends first, or there are no places for them, it releases them.
func (c *claimer) depart(ctx context.Context, shard int, later []*flight, claimed, received time.Time) {
	gap := departGap
	for _, f := range later {
		if f.limits != (limitsOfCheck{}) {
			gap = departLimits
		}
	}
	for len(later) > 0 {
		// Redis truncates its time to milliseconds.
		first := received.Add(later[0].claim.Due.Sub(claimed) + time.Millisecond)
		if len(later) > 1 {
			first = first.Add(gap)
		}
		if !sleep(ctx, time.Until(first)) {
			c.release(ctx, shard, later)
			c.early.Add(-int64(len(later)))
			return
		}
		now, n := claimed.Add(time.Since(received)), 0
		for n < len(later) && later[n].claim.Due.Before(now) {
			later[n].localAt = time.Now()
			n++
		}
		places := c.flights.places.tryTake(n)
		for until := time.Now().Add(departWait); places < n && time.Now().Before(until) && sleep(ctx, departGap); {
			places += c.flights.places.tryTake(n - places)
		}
		if places < n {
			c.release(ctx, shard, later[places:n])
		}
		started, _ := c.start(ctx, shard, later[:places])
		c.flights.places.give(places - started)
		c.early.Add(-int64(n))
		later = later[n:]
	}
}

// release releases the accounts of flights that have not begun.
func (c *claimer) release(ctx context.Context, shard int, waiting []*flight) {
	claims := make([]*circulate.Claim, len(waiting))
	for i, f := range waiting {
		claims[i] = f.claim
	}
	c.writer.release(ctx, shard, claims)
}
