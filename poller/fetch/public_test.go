package fetch

import "testing"

func TestPublicHosts(t *testing.T) {
	networks, err := ParseNetworks("203.0.113.7, feeds.example.net, news.example.org:8080")
	if err != nil {
		t.Fatal(err)
	}
	client := New(Options{Networks: networks})
	for host, want := range map[string]bool{
		"example.com": true, "EXAMPLE.com.": true, "example.com:8443": true, "1.1.1.1": true, "[2606:4700::1111]:8443": true,
		"": false, "freshrss": false, "localhost": false, "127.0.0.1:80": false, "10.1.2.3": false, "[::1]:8080": false, "[::ffff:10.0.0.1]": false,
		"a.localhost": false, "printer.local": false, "nas.home.arpa:443": false, "wiki.corp.internal": false,
		"203.0.113.7": false, "feeds.example.net:8080": false, "news.example.org:8080": false, "news.example.org:81": true,
	} {
		if got := client.PublicHost(host); got != want {
			t.Errorf("%s: got %t", host, got)
		}
	}
}
