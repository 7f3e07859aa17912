package listen

import (
	"net/http"
	"strings"
	"testing"
)

func TestParseProxies(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " ": "", "127.0.0.1, ::1 ,10.0.0.0/8,unix": "", "fd00::/8": "",
		"10.1.2.3/16": "is it 10.1.0.0/16?", "proxy.local": "must be an address", "10.0.0.0/8,,": "no empty entry", "a,b": `"b"`, "10.0.0.0/40": "must be an address",
	} {
		if _, err := ParseProxies(text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCaller(t *testing.T) {
	for _, tt := range []struct {
		trusted, peer string
		forwarded     []string
		want          string
	}{
		{"", "192.0.2.1:80", []string{"198.51.100.7"}, "192.0.2.1:80"}, // nobody is trusted by default
		{"", "127.0.0.1:80", []string{"198.51.100.7"}, "127.0.0.1:80"},
		{"10.0.0.0/8", "192.0.2.1:80", []string{"198.51.100.7"}, "192.0.2.1:80"}, // a stranger comes around the proxy
		{"10.0.0.0/8", "10.0.0.1:80", nil, "10.0.0.1:80"},
		{"10.0.0.0/8", "10.0.0.1:80", []string{"198.51.100.7"}, "198.51.100.7:0"},
		{"10.0.0.0/8", "[::ffff:10.0.0.1]:80", []string{"198.51.100.7"}, "198.51.100.7:0"},
		{"10.0.0.0/8", "10.0.0.1:80", []string{"10.9.9.9, 198.51.100.7"}, "198.51.100.7:0"}, // what the caller wrote itself
		{"10.0.0.0/8", "10.0.0.1:80", []string{"1.1.1.1", "198.51.100.7,10.0.0.2"}, "198.51.100.7:0"},
		{"10.0.0.0/8", "10.0.0.1:80", []string{"10.0.0.3,10.0.0.2"}, "10.0.0.3:0"}, // a caller within the network
		{"10.0.0.0/8", "10.0.0.1:80", []string{"198.51.100.7", "unknown"}, "10.0.0.1:80"},
		{"10.0.0.0/8", "10.0.0.1:80", []string{""}, "10.0.0.1:80"},
		{"10.0.0.0/8", "10.0.0.1:80", []string{"198.51.100.7:4711"}, "198.51.100.7:0"},
		{"::1", "[::1]:80", []string{"[2001:db8::7]:4711"}, "[2001:db8::7]:0"},
		{"::1", "[::1]:80", []string{"2001:db8::7"}, "[2001:db8::7]:0"},
		{"unix", "unix", []string{"198.51.100.7"}, "198.51.100.7:0"},
		{"unix", "unix", nil, "unix"},
		{"127.0.0.1", "unix", []string{"198.51.100.7"}, "unix"},
		{"unix", "127.0.0.1:80", []string{"198.51.100.7"}, "127.0.0.1:80"},
	} {
		proxies, err := ParseProxies(tt.trusted)
		if err != nil {
			t.Fatal(err)
		}
		if got := proxies.Caller(&http.Request{RemoteAddr: tt.peer, Header: http.Header{"X-Forwarded-For": tt.forwarded}}); got != tt.want {
			t.Errorf("%q from %s by %s: %s, want %s", tt.forwarded, tt.peer, tt.trusted, got, tt.want)
		}
	}
}

// Whatever a caller sends, it has an address, and not the one that it claims.
func FuzzCaller(f *testing.F) {
	for _, text := range []string{"198.51.100.7", "a, b", ",,", "[::1]:4", "::ffff:10.0.0.1", "fe80::1%eth0"} {
		f.Add(text)
	}
	proxies, err := ParseProxies("10.0.0.0/8,unix")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		header := http.Header{"X-Forwarded-For": {text, "203.0.113.9, 10.0.0.2"}}
		if got := proxies.Caller(&http.Request{RemoteAddr: "10.0.0.1:1", Header: header}); got != "203.0.113.9:0" {
			t.Errorf("%q: from %s", text, got)
		}
		if got := proxies.Caller(&http.Request{RemoteAddr: Unix, Header: http.Header{"X-Forwarded-For": {text}}}); got == "" {
			t.Errorf("%q: from nowhere", text)
		}
	})
}
