package poller

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// peers knows which kinds the other living replicas check. It reads Redis only when a
// replica has started or stopped.
type peers struct {
	ring  *circulate.Ring
	self  string
	kinds []string // that this replica checks, sorted

	mu     sync.Mutex
	alive  []string        // as of the last read, sorted
	same   []string        // the living replicas that check the same kinds, or do not say which
	others map[string]bool // the kinds that the other living replicas check

	different map[string]bool // the living replicas that check other kinds
	stopping  map[string]bool // the living replicas that claim no more
}

func newPeers(ring *circulate.Ring, self string, kinds []string) *peers {
	return &peers{ring: ring, self: self, kinds: kinds, stopping: make(map[string]bool)}
}

// among returns the living replicas with which this one shares the shards: those that check the
// same kinds, or do not say which, and are not stopping. Each shard belongs to one of these
// replicas, so each kind has a replica that looks at the shard first. gone reports that a replica
// which checks other kinds is gone. The accounts that it would have claimed next may be in shards
// that no other replica has looked at. among is called by one goroutine.
func (p *peers) among(ctx context.Context, alive []string) (same []string, gone bool, err error) {
	alive = slices.Sorted(slices.Values(alive))
	p.mu.Lock()
	if slices.Equal(alive, p.alive) {
		defer p.mu.Unlock()
		return p.sharingLocked(), false, nil
	}
	maps.DeleteFunc(p.stopping, func(name string, _ bool) bool { return !slices.Contains(alive, name) })
	p.alive = nil // if the read fails, the next heartbeat reads again
	// A goroutine that learns of a stopping replica must not wait for this call: a Redis inside the
	// process answers the call only when all have learnt of it.
	p.mu.Unlock()
	replicas, _, err := p.ring.Replicas(ctx)
	if err != nil {
		return alive, false, err
	}
	different := make(map[string]bool)
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
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.different {
		gone = gone || !different[name]
	}
	p.alive, p.same, p.different, p.others = alive, same, different, others
	return p.sharingLocked(), gone, nil
}

// stopped notes that another replica claims no more. It returns the replicas that share the shards
// from now on, or false if the stopped replica shared none.
func (p *peers) stopped(name string) (same []string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name == p.self || !slices.Contains(p.same, name) {
		return nil, false
	}
	p.stopping[name] = true
	return p.sharingLocked(), true
}

func (p *peers) sharingLocked() []string {
	return slices.DeleteFunc(slices.Clone(p.same), func(name string) bool { return p.stopping[name] })
}

// check reports whether another living replica checks a kind, and the ring lets accounts wait by
// kind.
func (p *peers) check(kind string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.others[kind] && circulate.WaitsByKind(kind)
}

// passOn hands over the accounts whose kinds only other replicas check, and returns the rest.
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
