// Package origin tells the requests of a person or a program from those that a page of
// another site has a browser make.
//
// A browser that runs on a machine reaches what listens on that machine's loopback
// addresses, and adds by itself what it holds for a site: its cookies. So whoever obeys a
// request for what came with it unasked, a cookie or the address alone, asks two questions
// first. [Check] asks which site made the request. [Loopback] asks what name it was made
// under: a page whose own name was made to lead to 127.0.0.1 (DNS rebinding) is of the
// same site as what answers there, but under a name that is not this machine's.
package origin

import (
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// ErrForeign reports a request that a page of another site made.
var ErrForeign = errors.New("origin: the request comes from a page of another site")

// Check returns ErrForeign where a page of another site made the request: by the rules of
// [http.CrossOriginProtection], and by the same ones for methods that it lets pass, as GET.
// Another port is another site. What a person types, and what is no browser, is never
// foreign.
func Check(r *http.Request) error {
	judged := *r
	judged.Method = http.MethodPost // of GET and its like the standard library asks nothing
	if err := http.NewCrossOriginProtection().Check(&judged); err != nil {
		return ErrForeign
	}
	return nil
}

// Loopback reports whether a Host, with a port or without, is a name that no resolver
// decides and that leads to this machine alone: localhost, or a loopback address.
func Loopback(host string) bool {
	name, ok := Hostname(host)
	if !ok {
		return false
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

// Hostname is a Host without its port, and an IPv6 address without its brackets. It
// reports false where a Host is none.
func Hostname(host string) (string, bool) {
	name, port, _ := strings.Cut(host, ":")
	if rest, ok := strings.CutPrefix(host, "["); ok {
		var closed bool
		name, port, closed = strings.Cut(rest, "]")
		after, colon := strings.CutPrefix(port, ":")
		if !closed || !strings.Contains(name, ":") || port != "" && !colon {
			return "", false
		}
		port = after
	}
	return name, name != "" && isPort(port)
}

// isPort reports whether a text is a port, or nothing: "localhost:" is a Host too.
func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil
}
