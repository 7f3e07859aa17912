package fetch

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// ErrRefusedAddress reports an address that the client's Rule does not allow. For a name that
// resolves only to such addresses, the error is the one for a name without an address, so that
// nobody learns which names exist inside a network.
var ErrRefusedAddress = errors.New("refused address")

// refused lists the networks that IANA's special-purpose registries keep off the public
// internet. Of IPv6 only 2000::/3 is assigned, so only exceptions within it are listed.
var refused = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("10.0.0.0/8"),      // private
	netip.MustParsePrefix("100.64.0.0/10"),   // carrier-grade NAT
	netip.MustParsePrefix("127.0.0.0/8"),     // loopback
	netip.MustParsePrefix("169.254.0.0/16"),  // link-local, cloud metadata
	netip.MustParsePrefix("172.16.0.0/12"),   // private
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays
	netip.MustParsePrefix("192.168.0.0/16"),  // private
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("224.0.0.0/4"),     // multicast
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, broadcast
	netip.MustParsePrefix("2001::/23"),       // protocol assignments, Teredo
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("2002::/16"),       // 6to4: holds any IPv4 address
	netip.MustParsePrefix("3fff::/20"),       // documentation
}

var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()

	globalIPv6 = netip.MustParsePrefix("2000::/3")
	// nat64 is the prefix by which networks without IPv4 reach IPv4 hosts. Such an address
	// counts as the IPv4 address in its last four bytes.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// localNAT64, compatible and sixToFour hold IPv4 addresses too. They are not public.
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
	compatible = netip.MustParsePrefix("::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
)

// public reports whether an address is on the public internet, so that strangers may name
// it.
func public(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	if nat64.Contains(addr) {
		bytes := addr.As16()
		addr = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	if addr.Is6() && !globalIPv6.Contains(addr) {
		return false
	}
	return addr.IsValid() && !slices.ContainsFunc(refused, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

// guard returns the dialer's hook between name resolution and connect, for the requested host.
func (r Rule) guard(host string) func(network, address string, _ syscall.RawConn) error {
	name := host
	if _, ok := addrOf(host); ok {
		name = ""
	}
	return func(network, address string, _ syscall.RawConn) error {
		target, err := netip.ParseAddrPort(address)
		if err == nil && (network == "tcp4" || network == "tcp6") && r.permits(target.Addr(), target.Port(), name) {
			return nil
		}
		if name != "" && !isLocalhost(name) && !disguised(name) {
			return noAddress() // must not tell strangers what a name resolves to here
		}
		return refusal{target.Addr(), r.cureFor(host, target.Port())}
	}
}

// refusal is an ErrRefusedAddress with the address. It is only for addresses that were in the URL
// itself, so it tells the URL's author nothing new.
type refusal struct {
	addr netip.Addr
	cure
}

// Error names the refused address.
func (e refusal) Error() string {
	if !e.addr.IsValid() {
		return ErrRefusedAddress.Error() + e.allowedBy()
	}
	return fmt.Sprintf("%v: %v is not among those that may be reached", ErrRefusedAddress, e.addr.WithZone("")) + e.allowedBy()
}

// Is makes it an ErrRefusedAddress.
func (e refusal) Is(target error) bool { return target == ErrRefusedAddress }
