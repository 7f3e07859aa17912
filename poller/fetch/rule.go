package fetch

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/rounds-dev/rounds/poller"
)

// Rule says which addresses may be reached: those on the public internet, and others that
// its fields allow. The zero Rule is safe and usable.
//
// Link-local addresses and cloud metadata addresses are reached only if an entry of
// Networks lies within their range, such as 169.254.169.254 or 169.254.0.0/16. Neither
// Private, nor a wider network, nor a host's name allows them.
type Rule struct {
	Private  bool      // any address, for trusted records only
	Networks Networks  // these addresses too
	Reserved *Reserved // never these, unless Networks have just this address and port; may be nil
	Program  string    // the program that errors say needs a setting to reach an address; empty: rounds serve
}

// guarded returns the ranges that must be named to be reached. In these ranges, clouds and hosts
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

// guardOf returns the guarded range of an address, or of the IPv4 address that it stands for.
func guardOf(addr netip.Addr) (netip.Prefix, bool) {
	for _, guard := range guarded() {
		if guard.Contains(addr) || guard.Contains(carried(addr)) {
			return guard, true
		}
	}
	return netip.Prefix{}, false
}

// permits reports whether an address may be dialled. name is the host name that resolved to it, or
// empty. Port 0 stands for a port that is not known yet.
func (r Rule) permits(addr netip.Addr, port uint16, name string) bool {
	addr = addr.WithZone("").Unmap()
	if r.Reserved.holds(addr, port) && !r.Networks.exactly(addr, port) {
		return false
	}
	if guard, ok := guardOf(addr); ok {
		return r.Networks.pierce(guard, addr, port) || r.Networks.pierce(guard, carried(addr), port)
	}
	return r.Private || public(addr) || r.Networks.contain(addr, port) || name != "" && r.Networks.name(name, port)
}

// carried returns the IPv4 address that an IPv6 address stands for in networks that
// translate. Otherwise it returns the address itself.
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
	return r.validateAddr(parsed.Hostname(), portOf(parsed))
}

// validateAddr checks a host that is an address, or a name of this machine. Port 0 stands for any.
func (r Rule) validateAddr(host string, port uint16) error {
	addr, ok := addrOf(host)
	switch {
	case ok && !r.permits(addr, port, ""), !ok && isLocalhost(host) && !r.permits(loopback4, port, host) && !r.permits(loopback6, port, host):
		return private{r.cureFor(host, port)}
	}
	return nil
}

// entryFor returns the entry of Networks that would allow a refused host. It is empty for
// a guarded or reserved address, and for a name that resolvers read as a number: no message should
// advise to allow them.
func (r Rule) entryFor(host string, port uint16) string {
	addrs := []netip.Addr{loopback4, loopback6} // of localhost, the only name that is refused by itself
	if addr, ok := addrOf(host); ok {
		addr = addr.WithZone("").Unmap()
		addrs, host = []netip.Addr{addr}, addr.String()
	} else if disguised(host) {
		return ""
	}
	for _, addr := range addrs {
		if _, ok := guardOf(addr); ok || r.Reserved.holds(addr, port) {
			return ""
		}
	}
	if port == 0 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// private is an ErrPrivate that says what an operator can do.
type private struct{ cure }

// Error names the setting that allows the address.
func (e private) Error() string { return ErrPrivate.Error() + e.allowedBy() }

// Is makes it an ErrPrivate, and a poller.ErrHere if a setting allows the address.
func (e private) Is(target error) bool {
	return target == ErrPrivate || target == poller.ErrHere && e.entry != ""
}

// cure is what an operator can do about a refused address.
type cure struct {
	entry   string // see Rule.entryFor; empty: nothing
	program string // see Rule.Program
	listed  bool   // the setting has other entries
}

func (r Rule) cureFor(host string, port uint16) cure {
	return cure{r.entryFor(host, port), cmp.Or(r.Program, "rounds serve"), len(r.Networks.prefixes)+len(r.Networks.names) > 0}
}

// allowedBy says which setting of which program allows the address. It is short: of an account's
// error 120 bytes are stored.
func (c cure) allowedBy() string {
	switch {
	case c.entry == "":
		return ""
	case c.listed:
		return "; add " + c.entry + " to ROUNDS_ALLOW_NETWORKS of " + c.program
	}
	return "; " + c.program + " needs ROUNDS_ALLOW_NETWORKS=" + c.entry
}

// ValidateHostPort checks a host as Client.ValidateHostPort does. Port 0 stands for any.
func (r Rule) ValidateHostPort(host string, port uint16) error {
	if addr, ok := addrOf(host); ok {
		if addr.Zone() != "" {
			return ErrPrivate
		}
		return r.validateAddr(host, port)
	}
	bad := func(char rune) bool {
		return unicode.IsSpace(char) || unicode.IsControl(char) || strings.ContainsRune(`:/\@?#[]%`, char)
	}
	if host == "" || len(host) > 253 || strings.ContainsFunc(host, bad) {
		return ErrHost
	}
	return r.validateAddr(host, port)
}

// judge judges the host of a URL that a proxy will resolve. It judges an address as if it were
// dialled. Of names, it judges only those with a fixed meaning.
func (r Rule) judge(u *url.URL) error {
	host := u.Hostname()
	if addr, ok := addrOf(host); ok {
		if !r.permits(addr, portOf(u), "") {
			return refusal{addr, r.cureFor(host, portOf(u))}
		}
		return nil
	}
	if disguised(host) {
		return ErrRefusedAddress
	}
	if isLocalhost(host) && !r.Private && !r.Networks.name(host, portOf(u)) {
		return refusal{cure: r.cureFor(host, portOf(u))}
	}
	return nil
}

// addrOf returns the address that a host is, and false for a name. It avoids making an error for
// names, because nearly all hosts are names.
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
