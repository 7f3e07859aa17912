package poller

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	claimers   = 2   // claims under way at once
	claimBatch = 128 // accounts of one claim at most

	gatherPlaces = 2 * time.Millisecond

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
	holding    *holding
	records    *circulate.Records[*record]
	subscribed atomic.Bool // wake-ups arrive
}

func newClaimer(r *replica, ring *circulate.Ring, checkers Checkers, ps *peers, l *limiter, fs *flights, w *writer) *claimer {
	c := &claimer{replica: r, ring: ring, checkers: checkers, peers: ps, limiter: l, flights: fs, writer: w, holding: w.holding}
	c.records = circulate.NewRecords(ring, r.config.RecordsKept, r.config.RecordBytes, recordTTL, c.decode)
	return c
}

// run claims accounts and starts their checks until ctx is done.
func (c *claimer) run(ctx context.Context) {
	failures := 0
	for {
		n := c.takePlaces(ctx)
		if n == 0 {
			return
		}
		shard, ok := c.awaitShard(ctx)
		if !ok {
			c.flights.places.give(n)
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

// takePlaces waits for free places. If checks fill the pool, places become free one by
// one, and a claim for each would cost Redis more than a claim for several. It therefore
// waits a moment until several are free.
func (c *claimer) takePlaces(ctx context.Context) int {
	n := c.flights.places.take(ctx, claimBatch)
	if few := min(claimBatch, c.config.Concurrency/8); n > 0 && n < few && sleep(ctx, gatherPlaces) {
		n += c.flights.places.tryTake(claimBatch - n)
	}
	return n
}

// awaitShard waits until a shard is due for a claim.
func (c *claimer) awaitShard(ctx context.Context) (int, bool) {
	for {
		if ctx.Err() != nil {
			return 0, false
		}
		if c.flights.tooManyAbandoned() {
			sleep(ctx, hangingPause)
			continue
		}
		shard, ok, wait := c.timetable.take(time.Now(), c.idle())
		if ok {
			return shard, true
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-c.timetable.sooner:
		}
		timer.Stop()
	}
}

// claimShard claims up to n accounts of a shard and starts their checks. It returns how
// many it started and when the shard should be claimed from next.
func (c *claimer) claimShard(ctx context.Context, shard, n int) (started int, next time.Time, err error) {
	c.metrics.claims.Inc()
	batch, err := c.ring.Claim(ctx, shard, c.config.Replica, n, c.records.Known(shard), c.peers.kinds...)
	if err != nil {
		if circulate.Unknown(err) || circulate.Unavailable(err) {
			// The next answer may come from another server that lost the last writes. It
			// may still say that this replica holds accounts that it has returned.
			c.holding.lose(shard)
		}
		return 0, time.Time{}, err
	}
	received := time.Now()
	c.holding.add(batch.Claims)
	if c.holding.suspicious(shard) {
		if err := c.reclaim(ctx, shard); err != nil {
			c.holding.lose(shard)
			c.log.Debug("what may be held was not looked for", "shard", shard, "error", err)
		}
	}
	c.clocks.set(shard, batch.Now, received)
	c.metrics.void.Add(float64(batch.Void))
	c.metrics.passedBy.Add(float64(batch.Passed))
	c.metrics.claimed.Add(float64(len(batch.Claims)))
	records, err := c.records.Resolve(ctx, shard, &batch)
	if len(batch.Claims) > 0 && (err != nil || ctx.Err() != nil) {
		// We will not check these: release them. If that fails, the monitor requeues them.
		claims := make([]*circulate.Claim, len(batch.Claims))
		for i := range claims {
			claims[i] = &batch.Claims[i]
		}
		c.writer.release(ctx, shard, claims)
		return 0, time.Now(), err
	}
	claimed := make([]*flight, len(batch.Claims))
	for i := range claimed {
		claimed[i] = &flight{
			flights: c.flights,
			claim:   &batch.Claims[i],
			record:  records[i],
			limits:  c.limiter.limitsOf(records[i]),
			checkID: checkID(&batch.Claims[i], i),
			localAt: received,
			skip:    accounts.SkipBefore(batch.Claims[i].State),
			first:   len(batch.Claims[i].Cursor) == 0,
			used:    accounts.UsedUntil(batch.Claims[i].State),
		}
	}
	admitted := c.flights.admit(ctx, shard, c.passOn(ctx, shard, claimed))
	for _, f := range admitted {
		if !f.isHeld() {
			started++
		}
		c.flights.start(f)
	}
	return started, c.nextClaim(shard, &batch, received), nil
}

// checkID names the check of a claim, which is at a place of its batch: a batch has one
// ticket, and a shard no two batches with the same.
func checkID(c *circulate.Claim, place int) string {
	id := append(strconv.AppendInt(make([]byte, 0, 32), int64(c.Shard), 10), '-')
	id = append(append(id, c.Ticket()...), '-')
	return string(strconv.AppendInt(id, int64(place), 10))
}

// nextClaim returns when a shard should be claimed from next: when its next account is
// due. If the shard is another replica's part, that replica gets some more time.
func (c *claimer) nextClaim(shard int, b *circulate.Batch, received time.Time) time.Time {
	idle := c.idle() * time.Duration(c.timetable.aloof(shard))
	switch {
	case b.More:
		return received
	case b.NextDue.IsZero():
		return received.Add(idle)
	}
	// Redis truncates its time to milliseconds. Without one more, the claim would be early.
	wait := max(0, b.NextDue.Sub(b.Now)) + time.Millisecond
	if c.meter.isBusy(received) {
		wait = max(wait, c.config.GatherInterval)
	}
	return received.Add(min(idle, wait+c.timetable.patience(shard, rand.Float64())))
}

// idle returns the longest time between two claims from a shard of the replica's own.
func (c *claimer) idle() time.Duration {
	if c.subscribed.Load() {
		return c.config.IdleInterval
	}
	return min(unsubscribedPoll, c.config.IdleInterval)
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
