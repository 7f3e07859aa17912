package fetch

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/dnstest"
)

func TestParseNetworks(t *testing.T) {
	for _, good := range []string{"", " ", "10.1.0.0/16", "10.1.0.0/16, connector.local ,fd00::/8", "10.1.2.3:80,[fd00::1]:443,[fd00::1],fd00::2,a.b:9000,Inner_1.example."} {
		if _, err := ParseNetworks(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"10.1.0.0/33":         `"10.1.0.0/33" is not a network`,
		"10.1.2.3/16":         "is it 10.1.0.0/16?",
		"::ffff:10.0.0.0/104": "must be written as the IPv4 network",
		"a,,b":                `"" is neither`,
		"http://a":            `"http://a" is not a network`,
		"a:0":                 `"a:0" must have a port`,
		"a:b":                 `"a:b" must have a port`,
		"2130706433":          `"2130706433" is neither`,
		"0x7f.1":              "is neither",
		"münchen.example":     "is neither",
		"*.local":             "is neither",
		"fe80::1%eth0":        "must not have a zone",
	} {
		if _, err := ParseNetworks(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", bad, err, want)
		}
	}
	if _, err := ParseNetworks("a b,c d"); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two faults: got %v", err)
	}
	if _, err := ParseNetworks(strings.Repeat("10.0.0.1,", maxNetworks) + "10.0.0.1"); err == nil {
		t.Error("there is no end to the entries")
	}
}

func TestRulePermits(t *testing.T) {
	var reserved Reserved
	reserved.Add(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 6379})
	reserved.Add(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6380})
	reserved.Add(&net.TCPAddr{IP: net.IPv4(93, 184, 216, 34), Port: 6379})
	reserved.Add(&net.UnixAddr{Name: "/run/redis.sock"})
	for _, tt := range []struct {
		private bool
		list    string
		name    string
		yes, no string // addresses with ports
	}{
		{list: "10.1.0.0/16", yes: "10.1.2.3:80 1.1.1.1:80 [::ffff:10.1.2.3]:1", no: "10.2.0.1:80 127.0.0.1:80"},
		{list: "10.1.2.3:9000,[fd00::1]:9000", yes: "10.1.2.3:9000 [fd00::1]:9000", no: "10.1.2.3:9001 10.1.2.4:9000 [fd00::2]:9000"},
		{list: "connector.local", name: "connector.local", yes: "10.9.9.9:80 127.0.0.1:80 [fd00::1]:80", no: "169.254.169.254:80 [fe80::1]:80 100.100.100.200:80"},
		{list: "connector.local:9000", name: "Connector.Local.", yes: "10.9.9.9:9000", no: "10.9.9.9:80"},
		{list: "connector.local", name: "other.local", no: "10.9.9.9:80"},
		{list: "connector.local", no: "10.9.9.9:80"},
		// Addresses that must be named are not opened by a wider network.
		{private: true, list: "0.0.0.0/0,::/0,100.64.0.0/10,168.0.0.0/8", yes: "10.1.2.3:80 127.0.0.1:80 [fd00::1]:80 168.63.129.17:80",
			no: "169.254.169.254:80 169.254.0.23:80 [::ffff:169.254.169.254]:80 [64:ff9b::a9fe:a9fe]:80 [64:ff9b:1::a9fe:a9fe]:80 [2002:a9fe:a9fe::1]:80 [::a9fe:a9fe]:80 [fe80::1]:80 [fd00:ec2::254]:80 100.100.100.200:80 168.63.129.16:80 192.0.0.192:80"},
		{no: "168.63.129.16:80"},
		{list: "169.254.0.0/16", yes: "169.254.169.254:80 169.254.1.1:80", no: "[fe80::1]:80"},
		{list: "169.254.169.254,fd00:ec2::254", yes: "169.254.169.254:80 [fd00:ec2::254]:80", no: "169.254.169.253:80"},
		{list: "100.100.100.200,168.63.129.16:80", yes: "100.100.100.200:1 168.63.129.16:80", no: "168.63.129.16:81 100.100.100.201:1"},
		// The same holds for the service's own addresses.
		{private: true, list: "10.0.0.0/8,10.0.0.5,93.184.216.34", yes: "10.0.0.5:80 10.0.0.6:6379 127.0.0.1:6379 93.184.216.34:80",
			no: "10.0.0.5:6379 [::ffff:10.0.0.5]:6379 127.0.0.1:6380 127.0.0.2:6380 [::1]:6380 0.0.0.0:6380 [::]:6380 93.184.216.34:6379"},
		{list: "127.0.0.0/8,redis.local", name: "redis.local", no: "127.0.0.1:6380 10.0.0.5:6379"},
		{list: "10.0.0.5:6379,127.0.0.1:6380", yes: "10.0.0.5:6379 127.0.0.1:6380", no: "127.0.0.2:6380 10.0.0.5:80"},
	} {
		rule := Rule{Private: tt.private, Networks: networks(tt.list), Reserved: &reserved}
		for want, addrs := range map[bool]string{true: tt.yes, false: tt.no} {
			for _, text := range strings.Fields(addrs) {
				at := netip.MustParseAddrPort(text)
				if got := rule.permits(at.Addr(), at.Port(), tt.name); got != want {
					t.Errorf("private %t, networks %q, name %q: %s: got %t", tt.private, tt.list, tt.name, text, got)
				}
			}
		}
	}
}

func TestReservedIsBounded(t *testing.T) {
	var reserved Reserved
	for i := range 2 * maxReserved {
		reserved.Add(&net.TCPAddr{IP: net.IPv4(10, 0, byte(i>>8), byte(i)), Port: 6379})
	}
	if reserved.count != maxReserved {
		t.Errorf("%d are kept", reserved.count)
	}
}

// The address of a name is checked at each dial. An allowed name does not allow the hosts to
// which it redirects.
func TestNamesAllowWhatTheyLeadTo(t *testing.T) {
	addr := netip.MustParseAddr("127.0.0.1")
	resolve := dnstest.Resolver(func(string) []netip.Addr { return []netip.Addr{addr} })
	var to string
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		if r.URL.Path == "/away" {
			http.Redirect(w, r, to, http.StatusFound)
		}
	})
	port := mustParse(t, server).Port()
	c := client(t, Options{Resolver: resolve, Networks: networks("inner.example")})
	if _, err := c.Do(t.Context(), Call{URL: "http://Inner.example.:" + port + "/"}); err != nil {
		t.Errorf("allowed: %v", err)
	}
	if _, err := c.Do(t.Context(), Call{URL: "http://other.example.:" + port + "/"}); !isNoAddress(err) {
		t.Errorf("another name with the same address: %v", err)
	}
	if _, err := c.Do(t.Context(), Call{URL: server}); !errors.Is(err, ErrRefusedAddress) {
		t.Errorf("the address itself: %v", err)
	}
	for _, to = range []string{server, "http://other.example.:" + port + "/", "http://0.0.0.0:" + port + "/"} {
		_, err := c.Do(t.Context(), Call{URL: "http://inner.example.:" + port + "/away", MaxRedirects: 3})
		if !errors.Is(err, ErrRefusedAddress) && !isNoAddress(err) {
			t.Errorf("a redirect to %s: %v", to, err)
		}
	}
	addr = netip.MustParseAddr("169.254.169.254")
	c.way.Load().names.expire("inner.example.")
	if _, err := c.Do(t.Context(), Call{URL: "http://inner.example.:" + port + "/"}); !isNoAddress(err) {
		t.Errorf("rebound to the metadata: %v", err)
	}
}

// Neither an error nor what it wraps shows whether a name exists inside a network.
func TestErrorsTellNothingOfInnerNames(t *testing.T) {
	told := make(map[string]bool)
	for _, addrs := range [][]netip.Addr{nil, {netip.MustParseAddr("10.1.2.3")}, {netip.MustParseAddr("169.254.169.254")}, {netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("fd00::1")}} {
		c := client(t, Options{Resolver: dnstest.Resolver(func(string) []netip.Addr { return addrs })})
		_, err := c.Do(t.Context(), Call{URL: "http://db.inner.example.:5432/"})
		_, dialled := c.Dial(t.Context(), "db.inner.example.:5432")
		check := CheckError(err)
		told[fmt.Sprintf("%v %v %v %s %s %s %t", err, errors.Unwrap(err), dialled, check.Code, check.Scope, check.Kind, check.Network)] = true
	}
	if len(told) != 1 {
		t.Errorf("told apart: %v", told)
	}
}

// Changed networks apply to calls that begin later, even if a connection is kept open.
func TestPermit(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	c := New(Options{})
	t.Cleanup(c.Close)
	for range 2 {
		if _, err := c.Do(t.Context(), Call{URL: server}); !errors.Is(err, ErrRefusedAddress) || !errors.Is(c.Validate(server), ErrPrivate) {
			t.Errorf("before: %v", err)
		}
		c.Permit(networks("127.0.0.1"))
		if _, err := c.Do(t.Context(), Call{URL: server}); err != nil || c.Validate(server) != nil {
			t.Errorf("permitted: %v", err)
		}
		c.Permit(Networks{})
	}
}

// A proxy is never asked for addresses that must be named, whatever else is allowed.
func TestGuardedAddressesAreRefusedBeforeTheProxy(t *testing.T) {
	g := newGateway(t, serve(t, func(http.ResponseWriter, *http.Request) {}))
	c := proxiedClient(t, Options{Proxy: g.url, AllowPrivate: true})
	for _, host := range []string{"169.254.169.254", "[::ffff:169.254.169.254]", "2852039166", "0xa9fea9fe", "169.254.43518", "100.100.100.200"} {
		if _, err := c.Do(t.Context(), Call{URL: "http://" + host + "/"}); !errors.Is(err, ErrRefusedAddress) {
			t.Errorf("%s: got %v", host, err)
		}
	}
	if g.asked.Load() != nil {
		t.Errorf("the proxy was asked for %s", *g.asked.Load())
	}
	some := proxiedClient(t, Options{Proxy: g.url, Networks: networks("x.localhost,169.254.169.254")})
	for _, host := range []string{"169.254.169.254", "inner.example"} {
		if _, err := some.Do(t.Context(), Call{URL: "http://" + host + "/"}); err != nil {
			t.Errorf("%s: got %v", host, err)
		}
	}
}
