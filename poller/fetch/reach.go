package fetch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"
)

const (
	// otherFamily is how long only addresses of the host's first family are tried. IPv6 may lead
	// nowhere (RFC 6555).
	otherFamily = 300 * time.Millisecond
	// leastDial is the least time for one address while others remain.
	leastDial = 2 * time.Second
)

// reach connects to HOST:PORT as the dialer would, but takes the host's addresses from the
// remembered names.
func (n *names) reach(ctx context.Context, dialer net.Dialer, network, host, port string) (net.Conn, error) {
	if _, ok := addrOf(host); ok {
		return dialer.DialContext(ctx, network, net.JoinHostPort(host, port))
	}
	ctx, cancel := context.WithTimeout(ctx, dialer.Timeout)
	defer cancel()
	addresses, err := n.of(ctx, host)
	if err != nil {
		return nil, err
	}
	first, others := families(addresses, network)
	dial := func(ctx context.Context, all []netip.Addr) (net.Conn, error) {
		return dialEach(ctx, dialer, network, port, all)
	}
	if len(others) == 0 {
		return dial(ctx, first)
	}
	return eitherOf(ctx, func(ctx context.Context) (net.Conn, error) { return dial(ctx, first) }, func(ctx context.Context) (net.Conn, error) { return dial(ctx, others) })
}

// families splits addresses into the first one's family and the other family. A network of one family
// has no other.
func families(addresses []netip.Addr, network string) (first, others []netip.Addr) {
	of := slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool {
		return network == "tcp4" && !a.Is4() || network == "tcp6" && a.Is4()
	})
	if len(of) > 0 {
		addresses = of // otherwise the dialer says what is wrong
	}
	for _, a := range addresses {
		if a.Is4() == addresses[0].Is4() {
			first = append(first, a)
		} else {
			others = append(others, a)
		}
	}
	return first, others
}

// dialEach tries one address after another. They share the remaining time. The error is the first
// address's.
func dialEach(ctx context.Context, dialer net.Dialer, network, port string, all []netip.Addr) (conn net.Conn, first error) {
	for i, address := range all {
		try := dialer
		if at, ok := ctx.Deadline(); ok {
			left := time.Until(at)
			try.Timeout = min(left, max(leastDial, left/time.Duration(len(all)-i)))
		}
		if ctx.Err() != nil || try.Timeout <= 0 {
			return nil, errors.Join(first, ctx.Err())
		}
		conn, err := try.DialContext(ctx, network, net.JoinHostPort(address.String(), port))
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// eitherOf returns the connection that is made first. The second way is tried when the first has
// failed or takes long. If both fail, the error is the first way's.
func eitherOf(ctx context.Context, first, second func(context.Context) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	type dialled struct {
		conn net.Conn
		err  error
		main bool
	}
	results := make(chan dialled, 2)
	try := func(way func(context.Context) (net.Conn, error), main bool) {
		conn, err := way(ctx)
		results <- dialled{conn, err, main}
	}
	go try(first, true)
	wait := time.NewTimer(otherFamily)
	defer wait.Stop()
	running, begun := 1, false
	defer func() {
		cancel()
		go func(running int) { // a connection that comes too late is closed
			for range running {
				if late := <-results; late.conn != nil {
					_ = late.conn.Close()
				}
			}
		}(running)
	}()
	var failed error
	for {
		select {
		case <-wait.C:
		case done := <-results:
			running--
			if done.err == nil {
				return done.conn, nil
			}
			if done.main || failed == nil {
				failed = done.err
			}
			if running == 0 && begun {
				return nil, failed
			}
		}
		if !begun {
			begun = true
			running++
			go try(second, false)
		}
	}
}
