package fetch

import (
	"context"
	"net"
	"net/netip"
)

// Dial connects to HOST:PORT over TCP, for checkers of protocols other than HTTP,
// under the rule that holds for all addresses. The error is always an *Error.
func (c *Client) Dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := c.way.Load().dial(ctx, "tcp", address)
	if err != nil {
		return nil, newError(ctx, err, false)
	}
	return conn, nil
}

// Broken makes an *Error of what went wrong on a connection of Dial's: a failed
// read, write or TLS handshake, or the end of ctx.
func Broken(ctx context.Context, err error) *Error { return newError(ctx, err, true) }

// ValidateHost judges a host, a name or an address without a port, when an
// account is registered. An address is judged at once, a name only when it is
// resolved. The error is ErrHost or ErrPrivate.
func (c *Client) ValidateHost(host string) error { return c.way.Load().rule.validateHost(host) }

// Public reports whether an address is on the public internet.
func Public(addr netip.Addr) bool { return public(addr) }
