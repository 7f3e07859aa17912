package poller

import (
	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// withRoom are the flights of one shard where Redis has room for what they may find.
// Otherwise all go back unchecked; that is no failure.
func (p *Pool) withRoom(shard int, flights []*flight) []*flight {
	if !p.room.short(shard) {
		return flights
	}
	for _, f := range flights {
		f.putBack(accounts.RuleMemory, f.now().Add(p.room.pause(shard)))
	}
	return flights[:0]
}

// unwritten gives the account back as it was before the page: Redis has no room for
// what it brought, and the next check finds that again.
func (f *flight) unwritten() {
	if !f.settledBy(settledBySelf) {
		return
	}
	p := f.pool
	f.putBack(accounts.RuleMemory, f.now().Add(p.room.pause(f.claim.Shard)))
	p.running.remove(f)
	f.cleared()
	p.places.give(1)
}

// withoutMessages makes unchecked ones of those returns that a full Redis does not
// take, and reports whether there are any.
func (p *Pool) withoutMessages(shard int, items []circulate.Return) bool {
	any := false
	for i := range items {
		it := &items[i]
		if len(it.Messages) == 0 {
			continue
		}
		any = true
		p.metrics.putBack.WithLabelValues(accounts.RuleMemory).Inc()
		*it = circulate.Return{
			Claim: it.Claim, Kind: it.Kind, Due: p.serverNow().Add(p.room.pause(shard)), Rule: p.letters.Rule(accounts.RuleMemory),
			Failures: it.Claim.Failures, State: it.Claim.State,
		}
	}
	return any
}
