package fetch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	nameKept    = 30 * time.Second // how long a name's addresses are remembered
	nameUnknown = 2 * time.Second  // the same if there is no such name: it may appear soon
	namesKept   = 8192
)

// names remembers names' addresses for a short time, so that many calls of a host that closes its
// connections do not look up its name each time. What it remembers is no permission: each dial
// judges the address, see Rule.guard.
type names struct {
	resolver *net.Resolver

	mu    sync.Mutex
	known map[string]named
}

// named is what is known about a name: its addresses, or that there is no such name.
type named struct {
	addresses []netip.Addr
	missing   *net.DNSError
	until     time.Time
}

func newNames(resolver *net.Resolver) *names {
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	return &names{resolver: resolver, known: make(map[string]named)}
}

// of returns the addresses of a name, in the order in which to try them. The caller must not change
// them.
func (n *names) of(ctx context.Context, name string) ([]netip.Addr, error) {
	if known, ok := n.remembered(name, time.Now()); ok {
		if known.missing != nil {
			return nil, known.missing
		}
		return known.addresses, nil
	}
	addresses, err := n.resolver.LookupNetIP(ctx, "ip", name)
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	now := time.Now()
	var failed *net.DNSError
	switch {
	case err == nil && len(addresses) > 0:
		n.remember(name, named{addresses: addresses, until: now.Add(nameKept)}, now)
	case errors.As(err, &failed) && failed.IsNotFound && ctx.Err() == nil:
		n.remember(name, named{missing: failed, until: now.Add(nameUnknown)}, now)
	case err == nil:
		err = &net.DNSError{Err: "no address", Name: name, IsNotFound: true}
	}
	return addresses, err
}

func (n *names) remembered(name string, now time.Time) (named, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok := n.known[name]
	return known, ok && now.Before(known.until)
}

// remember stores what is known about a name. If there are too many names, it first drops outdated
// ones, or else any.
func (n *names) remember(name string, known named, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, again := n.known[name]; !again && len(n.known) >= namesKept {
		for other, of := range n.known {
			if !now.Before(of.until) {
				delete(n.known, other)
			}
		}
		for other := range n.known {
			if len(n.known) < namesKept {
				break
			}
			delete(n.known, other)
		}
	}
	n.known[name] = known
}
