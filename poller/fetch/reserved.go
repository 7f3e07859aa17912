package fetch

import (
	"net"
	"net/netip"
	"sync"
)

// maxReserved is the most addresses that are stored: far more than a service has.
const maxReserved = 4096

// Reserved are addresses with a port that belong to the service itself, such as its Redis. Clients
// refuse them, unless Networks name exactly this address and port. It is safe for concurrent use.
// The nil Reserved has none.
type Reserved struct {
	mu    sync.Mutex
	ports map[uint16]map[netip.Addr]bool
	count int
}

// Add reserves an address. It ignores addresses that are not TCP.
func (r *Reserved) Add(addr net.Addr) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || r == nil {
		return
	}
	at := tcp.AddrPort()
	host := at.Addr().Unmap().WithZone("")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ports[at.Port()][host] || r.count >= maxReserved {
		return
	}
	if r.ports == nil {
		r.ports = make(map[uint16]map[netip.Addr]bool)
	}
	if r.ports[at.Port()] == nil {
		r.ports[at.Port()] = make(map[netip.Addr]bool)
	}
	r.ports[at.Port()][host] = true
	r.count++
}

// holds reports whether an address and port are reserved. A port that is reserved at one of this
// machine's addresses is reserved at all of them, because Redis may listen on each.
func (r *Reserved) holds(addr netip.Addr, port uint16) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	reserved := r.ports[port]
	if len(reserved) == 0 || reserved[addr] || !ownAddress(addr) {
		return reserved[addr]
	}
	for other := range reserved {
		if ownAddress(other) {
			return true
		}
	}
	return false
}

// ownAddress reports whether an address belongs to this machine. Connecting to 0.0.0.0 or ::
// reaches loopback.
func ownAddress(addr netip.Addr) bool {
	if addr.IsLoopback() || addr.IsUnspecified() {
		return true
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true // the machine's addresses are unknown, so only the port decides
	}
	for _, one := range all {
		if at, ok := one.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(at.IP); ok && own.Unmap() == addr {
				return true
			}
		}
	}
	return false
}
