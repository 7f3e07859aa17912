package fetch

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// Rule says which addresses may be reached: those on the public internet, and others that
// its fields allow. The zero Rule is safe and usable.
//
// Link-local addresses and those of cloud metadata are reached only if an entry of
// Networks lies within their range, such as 169.254.169.254 or 169.254.0.0/16. Neither
// Private, nor a wider network, nor a host's name allows them.
type Rule struct {
	Private  bool      // any address, for trusted records only
	Networks Networks  // these too
	Reserved *Reserved // never these, unless Networks have just this address and port; may be nil
}

// guarded returns the ranges that must be named to be reached. In these, clouds and hosts
// return credentials to anybody who asks.
func guarded() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("169.254.0.0/16"),         // link-local, metadata of most clouds
		netip.MustParsePrefix("fe80::/10"),              // link-local
		netip.MustParsePrefix("fd00:ec2::254/128"),      // AWS
		netip.MustParsePrefix("fd00:ec2::23/128"),       // AWS, containers
		netip.MustParsePrefix("fd20:ce::254/128"),       // Google Cloud
		netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // Oracle Cloud
		netip.MustParsePrefix("fd00:42::42/128"),        // Scaleway
		netip.MustParsePrefix("100.100.100.200/32"),     // Alibaba Cloud
		netip.MustParsePrefix("168.63.129.16/32"),       // Azure
		netip.MustParsePrefix("192.0.0.192/32"),         // Oracle Cloud
	}
}

// permits reports whether an address may be dialled. Name is the host's name that resolved
// to it, or empty. Port 0 stands for a port that is not known yet.
func (r Rule) permits(addr netip.Addr, port uint16, name string) bool {
	addr = addr.WithZone("").Unmap()
	if r.Reserved.holds(addr, port) && !r.Networks.exactly(addr, port) {
		return false
	}
	for _, guard := range guarded() {
		if guard.Contains(addr) || guard.Contains(carried(addr)) {
			return r.Networks.pierce(guard, addr, port) || r.Networks.pierce(guard, carried(addr), port)
		}
	}
	return r.Private || public(addr) || r.Networks.contain(addr, port) || name != "" && r.Networks.name(name, port)
}

// carried returns the IPv4 address that an IPv6 address stands for in networks that
// translate, or else the address itself.
func carried(addr netip.Addr) netip.Addr {
	bytes := addr.As16()
	switch {
	case addr.Is4():
	case nat64.Contains(addr), localNAT64.Contains(addr), compatible.Contains(addr):
		return netip.AddrFrom4([4]byte(bytes[12:]))
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	return addr
}

// Validate checks a URL as Client.Validate does.
func (r Rule) Validate(raw string) error {
	parsed, err := url.Parse(raw)
	if err != nil {
		return ErrURL // its own error would quote the URL
	}
	if err := checkURL(parsed); err != nil {
		return err
	}
	if addr, ok := addrOf(parsed.Hostname()); ok && !r.permits(addr, portOf(parsed), "") {
		return ErrPrivate
	}
	return nil
}

// validateHost checks a host as Client.ValidateHost does.
func (r Rule) validateHost(host string) error {
	if addr, ok := addrOf(host); ok {
		if addr.Zone() != "" || !r.permits(addr, 0, "") {
			return ErrPrivate
		}
		return nil
	}
	bad := func(char rune) bool {
		return unicode.IsSpace(char) || unicode.IsControl(char) || strings.ContainsRune(`:/\@?#[]%`, char)
	}
	if host == "" || len(host) > 253 || strings.ContainsFunc(host, bad) {
		return ErrHost
	}
	return nil
}

// judge judges the host of a URL that a proxy will resolve. An address is judged as if it
// were dialled. Of names, only those with a fixed meaning are judged.
func (r Rule) judge(u *url.URL) error {
	host := u.Hostname()
	if addr, ok := addrOf(host); ok {
		if !r.permits(addr, portOf(u), "") {
			return refusal{addr}
		}
		return nil
	}
	if disguised(host) || isLocalhost(host) && !r.Private && !r.Networks.name(host, portOf(u)) {
		return ErrRefusedAddress
	}
	return nil
}

// addrOf returns the address that a host is, and false for a name. It makes no error for a name, as
// the hosts of nearly all checks are.
func addrOf(host string) (netip.Addr, bool) {
	if host == "" || !strings.Contains(host, ":") && !digits(host[len(host)-1:]) {
		return netip.Addr{}, false // an IPv4 address ends with a digit, an IPv6 address has a colon
	}
	addr, err := netip.ParseAddr(host)
	return addr, err == nil
}

// isLocalhost reports whether a name means this machine everywhere (RFC 6761).
func isLocalhost(host string) bool {
	name := plainName(host)
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// portOf returns the port of a URL.
func portOf(u *url.URL) uint16 {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}
