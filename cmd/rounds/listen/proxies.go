package listen

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the proxies in front of a listener that are trusted to name a request's origin. The
// zero Proxies are none.
type Proxies struct {
	networks []netip.Prefix
	unix     bool
}

// ParseProxies reads networks and addresses, separated by commas. "unix" stands for all callers of
// a unix socket. The error lists every fault.
func ParseProxies(text string) (Proxies, error) {
	var p Proxies
	var errs []error
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		if one == "" {
			if strings.TrimSpace(text) != "" {
				errs = append(errs, errors.New("must have no empty entry"))
			}
			continue
		}
		if one == Unix {
			p.unix = true
			continue
		}
		network, err := netip.ParsePrefix(one)
		if err != nil {
			var addr netip.Addr
			if addr, err = netip.ParseAddr(one); err == nil {
				addr = addr.Unmap().WithZone("")
				network = netip.PrefixFrom(addr, addr.BitLen())
			}
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%q: must be an address, a network such as 10.1.0.0/16, or unix", one))
		case network.Masked() != network:
			errs = append(errs, fmt.Errorf("%q has bits beyond its length: is it %s?", one, network.Masked()))
		default:
			p.networks = append(p.networks, network)
		}
	}
	return p, errors.Join(errs...)
}

// Caller returns where a request comes from, in the form of its RemoteAddr: the nearest address
// that is not a trusted proxy's. Each trusted proxy has appended the address that it saw to
// X-Forwarded-For. Everything before the nearest other address may be forged, and is not read.
func (p Proxies) Caller(r *http.Request) string {
	at := r.RemoteAddr
	peer, err := netip.ParseAddrPort(at)
	if err == nil && !p.trusts(peer.Addr()) || err != nil && (at != Unix || !p.unix) {
		return at
	}
	for _, line := range slices.Backward(r.Header.Values("X-Forwarded-For")) {
		for more := true; more; {
			var one string
			i := strings.LastIndexByte(line, ',')
			if one, more = strings.TrimSpace(line[i+1:]), i >= 0; more {
				line = line[:i]
			}
			addr, ok := parseForwarded(one)
			if !ok {
				return at
			}
			if at = netip.AddrPortFrom(addr, 0).String(); !p.trusts(addr) {
				return at
			}
		}
	}
	return at
}

// parseForwarded reads an entry of X-Forwarded-For: an address, which may have a port.
func parseForwarded(text string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	addrPort, err := netip.ParseAddrPort(text)
	return addrPort.Addr().Unmap().WithZone(""), err == nil
}

func (p Proxies) trusts(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(p.networks, func(network netip.Prefix) bool { return network.Contains(addr) })
}
