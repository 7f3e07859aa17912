package poller

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// commit writes a batch of returns, however long Redis is away, until the claims
// are not ours any more. To repeat is safe: what an earlier try wrote shows as
// fenced.
func (p *Pool) commit(shard int, items []circulate.Return) { p.commitAgain(shard, items, false) }

// commitAgain is commit of what may have been written by a try of unknown outcome.
func (p *Pool) commitAgain(shard int, items []circulate.Return, unknown bool) {
	giveUp := time.Now().Add(p.config.LongTimeout)
	for try := 0; ; try++ {
		outcomes, err := p.ring.Return(p.commits, shard, items)
		if err == nil {
			p.committed(shard, items, outcomes, unknown)
			return
		}
		p.metrics.redisErrors.WithLabelValues("return").Inc()
		unknown = unknown || circulate.Unknown(err)
		if circulate.Full(err) {
			p.room.refused(shard)
			if p.withoutMessages(shard, items) {
				continue
			}
		}
		if !circulate.Unavailable(err) && !circulate.Denied(err) && len(items) > 1 {
			// Redis serves and refuses this batch: find out for which of them.
			for i := range items {
				p.commitAgain(shard, items[i:i+1], unknown)
			}
			return
		}
		pause := min(commitRetryMax, commitRetry<<min(try, 6))
		refused := !circulate.Unavailable(err) && !circulate.Denied(err) && try >= 3
		if refused || time.Now().Add(pause).After(giveUp) || !sleep(p.commits, pause) {
			p.metrics.returns.WithLabelValues("given_up").Add(float64(len(items)))
			for i := range items {
				p.holding.remove(items[i].Claim.ID)
			}
			p.holding.lose(shard)
			p.log.Error("results could not be written and are dropped; the accounts will be requeued",
				"shard", shard, "accounts", len(items), "first", items[0].Claim.ID, "error", err)
			return
		}
	}
}

// committed counts a written batch and has its shard looked at when the first
// of its accounts is due again. After an unknown outcome fenced says nothing: it
// may have been ourselves who wrote.
func (p *Pool) committed(shard int, items []circulate.Return, outcomes []circulate.Outcome, unknown bool) {
	first := never
	for i, outcome := range outcomes {
		item := &items[i]
		p.holding.remove(item.Claim.ID)
		if outcome != circulate.Written {
			if unknown {
				p.metrics.returns.WithLabelValues("unknown").Inc()
			} else {
				p.metrics.returns.WithLabelValues("fenced").Inc()
				p.holding.lose(shard) // the claim may have been forgotten, and others like it
				p.log.Info("a check came too late and was not written", "account", item.Claim.ID, "shard", shard)
			}
			continue
		}
		p.metrics.returns.WithLabelValues("written").Inc()
		p.counted(item.Kind, len(item.Messages))
		p.room.wrote(size(item))
		if item.Park == "" && item.Due.Before(first) {
			first = item.Due
		}
	}
	if first != never {
		p.timetable.bring(shard, p.local(first))
	}
}

// release gives claims back unchecked. What cannot be given back is requeued by
// the monitor.
func (p *Pool) release(ctx context.Context, shard int, claims []*circulate.Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	n, err := p.ring.Release(ctx, shard, claims)
	p.metrics.released.Add(float64(n))
	for _, c := range claims {
		p.holding.remove(c.ID)
	}
	if n < len(claims) {
		p.holding.lose(shard) // what is not known to be free may be held
	}
	if err != nil {
		p.metrics.redisErrors.WithLabelValues("release").Inc()
		p.log.Warn("claims could not be released; they will be requeued", "shard", shard, "accounts", len(claims), "error", err)
	}
}
