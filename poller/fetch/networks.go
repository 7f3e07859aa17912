package fetch

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// maxNetworks is how many entries Networks may have.
const maxNetworks = 1024

// Networks are addresses that may be reached although they are not public. The zero
// value has none.
type Networks struct {
	prefixes []networkEntry
	names    map[string][]uint16 // by name in lower case: ports, 0 for all
}

type networkEntry struct {
	netip.Prefix
	port uint16 // 0: any
}

// ParseNetworks reads entries separated by commas: networks such as 10.1.0.0/16, and addresses and
// host names, which may have a :PORT. A name allows the addresses to which it resolves at the time
// of a dial. The error has a line for each faulty entry.
func ParseNetworks(list string) (Networks, error) {
	var n Networks
	var errs []error
	if strings.TrimSpace(list) == "" {
		return n, nil
	}
	for entry := range strings.SplitSeq(list, ",") {
		if len(n.prefixes)+len(n.names) >= maxNetworks {
			return Networks{}, fmt.Errorf("has more than %d entries", maxNetworks)
		}
		if err := n.add(strings.TrimSpace(entry)); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return Networks{}, errors.Join(errs...)
	}
	return n, nil
}

// add adds a network, or an address or a host's name, each of which may have a port.
func (n *Networks) add(entry string) error {
	if strings.Contains(entry, "/") {
		prefix, err := netip.ParsePrefix(entry)
		if err != nil {
			return fmt.Errorf("%q is not a network such as 10.1.0.0/16", entry)
		}
		if addr := prefix.Addr(); addr.Is4In6() {
			return fmt.Errorf("%q must be written as the IPv4 network that it is", entry)
		}
		if masked := prefix.Masked(); masked != prefix {
			return fmt.Errorf("%q has bits beyond its length: is it %v?", entry, masked)
		}
		n.prefixes = append(n.prefixes, networkEntry{Prefix: prefix})
		return nil
	}
	if addr, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
		return n.addAddr(entry, addr, 0)
	}
	host, port := entry, uint16(0)
	if at := strings.LastIndexByte(entry, ':'); at >= 0 {
		number, err := strconv.ParseUint(entry[at+1:], 10, 16)
		if err != nil || number == 0 {
			return fmt.Errorf("%q must have a port from 1 to 65535, if any", entry)
		}
		host, port = entry[:at], uint16(number)
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return n.addAddr(entry, addr, port)
	}
	if !isName(host) {
		return fmt.Errorf("%q is neither a network such as 10.1.0.0/16, nor an address, nor a host's name", entry)
	}
	if n.names == nil {
		n.names = make(map[string][]uint16)
	}
	n.names[plainName(host)] = append(n.names[plainName(host)], port)
	return nil
}

func (n *Networks) addAddr(entry string, addr netip.Addr, port uint16) error {
	if addr.Zone() != "" {
		return fmt.Errorf("%q must not have a zone", entry)
	}
	addr = addr.Unmap()
	n.prefixes = append(n.prefixes, networkEntry{netip.PrefixFrom(addr, addr.BitLen()), port})
	return nil
}

// isName reports whether a text is a host's name in ASCII, and not a number in disguise.
func isName(text string) bool {
	text = strings.TrimSuffix(text, ".")
	if text == "" || len(text) > 253 || disguised(text) {
		return false
	}
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for _, c := range []byte(label) {
			if c != '-' && c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
				return false
			}
		}
	}
	return true
}

// plainName is a name in the form in which names are compared.
func plainName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// disguised reports whether a system's resolver takes a name for an address, because its last part
// is a number: 2130706433, or 0x7f.1.
func disguised(name string) bool {
	name = plainName(name)
	last := name[strings.LastIndexByte(name, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil || last != "" && digits(last)
}

// on reports whether an entry's port is the one in question; 0 stands for any.
func on(entry, port uint16) bool { return entry == 0 || port == 0 || entry == port }

// contain reports whether an address is in one of the networks.
func (n Networks) contain(addr netip.Addr, port uint16) bool {
	return slices.ContainsFunc(n.prefixes, func(e networkEntry) bool { return on(e.port, port) && e.Contains(addr) })
}

// name reports whether a host's name is one of the entries.
func (n Networks) name(host string, port uint16) bool {
	return slices.ContainsFunc(n.names[plainName(host)], func(p uint16) bool { return on(p, port) })
}

// pierce reports whether an entry within a guarded network has the address. A wider entry does not
// count: it names something else and only happens to cover the address.
func (n Networks) pierce(guard netip.Prefix, addr netip.Addr, port uint16) bool {
	return slices.ContainsFunc(n.prefixes, func(e networkEntry) bool {
		return on(e.port, port) && e.Bits() >= guard.Bits() && guard.Contains(e.Addr()) && e.Contains(addr)
	})
}

// exactly reports whether an entry is exactly this address with exactly this port.
func (n Networks) exactly(addr netip.Addr, port uint16) bool {
	return port != 0 && slices.ContainsFunc(n.prefixes, func(e networkEntry) bool { return e.port == port && e.Addr() == addr })
}
