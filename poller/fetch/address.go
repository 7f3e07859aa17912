package fetch

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// ErrRefusedAddress reports an address that is not on the public internet.
var ErrRefusedAddress = errors.New("refused address")

// refused lists what IANA's special-purpose registries keep off the public
// internet. Of IPv6 only 2000::/3 is handed out, so only holes in it are listed.
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
	globalIPv6 = netip.MustParsePrefix("2000::/3")
	// nat64 is how networks without IPv4 reach all of it: an address counts as
	// the IPv4 address in its last four bytes.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// public reports whether an address is one that strangers may send us to.
func public(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	if nat64.Contains(addr) {
		bytes := addr.As16()
		addr = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	if addr.Is6() && !globalIPv6.Contains(addr) {
		return false
	}
	for _, prefix := range refused {
		if prefix.Contains(addr) {
			return false
		}
	}
	return addr.IsValid()
}

// allowed reports whether the client may connect to an address.
func (c *Client) allowed(addr netip.Addr) bool {
	if c.options.AllowPrivate || public(addr) {
		return true
	}
	for _, prefix := range c.options.Allow {
		if prefix.Contains(addr.WithZone("").Unmap()) {
			return true
		}
	}
	return false
}

// control is the dialer's hook between name resolution and connect.
func (c *Client) control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return ErrRefusedAddress
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil || !c.allowed(target.Addr()) {
		return refusedAddress(target.Addr())
	}
	return nil
}

func refusedAddress(addr netip.Addr) error {
	if !addr.IsValid() {
		return ErrRefusedAddress
	}
	return &addressError{addr}
}

// addressError is an ErrRefusedAddress that knows the address.
type addressError struct{ addr netip.Addr }

func (e *addressError) Error() string {
	return fmt.Sprintf("%v: %v is not on the public internet", ErrRefusedAddress, e.addr.WithZone(""))
}

func (e *addressError) Is(target error) bool { return target == ErrRefusedAddress }
