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

// clusterConn is a connection to the node that serves a slot. If another node has taken
// the slot over, a single command goes there.
type clusterConn struct {
	cluster *Cluster
	slot    int
	purpose purpose
	node    *node
	conn    redis.Conn // nil after a redirection: the next command borrows a new one
	piping  bool       // something was sent without waiting for its reply
}

func (k *clusterConn) Do(name string, args ...any) (any, error) {
	if k.piping || name == "" {
		return k.observed(k.inner().Do(name, args...))
	}
	return k.single(0, func(c redis.Conn, _ time.Duration) (any, error) { return c.Do(name, args...) }, name, args)
}

func (k *clusterConn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	if k.piping || name == "" {
		return k.observed(redis.DoWithTimeout(k.inner(), timeout, name, args...))
	}
	return k.single(timeout, func(c redis.Conn, left time.Duration) (any, error) {
		return redis.DoWithTimeout(c, left, name, args...)
	}, name, args)
}

func (k *clusterConn) DoContext(ctx context.Context, name string, args ...any) (any, error) {
	if k.piping || name == "" {
		return k.observed(redis.DoContext(k.inner(), ctx, name, args...))
	}
	var timeout time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Nanosecond, time.Until(deadline))
	}
	return k.single(timeout, func(c redis.Conn, _ time.Duration) (any, error) {
		return redis.DoContext(c, ctx, name, args...)
	}, name, args)
}

func (k *clusterConn) Send(name string, args ...any) error {
	// Written once, because one goroutine may send while another receives.
	if !k.piping {
		k.piping = true
	}
	return k.inner().Send(name, args...)
}

func (k *clusterConn) Flush() error { return k.inner().Flush() }

func (k *clusterConn) Receive() (any, error) { return k.observed(k.inner().Receive()) }

func (k *clusterConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return k.observed(redis.ReceiveWithTimeout(k.inner(), timeout))
}

func (k *clusterConn) ReceiveContext(ctx context.Context) (any, error) {
	return k.observed(redis.ReceiveContext(k.inner(), ctx))
}

func (k *clusterConn) observed(reply any, err error) (any, error) {
	k.cluster.observe(k.node, err)
	if err == nil && k.node.left.Load() {
		// The node may be out of the cluster, where nothing is published any more.
		return nil, k.node.replaced()
	}
	return reply, err
}

// replaced returns the error of a command done by a node that serves nothing any more,
// such as a master that was frozen while its replica took its place. It is unknown
// whether the command counts.
func (n *node) replaced() error {
	return fmt.Errorf("redis cluster: answered by %s, which serves nothing any more", n.address)
}

// inner returns the current connection. It is nil only after a single command.
func (k *clusterConn) inner() redis.Conn {
	if err := k.lendAgain(0); err != nil {
		return failed(err)
	}
	return k.conn
}

func (k *clusterConn) Err() error {
	if k.conn == nil {
		return nil
	}
	return k.conn.Err()
}

func (k *clusterConn) Close() error { return k.release() }

func (k *clusterConn) release() error {
	conn := k.conn
	k.conn = nil
	if conn == nil {
		return nil
	}
	return conn.Close()
}

const (
	// maxRedirects is how often one command is sent on.
	maxRedirects = 5
	// A moving slot refuses commands with several keys (TRYAGAIN) until all of them have
	// arrived. The connection waits for short moves, the caller for longer ones.
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
// next. An error that is no reply leaves the outcome unknown, so the command must not be
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

// single does one command. If the node says that it did not do it and where to go, single
// does the command there. Do receives the remaining time, or 0 for no limit.
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
			// Returned first: a goroutine that has one node's connection while it waits
			// for another's could wait for a goroutine that does the reverse.
			_ = k.release()
		}
	}
}

// stillRefused returns the error of a redirected command that could not be sent on. By
// the redirection it was not done.
func stillRefused(refused, err error) error {
	if refused == nil {
		return err
	}
	return fmt.Errorf("%w (and there: %v)", refused, err) //nolint:errorlint // the refusal alone decides the outcome
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

// failed returns a connection on which every call fails.
func failed(err error) redis.Conn {
	pool := redis.Pool{Dial: func() (redis.Conn, error) { return nil, err }}
	return pool.Get()
}
