package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// maxRedirects is how often one command is sent on.
	maxRedirects = 5
	// A slot that is on its way refuses commands of several keys (TRYAGAIN) until all of
	// them have arrived. Short moves are waited for here; the caller waits for longer
	// ones.
	tryAgainFor   = 200 * time.Millisecond
	tryAgainPause = 5 * time.Millisecond
)

type redirect byte

const (
	stay redirect = iota
	movedTo
	askAt
	tryAgain
)

// observe looks at the result from a node. If the node refused, it returns where to go
// on. An error that is no reply leaves the outcome unknown, so the command must not be
// sent again.
func (c *Cluster) observe(at *node, err error) (redirect, string) {
	if err == nil {
		return stay, ""
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		c.suspect()
		return stay, ""
	}
	code, rest, _ := strings.Cut(string(reply), " ")
	switch code {
	case "TRYAGAIN":
		c.redirected.Add(1)
		return tryAgain, ""
	case "CLUSTERDOWN", "MASTERDOWN":
		c.suspect()
	case "MOVED", "ASK":
		c.redirected.Add(1)
		number, address, _ := strings.Cut(rest, " ")
		slot, err := strconv.Atoi(number)
		host, port, splitErr := net.SplitHostPort(address)
		if err != nil || splitErr != nil || slot < 0 || slot >= slotCount {
			return stay, ""
		}
		address = hostOr(host, port, at.address)
		if code == "ASK" {
			return askAt, address
		}
		c.moved(slot, address)
		return movedTo, address
	}
	return stay, ""
}

// single does one command, and does it at another node if this one says that it did not
// do it and where to go. Do receives the time that is left, or 0 for no limit.
func (k *clusterConn) single(timeout time.Duration, do func(conn redis.Conn, left time.Duration) (any, error), name string, args []any) (any, error) {
	var deadline time.Time
	if timeout > 0 {
		deadline = time.Now().Add(timeout)
	}
	left := func() time.Duration {
		if deadline.IsZero() {
			return 0
		}
		return max(time.Nanosecond, time.Until(deadline))
	}
	patience := time.Now().Add(tryAgainFor)
	pause := tryAgainPause
	var refused error
	asking := ""
	for hops := 0; ; hops++ {
		var reply any
		var err error
		var at *node
		if asking == "" {
			if lendErr := k.lendAgain(left()); lendErr != nil {
				return nil, stillRefused(refused, lendErr)
			}
			at = k.node
			reply, err = do(k.conn, left())
		} else {
			at = &node{address: asking}
			if reply, err = k.ask(asking, left(), name, args); errors.Is(err, errNotAsked) {
				return nil, stillRefused(refused, err)
			}
			asking = ""
		}
		where, address := k.cluster.observe(at, err)
		switch {
		case err == nil && at.left.Load():
			return nil, at.replaced()
		case where == stay || (where != tryAgain && hops == maxRedirects):
			return reply, err
		case where == tryAgain:
			if now := time.Now(); now.After(patience) || !deadline.IsZero() && now.Add(pause).After(deadline) {
				return reply, err
			}
			time.Sleep(pause)
			pause = min(2*pause, 8*tryAgainPause)
			hops--
		case !deadline.IsZero() && !time.Now().Before(deadline):
			return reply, err
		}
		refused = err
		if where == askAt {
			asking = address
		}
		if where != tryAgain {
			// It is returned first: a goroutine that holds one node's connection while it
			// waits for another's could wait for one that does the reverse.
			_ = k.release()
		}
	}
}

// stillRefused returns the error of a command that was redirected and could not be sent
// on. It was not done, as the redirection says.
func stillRefused(refused, err error) error {
	if refused == nil {
		return err
	}
	return fmt.Errorf("%w (and there: %v)", refused, err) //nolint:errorlint // what was refused decides the outcome alone
}

// lendAgain lends a connection to the slot's node if there is none.
func (k *clusterConn) lendAgain(timeout time.Duration) error {
	if k.conn != nil {
		return nil
	}
	if timeout == 0 {
		timeout = k.cluster.o.ReadTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	n, conn, err := k.cluster.lend(ctx, k.slot, k.purpose)
	if err != nil {
		return err
	}
	k.node, k.conn = n, conn
	return nil
}

var errNotAsked = errors.New("redis cluster: cannot be reached")

// ask does a command at the node that a slot is moving to.
func (k *clusterConn) ask(address string, timeout time.Duration, name string, args []any) (any, error) {
	if timeout == 0 {
		timeout = k.cluster.o.ReadTimeout
	}
	deadline := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	k.cluster.mu.Lock()
	if k.cluster.closed {
		k.cluster.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", errNotAsked, errClosed)
	}
	n := k.cluster.nodeAt(address)
	k.cluster.mu.Unlock()
	conn, err := n.pools.lend(ctx, k.purpose)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotAsked, err)
	}
	defer conn.Close()
	if err := conn.Send("ASKING"); err != nil {
		return nil, err
	}
	if err := conn.Send(name, args...); err != nil {
		return nil, err
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	if _, err := redis.ReceiveWithTimeout(conn, max(time.Nanosecond, time.Until(deadline))); err != nil {
		var reply redis.Error
		if !errors.As(err, &reply) {
			return nil, err
		}
	}
	return redis.ReceiveWithTimeout(conn, max(time.Nanosecond, time.Until(deadline)))
}
