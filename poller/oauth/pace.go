package oauth

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
)

const (
	paceEvery = 100 * time.Millisecond // between two requests of a process to a provider
	paceBurst = 10                     // requests that may come at once after a quiet time
	paceWait  = 2 * time.Second        // how long a request waits for its turn

	expiryMargin  = 30 * time.Second // before a token expires: it is no longer used
	refreshMargin = 5 * time.Minute  // before that: the next one is fetched, at the latest
)

// paces bound how often a process asks each provider for a token.
type paces struct {
	mu sync.Mutex
	of map[string]*pace
}

// pace is one provider's. The times are when the next request may begin, and when the next of those
// that were turned away may come again.
type pace struct{ next, again time.Time }

// turn returns how long a request has to wait for its turn. If that is longer than paceWait, ok is
// false, the request has no turn, and wait is when to ask for one again: those who are turned away
// come one after the other.
func (p *paces) turn(provider string, now time.Time) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[string]*pace)
	}
	of := p.of[provider]
	if of == nil {
		if len(p.of) >= mostIssuers {
			clear(p.of)
		}
		of = &pace{}
		p.of[provider] = of
	}
	if earliest := now.Add(-(paceBurst - 1) * paceEvery); of.next.Before(earliest) {
		of.next = earliest
	}
	if wait = of.next.Sub(now); wait <= paceWait {
		of.next = of.next.Add(paceEvery)
		return max(0, wait), true
	}
	if of.again.Before(of.next) {
		of.again = of.next
	}
	of.again = of.again.Add(paceEvery)
	return of.again.Sub(now), false
}

// lifeOf returns how long an account's token is used, and after what time the next one is fetched:
// somewhere in the second half of its life, by a hash of the account, so that accounts that were
// signed in or started together do not ask together for ever.
func lifeOf(account string, life time.Duration) (use, refresh time.Duration) {
	use = max(life-expiryMargin, life/2, time.Second)
	latest := use - min(refreshMargin, use/4)
	sum := sha256.Sum256([]byte(account))
	share := float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
	return use, max(time.Millisecond, use/2+time.Duration(share*float64(latest-use/2)))
}
