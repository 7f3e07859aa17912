package poller

import (
	"context"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// writer writes the results of checks to the ring, and releases claims unchecked. It neither
// claims nor checks.
type writer struct {
	*replica
	ring      *circulate.Ring
	syncer    *circulate.Syncer
	committer *committer
	claims    *claims
	once      map[string]bool // the kinds whose third parties give each message once
	aside     aside
	recorded  recorded
	writes    context.Context // done when the last writes must end
}

func newWriter(r *replica, ring *circulate.Ring, once map[string]bool) *writer {
	syncer := circulate.NewSyncer(ring, circulate.Durability{Disk: !r.config.ConfirmUnsynced, Replicas: r.config.ConfirmReplicas})
	w := &writer{replica: r, ring: ring, syncer: syncer, once: once, claims: newClaims()}
	w.committer = newCommitter(w.linger, 4*r.config.Concurrency+commitBatch, w.write)
	w.committer.calm = w.calm
	return w
}

// Outcomes of returns in metrics, and in what is recorded of checks.
const (
	outcomeWritten = "written"
	outcomeGivenUp = "given_up" // Redis did not take it in time
)

// linger returns how long a result may wait for others of its shard.
func (w *writer) linger(now time.Time) time.Duration {
	if w.meter.isBusy(now) {
		return w.config.GatherInterval
	}
	return min(w.config.CommitInterval, w.config.GatherInterval)
}

// calm reports whether nobody waits for a return: it brings no messages, and its account is not due
// for a while. A busy replica may write it together with later ones.
func (w *writer) calm(item *circulate.Return) bool {
	return len(item.Messages) == 0 && w.meter.isBusy(time.Now()) && item.Due.Sub(w.clocks.now()) > 4*w.config.GatherInterval
}

// run writes submitted returns until ctx is done, and then what is left.
func (w *writer) run(ctx context.Context) {
	defer w.aside.tries.Wait()
	w.committer.run(ctx)
}

// submit takes over a return. It blocks while too many are unwritten. It calls written, which may be
// nil, once the return is written or dropped.
func (w *writer) submit(item circulate.Return, written func()) { w.committer.submitWith(item, written) }

// write writes a batch of returns. While Redis is away it tries again, until the claims are no
// longer ours. Repeating is safe: a return that an earlier try wrote is fenced.
func (w *writer) write(shard int, items []circulate.Return) { w.writeAgain(shard, items, false) }

// writeAgain writes as write does. unknown says that an earlier try may have written the returns.
func (w *writer) writeAgain(shard int, items []circulate.Return, unknown bool) {
	giveUp := time.Now().Add(w.config.LongTimeout)
	for try := 0; ; try++ {
		outcomes, err := w.ring.Return(w.writes, shard, items)
		if err == nil {
			w.wrote(shard, items, outcomes, unknown)
			return
		}
		w.metrics.redisErrors.WithLabelValues("return").Inc()
		unknown = unknown || circulate.Unknown(err)
		if circulate.Full(err) {
			w.room.refused(shard)
			if items = w.setAside(shard, items, unknown); len(items) == 0 {
				return
			}
			if w.withoutMessages(shard, items) {
				continue
			}
		}
		refused := !circulate.Unavailable(err) && !circulate.Denied(err)
		if refused && len(items) > 1 {
			// Redis answers but refuses this batch. Find out which returns it refuses.
			for i := range items {
				w.writeAgain(shard, items[i:i+1], unknown)
			}
			return
		}
		pause := min(commitRetryMax, commitRetry<<min(try, 6))
		if refused && try >= 3 || time.Now().Add(pause).After(giveUp) || !sleep(w.writes, pause) {
			if items = w.setAside(shard, items, unknown); len(items) == 0 {
				return
			}
			w.metrics.returns.WithLabelValues(outcomeGivenUp).Add(float64(len(items)))
			for i := range items {
				w.forget(items[i].Claim)
				w.recorded.end(items[i].Claim, outcomeGivenUp)
			}
			w.log.Error("results could not be written and are dropped; the accounts will be requeued",
				"shard", shard, "accounts", len(items), "first", items[0].Claim.ID, "error", err)
			return
		}
	}
}

// withoutMessages replaces the returns with messages, which a full Redis refuses, by unchecked
// ones. It reports whether there were any.
func (w *writer) withoutMessages(shard int, items []circulate.Return) (replaced bool) {
	for i := range items {
		it := &items[i]
		if len(it.Messages) == 0 || w.once[it.Kind] {
			continue
		}
		replaced = true
		w.metrics.putOff.WithLabelValues(accounts.RuleMemory).Inc()
		*it = unchecked(it.Claim, it.Kind, w.clocks.now().Add(w.room.pause(shard)), w.codes.Rule(accounts.RuleMemory))
	}
	return replaced
}

// unchecked returns the return of an account that stays as it was until it is due.
func unchecked(claim *circulate.Claim, kind string, due time.Time, rule circulate.Rule) circulate.Return {
	return circulate.Return{Claim: claim, Kind: kind, Due: due, Rule: rule, Failures: claim.Failures, State: claim.State}
}

// commit writes a page while the account stays claimed. If an earlier try wrote the page, the claim
// has another entry, and this try reports it as lost. While the outcome is unknown, commit tries
// again: a few times, or until the given time if that is later. tried says that an earlier try may
// have written the page.
func (w *writer) commit(claim *circulate.Claim, page circulate.Page, until time.Time) (tried bool, err error) {
	err = w.ring.Progress(w.writes, claim, page)
	for try := 0; (circulate.Unknown(err) || circulate.Unavailable(err) && !until.IsZero()) && (try < progressRetries || time.Now().Before(until)); try++ {
		if !sleep(w.writes, min(commitRetryMax, commitRetry<<min(try, 6))) {
			break
		}
		tried = tried || circulate.Unknown(err)
		err = w.ring.Progress(w.writes, claim, page)
	}
	switch {
	case err == nil:
		w.counted(page.Kind, len(page.Messages), claim.Judged)
		w.room.wrote(sizeOf(page.Messages))
	case circulate.Full(err):
		w.room.refused(claim.Shard)
	}
	return tried, err
}

// wrote counts a written batch, and schedules a look at its shard for when the first of its
// accounts is due again. After an unknown outcome, a fenced return proves nothing: an earlier try
// may have written it.
func (w *writer) wrote(shard int, items []circulate.Return, outcomes []circulate.Outcome, unknown bool) {
	first := never
	for i, outcome := range outcomes {
		item := &items[i]
		w.claims.remove(item.Claim.ID)
		if outcome != circulate.Written {
			if unknown {
				w.metrics.returns.WithLabelValues("unknown").Inc()
				w.recorded.end(item.Claim, "unknown")
			} else {
				w.metrics.returns.WithLabelValues("fenced").Inc()
				w.recorded.end(item.Claim, "fenced")
				w.claims.lose(shard) // Redis may have forgotten this claim, and others
				w.late(item)
			}
			continue
		}
		w.metrics.returns.WithLabelValues(outcomeWritten).Inc()
		w.recorded.end(item.Claim, outcomeWritten)
		w.counted(item.Kind, len(item.Messages), item.Judged)
		w.room.wrote(size(item))
		if item.Park == "" && item.Due.Before(first) {
			first = item.Due
		}
	}
	if first != never {
		w.timetable.bring(shard, w.clocks.local(first))
	}
}

// late logs that a check was not written because its claim was lost.
func (w *writer) late(item *circulate.Return) {
	if len(item.Messages) > 0 && w.once[item.Kind] {
		w.log.Error("messages are lost: the claim was lost before they were written, and the third party gives each once",
			"account", item.Claim.ID, "kind", item.Kind, "messages", len(item.Messages))
		return
	}
	w.log.Info("a check came too late and was not written", "account", item.Claim.ID, "shard", item.Claim.Shard)
}

// release releases claims. The monitors requeue claims that it cannot release.
func (w *writer) release(ctx context.Context, shard int, claims []*circulate.Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	n, err := w.ring.Release(ctx, shard, claims)
	w.metrics.released.Add(float64(n))
	w.drop(shard, claims, n)
	if err != nil {
		w.metrics.redisErrors.WithLabelValues("release").Inc()
		w.log.Warn("claims could not be released; they will be requeued", "shard", shard, "accounts", len(claims), "error", err)
	}
}

// handOver gives claims to the replicas that check their kinds. What it cannot hand over,
// reclaim finds and releases.
func (w *writer) handOver(ctx context.Context, shard int, all []circulate.HandOver) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	n, err := w.ring.Kinds().HandOver(ctx, shard, all)
	w.metrics.putOff.WithLabelValues("handed_over").Add(float64(n))
	claims := make([]*circulate.Claim, len(all))
	for i := range all {
		claims[i] = all[i].Claim
	}
	w.drop(shard, claims, n)
	if err != nil {
		w.metrics.redisErrors.WithLabelValues("hand_over").Inc()
		w.log.Debug("accounts of other kinds could not be handed over", "shard", shard, "accounts", len(all), "error", err)
	}
}

// drop takes claims off the replica's list, after it gave up the given number of them in Redis.
func (w *writer) drop(shard int, claims []*circulate.Claim, given int) {
	for _, c := range claims {
		w.claims.remove(c.ID)
	}
	if given < len(claims) {
		w.claims.lose(shard) // the replica may still have the others, which reclaim looks for
	}
}

// forget drops a claim whose entry is unknown. After a lost reply the replica may still have the
// account under another entry, which reclaim looks for.
func (w *writer) forget(claim *circulate.Claim) {
	w.claims.remove(claim.ID)
	w.claims.lose(claim.Shard)
}

// counted counts the messages of a page that was written, and what memory had to say about them.
func (w *writer) counted(kind string, messages int, judged circulate.Judged) {
	if judged.Repeated > 0 {
		w.metrics.repeated.WithLabelValues(kind).Add(float64(judged.Repeated))
	}
	if judged.Overrun {
		w.metrics.overruns.WithLabelValues(kind).Inc()
	}
	if messages -= judged.Repeated; messages > 0 {
		w.metrics.messages.WithLabelValues(kind).Add(float64(messages))
		w.tally.found(messages)
	}
}

const (
	asideBytes = 64 << 20  // of pages that are set aside; for more, the writer waits
	asideLong  = time.Hour // for which a page is tried; its claim was lost long before
)

// aside has pages that Redis does not take now, and that no third party gives again. It
// tries to write each until the outcome is known, independently of other writes.
type aside struct {
	mu    sync.Mutex
	bytes int
	tries sync.WaitGroup
}

// take reserves some bytes, unless that would be too many.
func (a *aside) take(bytes int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bytes > 0 && a.bytes+bytes > asideBytes {
		return false
	}
	a.bytes += bytes
	return true
}

func (a *aside) give(bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes -= bytes
}

// setAside takes the returns whose messages nobody gives again out of a batch, and goes on trying
// to write them. It returns the others. unknown says that an earlier try may have written them.
func (w *writer) setAside(shard int, items []circulate.Return, unknown bool) []circulate.Return {
	left := items[:0:0]
	for i := range items {
		bytes := size(&items[i])
		if len(items[i].Messages) == 0 || !w.once[items[i].Kind] || !w.aside.take(bytes) {
			left = append(left, items[i])
			continue
		}
		w.aside.tries.Go(func() {
			defer w.aside.give(bytes)
			w.tryOn(shard, items[i:i+1:i+1], unknown)
		})
	}
	return left
}

// tryOn writes a page that was set aside.
func (w *writer) tryOn(shard int, items []circulate.Return, unknown bool) {
	until, cancel := context.WithTimeout(w.writes, asideLong)
	defer cancel()
	for try := 0; sleep(until, min(commitRetryMax, commitRetry<<min(try, 6))); try++ {
		outcomes, err := w.ring.Return(w.writes, shard, items)
		if err == nil {
			w.wrote(shard, items, outcomes, unknown)
			return
		}
		w.metrics.redisErrors.WithLabelValues("return").Inc()
		unknown = unknown || circulate.Unknown(err)
	}
	w.metrics.returns.WithLabelValues(outcomeGivenUp).Inc()
	w.forget(items[0].Claim)
	w.recorded.end(items[0].Claim, outcomeGivenUp)
	w.log.Error("messages are lost: Redis did not take them, and the third party gives each once",
		"account", items[0].Claim.ID, "kind", items[0].Kind, "shard", shard, "messages", len(items[0].Messages))
}
