package signin

import (
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST": true, "localhost:8080": true, "localhost:": true,
		"127.0.0.1": true, "127.0.0.1:1": true, "127.255.255.254:65535": true,
		"[::1]": true, "[::1]:8080": true, "[::1]:": true, "[0:0:0:0:0:0:0:1]:80": true, "[::ffff:127.0.0.1]:80": true,

		"": false, ":8080": false, "[]": false, "[]:80": false, "[": false, "]": false, ".": false,
		"evil.example": false, "evil.example:8080": false,
		"localhost.evil.example": false, "localhost.evil.example:8080": false, "127.0.0.1.evil.example": false,
		"evil.localhost": false, "localhost.": false, "localhost.:8080": false, "127.0.0.1.": false, "127.0.0.1.:80": false,
		"localhost:8080.evil.example": false, "localhost:80:80": false, "localhost:http": false, "localhost:65536": false, "localhost:-1": false,
		"user@localhost": false, "localhost@evil.example": false, "localhost,evil.example": false, "localhost/": false, " localhost": false,
		"[localhost]": false, "[127.0.0.1]": false, "]localhost[": false, "[::1].evil.example": false, "[::1]evil": false, "[::1]80": false, "[::1": false,
		"::1": false, "[::1%25lo]": false, "[::1%lo]:80": false, "[::2]:80": false, "[::]:80": false, "[::ffff:10.0.0.1]:80": false,
		"0.0.0.0": false, "0.0.0.0:80": false, "10.0.0.1": false, "128.0.0.1": false, "0x7f.1": false, "127.1": false, "2130706433": false, "0177.0.0.1": false,
		"locaⅼhost": false, "localhost\x00": false,
	} {
		if got := Loopback(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		site, origin string
		foreign      bool
	}{
		{"", "", false},                                         // a program
		{"none", "", false},                                     // an address that was typed
		{"same-origin", "", false},                              // a page of ours
		{"same-origin", "http://localhost:8080", false},         // the same, with POST
		{"cross-site", "", true},                                // an image, or a link
		{"cross-site", "http://localhost:8080", true},           // the header that a page cannot forge wins
		{"same-site", "http://localhost:3000", true},            // another program of this machine
		{"something-new", "", true},                             // of a future browser
		{"", "http://localhost:8080", false},                    // an old browser
		{"", "http://localhost:3000", true},                     //
		{"", "http://localhost:8080.evil.example", true},        //
		{"", "null", true},                                      // a file, or a frame without an origin
		{"", "https://evil.example", true},                      //
		{"", "http://localhost:8080@evil.example", true},        //
		{"", "http://evil.example/http://localhost:8080", true}, //
	} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "QUERY"} {
			r := httptest.NewRequest(method, "http://localhost:8080/v1/accounts", nil)
			if tt.site != "" {
				r.Header.Set("Sec-Fetch-Site", tt.site)
			}
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			if err := CheckOrigin(r); (err != nil) != tt.foreign {
				t.Errorf("%s from %q, %q: %v", method, tt.site, tt.origin, err)
			}
			if r.Method != method {
				t.Errorf("the request has changed: %s", r.Method)
			}
		}
	}
}

// A host that Loopback accepts leads an HTTP client to this machine too.
func FuzzLoopback(f *testing.F) {
	for _, host := range []string{"localhost:80", "127.0.0.1", "[::1]:80", "localhost.evil.example", "[localhost]", "127.0.0.1.:80", "user@localhost", "[::ffff:127.0.0.1]"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if !Loopback(host) {
			return
		}
		u, err := url.Parse("http://" + host + "/")
		if err != nil || u.User != nil || u.Path != "/" {
			t.Fatalf("%q: %v, %v", host, u, err)
		}
		if ip := net.ParseIP(u.Hostname()); !strings.EqualFold(u.Hostname(), "localhost") && (ip == nil || !ip.IsLoopback()) {
			t.Errorf("%q leads to %q", host, u.Hostname())
		}
	})
}
