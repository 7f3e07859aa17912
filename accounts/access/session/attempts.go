package session

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

// Attempts limits how many sign-ins from one address may fail. Each process counts for
// itself, in memory. Behind a proxy all callers have the same address.
type Attempts struct {
	mu     sync.Mutex
	failed map[string]time.Time // by address: when all its attempts are available again
	swept  time.Time            // when addresses with all attempts available were last removed
}

// Wait returns how long an address must wait before it may try to sign in, or 0.
func (a *Attempts) Wait(address string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.failed[a.known(address)]
	if !ok {
		return 0
	}
	return max(0, until.Sub(now)-(attemptsAtOnce-1)*attemptEvery)
}

// Fail counts a sign-in that failed.
func (a *Attempts) Fail(address string, now time.Time) {
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
	a.failed[address] = from.Add(attemptEvery)
}

// known returns the address under which attempts are counted. It is empty, and shared, for
// addresses that exceed maxAddresses. The caller holds mu.
func (a *Attempts) known(address string) string {
	if _, ok := a.failed[address]; ok || len(a.failed) < maxAddresses {
		return address
	}
	return ""
}

// AddressOf returns the address that a request comes from, without the port. For IPv6 it is
// the /64 network, which usually belongs to a single customer.
func AddressOf(r *http.Request) string {
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
