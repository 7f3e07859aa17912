package session

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// attemptsAtOnce is how many sign-ins of an address may fail one after the other, and
	// attemptEvery after how long it may fail once more.
	attemptsAtOnce = 10
	attemptEvery   = 6 * time.Second
	// maxAddresses is how many addresses are remembered. Further ones count as one.
	maxAddresses = 10_000
)

// Attempts bounds how often sign-ins fail, by the address that they come from: in this
// process, with what is in its memory. Behind a proxy all callers have one address.
type Attempts struct {
	mu     sync.Mutex
	failed map[string]time.Time // by address: when it will have as many attempts as at first
	swept  time.Time            // when those were last looked for that have as many again
}

// Wait returns for how long an address is not to try; 0: it may.
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

// known is the address, or that of all whom there is no room for. The caller holds mu.
func (a *Attempts) known(address string) string {
	if _, ok := a.failed[address]; ok || len(a.failed) < maxAddresses {
		return address
	}
	return ""
}

// AddressOf is the address that a request comes from, of IPv6 the network of a single
// customer.
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
