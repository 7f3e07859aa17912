package fetch

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/rounds-dev/rounds/testing/dnstest"
)

func TestPublic(t *testing.T) {
	for addr, want := range map[string]bool{
		"1.1.1.1": true, "93.184.216.34": true, "172.32.0.1": true, "100.128.0.1": true,
		"2606:4700::1111": true, "::ffff:1.1.1.1": true, "64:ff9b::1.1.1.1": true,

		"0.0.0.0": false, "0.1.2.3": false, "10.1.2.3": false, "100.64.0.1": false, "100.127.255.255": false,
		"127.0.0.1": false, "127.255.255.254": false, "169.254.169.254": false, "172.16.0.1": false,
		"172.31.255.255": false, "192.0.0.8": false, "192.0.2.1": false, "192.88.99.1": false,
		"192.168.1.1": false, "198.19.0.1": false, "198.51.100.7": false, "203.0.113.9": false,
		"224.0.0.1": false, "239.1.1.1": false, "240.0.0.1": false, "255.255.255.255": false,

		"::": false, "::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::127.0.0.1": false,
		"64:ff9b::10.0.0.1": false, "64:ff9b::7f00:1": false, "64:ff9b:1::1": false, "100::1": false,
		"2001::1": false, "2001:db8::1": false, "2002:7f00:1::": false, "2002:101:101::": false, "3fff::1": false,
		"fc00::1": false, "fd12:3456::1": false, "fe80::1": false, "fe80::1%eth0": false, "fec0::1": false,
		"ff02::1": false, "4000::1": false,
	} {
		if got := public(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: got %t", addr, got)
		}
	}
	if public(netip.Addr{}) {
		t.Error("the zero address is public")
	}
}

func TestPrivateAddressesAreRefused(t *testing.T) {
	var asked atomic.Int32
	server := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	port := mustParse(t, server).Port()

	strict := New(Options{})
	t.Cleanup(strict.Close)
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f.1"} {
		_, err := strict.Do(t.Context(), Call{URL: "http://" + host + ":" + port + "/"})
		if err == nil {
			t.Errorf("%s: reached", host)
		}
		// Odd spellings may also fail to resolve, which is just as safe.
		if !errors.Is(err, ErrRefusedAddress) && host[0] != '2' && host[1] != 'x' {
			t.Errorf("%s: got %v", host, err)
		}
	}
	if asked.Load() != 0 {
		t.Error("a refused address was connected to")
	}

	lax := New(Options{AllowPrivate: true})
	t.Cleanup(lax.Close)
	if _, err := lax.Do(t.Context(), Call{URL: server}); err != nil {
		t.Errorf("allowed: got %v", err)
	}
}

// A name may resolve to a public address when it is checked and to a private one when it is
// dialled. Such a name is refused, because the check concerns the dialled address.
func TestNamesThatResolveToPrivateAreRefused(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	port := mustParse(t, server).Port()
	for _, addr := range []string{"127.0.0.2", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1"} {
		c := client(t, Options{Resolver: dnstest.Resolver(func(string) []netip.Addr {
			return []netip.Addr{netip.MustParseAddr(addr)}
		})})
		_, err := c.Do(t.Context(), Call{URL: "http://rebind.example.:" + port + "/"})
		if !isNoAddress(err) {
			t.Errorf("%s: got %v", addr, err)
		}
	}
}

// isNoAddress reports whether an error is that of a name without an address. A name whose
// address is refused must have the same error.
func isNoAddress(err error) bool {
	var failed *Error
	if !errors.As(err, &failed) {
		return false
	}
	shown := *failed
	shown.sent = false // nothing shows it
	return shown == *noAddress()
}

func TestRebindingIsJudgedAtEachConnection(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	port := mustParse(t, server).Port()
	addr := netip.MustParseAddr("127.0.0.1")
	c := client(t, Options{Resolver: dnstest.Resolver(func(string) []netip.Addr { return []netip.Addr{addr} })})

	call := Call{URL: "http://rebind.example.:" + port + "/"}
	if _, err := c.Do(t.Context(), call); err != nil {
		t.Fatalf("allowed: got %v", err)
	}
	addr = netip.MustParseAddr("127.0.0.2")
	if _, err := c.Do(t.Context(), call); err != nil {
		t.Errorf("the address that is remembered: got %v", err)
	}
	c.way.Load().names.expire("rebind.example.")
	if _, err := c.Do(t.Context(), call); !isNoAddress(err) {
		t.Errorf("rebound: got %v", err)
	}
}

func TestRedirectsToPrivateAreRefused(t *testing.T) {
	for _, target := range []string{"http://127.0.0.2:1/", "http://[::1]:1/", "http://169.254.169.254/latest/meta-data", "http://10.0.0.1/"} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) })
		_, err := client(t, Options{}).Do(t.Context(), Call{URL: url, MaxRedirects: 5})
		if !errors.Is(err, ErrRefusedAddress) {
			t.Errorf("%s: got %v", target, err)
		}
	}
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	c := client(t, Options{Resolver: dnstest.Resolver(func(string) []netip.Addr { return nil })})
	_, err := c.Do(context.Background(), Call{URL: "http://nowhere.example./"})
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != CodeDNS {
		t.Errorf("got %v", err)
	}
}

func mustParse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
