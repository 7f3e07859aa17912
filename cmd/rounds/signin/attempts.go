package signin

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// attemptsAtOnce is how many sign-ins of an address may fail in a burst. attemptEvery is
	// how long it takes until it may fail once more.
	attemptsAtOnce = 10
	attemptEvery   = 6 * time.Second
	// maxAddresses is how many addresses are remembered. All further ones share one limit.
	maxAddresses = 10_000
)

// Attempts limits how many sign-ins from one address may fail before further failing ones are
// turned away. It does not affect successful ones. Each process counts for itself, in memory.
type Attempts struct {
	mu     sync.Mutex
	failed map[string]time.Time // by address: when all its attempts are available again
	swept  time.Time            // when addresses with all attempts available were last removed
}

// Fail counts a sign-in that failed, and returns 0. If too many from the address failed
// before, it counts nothing, and returns how long it takes until one more may fail.
func (a *Attempts) Fail(address string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed == nil {
		a.failed = make(map[string]time.Time)
	}
	if _, ok := a.failed[address]; !ok && len(a.failed) >= maxAddresses && now.Sub(a.swept) >= attemptEvery {
		a.swept = now
		for other, at := range a.failed {
			if !at.After(now) {
				delete(a.failed, other)
			}
		}
	}
	address = a.known(address)
	from := a.failed[address]
	if from.Before(now) {
		from = now
	}
	if wait := from.Sub(now) - (attemptsAtOnce-1)*attemptEvery; wait > 0 {
		return wait
	}
	a.failed[address] = from.Add(attemptEvery)
	return 0
}

// known returns the address under which attempts are counted. It is empty, and shared, for
// addresses that exceed maxAddresses. The caller holds mu.
func (a *Attempts) known(address string) string {
	if _, ok := a.failed[address]; ok || len(a.failed) < maxAddresses {
		return address
	}
	return ""
}

// addressOf returns the address that a request comes from, without the port. Behind a proxy
// that is not trusted, that is the proxy's address. For IPv6 it is
// the /64 network, which usually belongs to a single customer.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() {
		if network, err := ip.Prefix(64); err == nil {
			return network.String()
		}
	}
	return ip.String()
}
