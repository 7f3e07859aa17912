package fetch

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Dial connects to HOST:PORT over TCP, for checkers of protocols other than HTTP, under
// the same rule for addresses and by the same named ways. What is read does not show among an account's
// latest checks unless the checker says so: see poller.Answered. The error is always an *Error.
func (c *Client) Dial(ctx context.Context, address string) (net.Conn, error) {
	w, err := c.wayOf(ctx)
	if err != nil {
		return nil, newError(ctx, err, false)
	}
	dial := func(ctx context.Context, address string) (net.Conn, error) { return w.dial(ctx, "tcp", address) }
	if c.options.Connect != nil {
		dial = c.options.Connect
	}
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, newError(ctx, err, false)
	}
	return conn, nil
}

// Broken returns the *Error for a failure on a connection that Dial made: a failed
// read, write or TLS handshake, or the end of ctx.
func Broken(ctx context.Context, err error) *Error { return newError(ctx, err, true) }

// validateHost checks a host, which is a name or an address without a port, when an
// account is registered. An address is checked against the rule at once, a name only
// when it is resolved. The error is ErrHost or ErrPrivate.
func (c *Client) validateHost(host string) error { return c.way.Load().rule.ValidateHostPort(host, 0) }

// ValidateHostPort is validateHost for a host that is dialled at the given port.
func (c *Client) ValidateHostPort(host string, port uint16) error {
	return c.way.Load().rule.ValidateHostPort(host, port)
}

// Public reports whether an address is on the public internet.
func Public(addr netip.Addr) bool { return public(addr) }

// PublicHost reports whether a host, with or without a port, is taken for one of the public internet:
// a public address, or a name with a dot. Names that private networks use are none (RFC 6761, 6762
// and 8375, and ICANN's .internal), and neither is what Networks allow.
func (c *Client) PublicHost(host string) bool {
	port := uint16(0)
	if name, text, err := net.SplitHostPort(host); err == nil {
		number, _ := strconv.ParseUint(text, 10, 16)
		host, port = name, uint16(number)
	}
	host = plainName(strings.Trim(host, "[]"))
	networks := c.way.Load().rule.Networks
	if addr, ok := addrOf(host); ok {
		return public(addr) && !networks.contain(addr, port)
	}
	for _, end := range []string{".localhost", ".local", ".internal", ".home.arpa"} {
		if strings.HasSuffix(host, end) {
			return false
		}
	}
	return strings.Contains(host, ".") && !networks.name(host, port)
}
