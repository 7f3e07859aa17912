package poller

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	claimers   = 2   // claims under way at once
	claimBatch = 128 // accounts of one claim at most

	gatherPlaces = 2 * time.Millisecond

	claimRetry    = 100 * time.Millisecond // after a claim that failed, doubled each time
	claimRetryMax = 5 * time.Second
)

// record is what the pool knows of an account, decoded once and kept.
type record struct {
	account accounts.Account
	cadence cadence.Cadence
	checker Checker // nil: no checker of this process knows the kind
	rateKey string  // the checker's; empty: shared with nobody
	limits  limitsOfCheck
	fault   string // not empty: the record cannot be used
	unknown string // not empty: what this version does not know, and a newer one may
	reason  string // of giving it back for that
}

func (p *Pool) decode(id string, text []byte) *record {
	if text == nil {
		return &record{fault: "the record is missing"}
	}
	// Not as strict as at registration: a newer version's registry may have
	// written fields that this one does not know.
	var account accounts.Account
	if err := json.Unmarshal(text, &account); err != nil {
		return &record{fault: fmt.Sprintf("the record cannot be read: %v", err)}
	}
	if account.ID != id {
		return &record{fault: fmt.Sprintf("the record is that of %q", account.ID)}
	}
	every, err := cadence.Parse(account.Cadence)
	if err != nil {
		return &record{account: account, unknown: fmt.Sprintf("this version cannot read the cadence: %v", err), reason: "unknown_cadence"}
	}
	r := &record{account: account, cadence: every, checker: p.checkers[account.Kind]}
	if r.checker == nil {
		r.unknown, r.reason = fmt.Sprintf("no checker here knows the kind %q", account.Kind), "unknown_kind"
	} else {
		r.rateKey = rateKey(r.checker, account.Config)
		r.limits = p.limiter.of(account.Kind, r.rateKey)
	}
	return r
}

// rateKey asks a checker, which is somebody else's code: one that panics has none.
func rateKey(c Checker, config json.RawMessage) (key string) {
	defer func() {
		if recover() != nil {
			key = ""
		}
	}()
	return c.RateKey(orEmpty(config))
}

func orEmpty(config json.RawMessage) json.RawMessage {
	if len(config) == 0 {
		return json.RawMessage("{}")
	}
	return config
}

// claim takes accounts and starts their checks until ctx is done.
func (p *Pool) claim(ctx context.Context) {
	failures := 0
	for {
		n := p.takePlaces(ctx)
		if n == 0 {
			return
		}
		shard, ok := p.awaitShard(ctx)
		if !ok {
			p.places.give(n)
			return
		}
		started, next, err := p.claimShard(ctx, shard, n)
		p.places.give(n - started)
		if err == nil {
			failures = 0
			p.timetable.put(shard, next)
			continue
		}
		p.metrics.redisErrors.WithLabelValues("claim").Inc()
		p.log.Debug("claim failed", "shard", shard, "error", err)
		pause := min(claimRetryMax, claimRetry<<min(failures, 6))
		failures++
		p.timetable.put(shard, time.Now().Add(pause))
		if circulate.Unavailable(err) && p.ring.Node(shard) == "" {
			// The whole server is away: the other shards need not be tried.
			if !sleep(ctx, pause) {
				return
			}
		}
	}
}

// takePlaces waits for free places. Where checks fill the pool they come free
// one by one, and a claim for each would cost Redis more than the claims of
// several: a moment's patience gathers them.
func (p *Pool) takePlaces(ctx context.Context) int {
	n := p.places.take(ctx, claimBatch)
	if few := min(claimBatch, p.config.Concurrency/8); n > 0 && n < few && sleep(ctx, gatherPlaces) {
		n += p.places.tryTake(claimBatch - n)
	}
	return n
}

// awaitShard waits until the time of some shard has come.
func (p *Pool) awaitShard(ctx context.Context) (int, bool) {
	for {
		if ctx.Err() != nil {
			return 0, false
		}
		if p.tooManyAbandoned() {
			sleep(ctx, deafInterval)
			continue
		}
		shard, ok, wait := p.timetable.take(time.Now(), p.idle())
		if ok {
			return shard, true
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-p.timetable.sooner:
		}
		timer.Stop()
	}
}

// claimShard claims up to n accounts of a shard and starts their checks. It
// tells how many it started and when the shard is next worth a claim.
func (p *Pool) claimShard(ctx context.Context, shard, n int) (started int, next time.Time, err error) {
	p.metrics.claims.Inc()
	batch, err := p.ring.Claim(ctx, shard, p.config.Replica, n, p.records.Known(shard))
	if err != nil {
		if circulate.Unknown(err) || circulate.Unavailable(err) {
			// What answers next may be another server, and remember less: that this
			// replica holds what it has returned.
			p.holding.lose(shard)
		}
		return 0, time.Time{}, err
	}
	received := time.Now()
	p.holding.add(batch.Claims)
	if p.holding.suspicious(shard) {
		if err := p.reclaim(ctx, shard); err != nil {
			p.holding.lose(shard)
			p.log.Debug("what may be held was not looked for", "shard", shard, "error", err)
		}
	}
	reading := &instant{server: batch.Now, local: received}
	p.origin.Store(reading)
	p.clocks[shard].Store(reading)
	p.metrics.void.Add(float64(batch.Void))
	p.metrics.claimed.Add(float64(len(batch.Claims)))
	records, err := p.records.Resolve(ctx, shard, &batch)
	if len(batch.Claims) > 0 && (err != nil || ctx.Err() != nil) {
		// Not to be checked by us: next in line again, or stale if that fails too.
		claims := make([]*circulate.Claim, len(batch.Claims))
		for i := range claims {
			claims[i] = &batch.Claims[i]
		}
		p.release(ctx, shard, claims)
		return 0, time.Now(), err
	}
	flights := make([]*flight, len(batch.Claims))
	for i := range flights {
		flights[i] = &flight{
			pool:    p,
			claim:   &batch.Claims[i],
			record:  records[i],
			checkID: fmt.Sprintf("%d-%s", shard, batch.Claims[i].Ticket()),
			localAt: received,
			skip:    accounts.SkipBefore(batch.Claims[i].State),
			used:    accounts.UsedUntil(batch.Claims[i].State),
		}
	}
	flights = p.admit(ctx, p.withRoom(shard, flights))
	for _, f := range flights {
		p.start(f)
	}
	return len(flights), p.nextClaim(shard, &batch, received), nil
}

// nextClaim is when a shard is next worth a claim: when its next account is due.
// A shard that is another replica's part is left to it for a while longer.
func (p *Pool) nextClaim(shard int, b *circulate.Batch, received time.Time) time.Time {
	idle := p.idle()
	switch {
	case b.More:
		return received
	case b.NextDue.IsZero():
		return received.Add(idle)
	}
	// Redis' milliseconds are cut off: one more, or the claim would come early.
	wait := max(0, b.NextDue.Sub(b.Now)) + time.Millisecond
	if p.meter.isBusy(received) {
		wait = max(wait, p.config.GatherInterval)
	}
	return received.Add(min(idle, wait+p.timetable.patience(shard, rand.Float64())))
}

// idle is the longest that a shard goes without being looked at.
func (p *Pool) idle() time.Duration {
	if p.hearing.Load() {
		return p.config.IdleInterval
	}
	return min(deafInterval, p.config.IdleInterval)
}

// sleep waits and reports whether it was for all of d.
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
