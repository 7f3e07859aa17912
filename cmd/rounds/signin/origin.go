package signin

import (
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// This file distinguishes the requests of a person or a program from those that a
// page of another site makes a browser send.
//
// A browser can reach servers on its machine's loopback addresses, and adds cookies by
// itself. A server that trusts a request because of a cookie or the client's address alone
// has to check two things first. [Check] checks which site made the request. [Loopback]
// checks the name that it was made to: a page whose own name was changed to resolve to
// 127.0.0.1 (DNS rebinding) counts as the same site as the server there, but its name is
// not this machine's.

// ErrForeign reports a request that a page of another site made.
var ErrForeign = errors.New("origin: the request comes from a page of another site")

// CheckOrigin returns ErrForeign if a page of another site made the request, by the rules of
// [http.CrossOriginProtection]. The same rules apply to methods that it does not check,
// such as GET. Another port is another site. An address that a person types is never
// foreign, nor is a request of a program other than a browser.
func CheckOrigin(r *http.Request) error {
	judged := *r
	judged.Method = http.MethodPost // the standard library does not check GET and similar methods
	if err := http.NewCrossOriginProtection().Check(&judged); err != nil {
		return ErrForeign
	}
	return nil
}

// Loopback reports whether a Host, with or without a port, means this machine alone without
// being resolved: localhost, or a loopback address.
func Loopback(host string) bool {
	name, ok := originHostname(host)
	if !ok {
		return false
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

// originHostname returns a Host without its port, and an IPv6 address without its brackets. It
// returns false if the text is not a Host.
func originHostname(host string) (string, bool) {
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

// isPort reports whether a text is a port or empty: "localhost:" is a Host too.
func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil
}
