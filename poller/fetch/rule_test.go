package fetch

import (
	"net/netip"
	"testing"
)

// A host is an address whenever it can be read as one.
func TestAddrOf(t *testing.T) {
	for _, host := range []string{
		"", "example.com", "a1", "1", "127.1", "127.0.0.1", "127.0.0.1.", "0127.0.0.1", "1.2.3.4.5", "::1", "::", "fe80::1%eth0", "::ffff:10.0.0.1", "fe80::1%", "a:b",
		"[::1]", "2001:db8::a", "10.0.0.a", "0x7f000001", "2130706433", "127.0.0.1%eth0",
	} {
		want, err := netip.ParseAddr(host)
		if got, ok := addrOf(host); got != want || ok != (err == nil) {
			t.Errorf("%q: got %v, %t; want %v, %v", host, got, ok, want, err)
		}
	}
	if n := testing.AllocsPerRun(10, func() { addrOf("feeds.example.com") }); n > 0 {
		t.Errorf("a name costs %v allocations", n)
	}
}
