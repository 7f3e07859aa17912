package poller

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// peers is what a replica knows of the others that live: which kinds they check. It is
// read anew when a replica comes or goes, so that it costs nothing while none does.
type peers struct {
	ring  *circulate.Ring
	self  string
	kinds []string // that this replica checks, sorted

	mu     sync.Mutex
	alive  []string        // when it was read, sorted
	same   []string        // of them, those that check the same kinds, or do not say which
	others map[string]bool // the kinds that others of them check

	different map[string]bool // those that check other kinds
}

func newPeers(ring *circulate.Ring, self string, kinds []string) *peers {
	return &peers{ring: ring, self: self, kinds: kinds}
}

// among returns those of the living replicas that this one shares the shards with: those
// that check the same kinds. A shard is of one part among them, so that each kind has a
// replica that looks at it first. Gone reports that one which checks other kinds has left:
// what it would have claimed next is in shards that no other replica has looked at.
func (p *peers) among(ctx context.Context, alive []string) (same []string, gone bool, err error) {
	alive = slices.Sorted(slices.Values(alive))
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Equal(alive, p.alive) {
		return slices.Clone(p.same), false, nil
	}
	before, different := p.different, make(map[string]bool)
	p.alive = nil // it is read again at the next heartbeat, should this fail
	replicas, _, err := p.ring.Replicas(ctx)
	if err != nil {
		return alive, false, err
	}
	others := make(map[string]bool)
	for _, r := range replicas {
		if r.Name == p.self || !slices.Contains(alive, r.Name) {
			continue
		}
		var report accounts.Report
		if json.Unmarshal(r.Report, &report) != nil {
			report.Kinds = nil
		}
		if len(report.Kinds) == 0 || slices.Equal(report.Kinds, p.kinds) {
			same = append(same, r.Name)
		} else {
			different[r.Name] = true
		}
		for _, kind := range report.Kinds {
			others[kind] = true
		}
	}
	p.alive, p.same, p.different, p.others = alive, same, different, others
	for name := range before {
		gone = gone || !different[name]
	}
	return slices.Clone(same), gone, nil
}

// check reports whether another living replica checks a kind, and accounts can wait for
// it.
func (p *peers) check(kind string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.others[kind] && circulate.WaitsByKind(kind)
}

// passOn hands the accounts over that only other replicas check, and returns the rest.
func (c *claimer) passOn(ctx context.Context, shard int, claimed []*flight) []*flight {
	var others []circulate.HandOver
	rest := claimed[:0:len(claimed)]
	for _, f := range claimed {
		if kind := f.record.account.Kind; f.record.reason == reasonKind && c.peers.check(kind) {
			others = append(others, circulate.HandOver{Claim: f.claim, Kind: kind})
			continue
		}
		rest = append(rest, f)
	}
	if len(others) > 0 {
		c.writer.handOver(ctx, shard, others)
	}
	return rest
}
