package connect

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// purpose is the use of a lent connection.
type purpose uint8

const (
	ordinary purpose = iota // everything else
	vital                   // heartbeats, claims and steps that end claims
	groups                  // steps of consumer groups, of which there may be any number
	blocking                // calls that Redis does not answer until something happens, and subscriptions
	purposes
)

// pools are the connections to one server, separate for each purpose. So a heartbeat, a
// claim or a return waits neither behind blocking reads nor behind any number of ordinary
// calls.
type pools struct {
	of   [purposes]*redis.Pool
	cut  atomic.Int64 // when a connection was last found to be cut; unix ns
	test tester
}

// tester checks a connection that was last used at a time. The zero time means that it
// must be tested.
type tester func(ctx context.Context, c redis.Conn, used time.Time) error

// newPools makes a pool for each purpose. Connections are opened only when they are
// needed.
func newPools(o Options, dial func(context.Context) (redis.Conn, error), test tester) *pools {
	all := &pools{test: test}
	lent := func(ctx context.Context) (redis.Conn, error) {
		conn, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return &pooled{fullConn: conn.(fullConn), in: all}, nil
	}
	for i := range all.of {
		o := o
		if purpose(i) == groups {
			o.MaxConns = (o.MaxConns + 1) / 2 // every call of a group costs Redis time
		}
		all.of[i] = newPool(o, lent, all.good)
	}
	return all
}

// lender lends connections: for each purpose there is a method.
type lender func(ctx context.Context, key string, p purpose) (redis.Conn, error)

// Conn lends a connection for everything that the others are not for.
func (lend lender) Conn(ctx context.Context, key string) (redis.Conn, error) {
	return lend(ctx, key, ordinary)
}

// VitalConn lends a connection for heartbeats, claims and steps that end claims.
func (lend lender) VitalConn(ctx context.Context, key string) (redis.Conn, error) {
	return lend(ctx, key, vital)
}

// GroupConn lends a connection for a step of a consumer group.
func (lend lender) GroupConn(ctx context.Context, key string) (redis.Conn, error) {
	return lend(ctx, key, groups)
}

// BlockingConn lends a connection for a call that blocks, or a subscription.
func (lend lender) BlockingConn(ctx context.Context, key string) (redis.Conn, error) {
	return lend(ctx, key, blocking)
}

// connFor is a lender, of the one server that has all keys.
func (all *pools) connFor(ctx context.Context, _ string, p purpose) (redis.Conn, error) {
	return all.lend(ctx, p)
}

func (all *pools) lend(ctx context.Context, p purpose) (redis.Conn, error) {
	return all.of[p].GetContext(ctx)
}

// good tests a connection before it is lent. If another one was cut since this one was
// last used, the server may have been restarted, and all connections may be dead: one
// call finds that out for every pool.
func (all *pools) good(ctx context.Context, c redis.Conn, used time.Time) error {
	if used.UnixNano() <= all.cut.Load() {
		used = time.Time{}
	}
	return all.test(ctx, c.(*pooled).fullConn, used)
}

// Close ends the connections that are not lent.
func (all *pools) Close() error {
	var errs []error
	for _, pool := range all.of {
		errs = append(errs, pool.Close())
	}
	return errors.Join(errs...)
}

// fullConn is the type of every connection that is dialed here.
type fullConn interface {
	redis.ConnWithTimeout
	DoContext(ctx context.Context, name string, args ...any) (any, error)
	ReceiveContext(ctx context.Context) (any, error)
}

// pooled is a connection inside a pool.
type pooled struct {
	fullConn
	in *pools
}

// Close closes the connection, and notes whether it was cut. A call that was not answered
// in time proves nothing about other connections.
func (p *pooled) Close() error {
	var network net.Error
	if err := p.Err(); err != nil && !(errors.As(err, &network) && network.Timeout()) {
		p.in.cut.Store(time.Now().UnixNano())
	}
	return p.fullConn.Close()
}

// buffered is an end of a pipe whose writes never wait for the reader. A pipe has no
// buffer: a client that writes a pipeline while the server writes the first reply would
// wait for the server for ever, and the server for the client.
type buffered struct {
	net.Conn
	sends func() // called before anything is sent

	mu      sync.Mutex
	pending []byte
	failed  error
	more    chan struct{} // has a value when there is something pending
	closed  chan struct{}
	once    sync.Once
}

func newBuffered(conn net.Conn, sends func()) *buffered {
	b := &buffered{Conn: conn, sends: sends, more: make(chan struct{}, 1), closed: make(chan struct{})}
	go b.pump()
	return b
}

// Write accepts everything at once, unless an earlier write has failed.
func (b *buffered) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed != nil {
		return 0, b.failed
	}
	b.pending = append(b.pending, p...)
	select {
	case b.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

// Close closes both ends and drops what is pending.
func (b *buffered) Close() error {
	b.once.Do(func() { close(b.closed) })
	b.fail(io.ErrClosedPipe)
	return b.Conn.Close()
}

func (b *buffered) pump() {
	for {
		select {
		case <-b.closed:
			return
		case <-b.more:
		}
		b.mu.Lock()
		next := b.pending
		b.pending = nil
		b.mu.Unlock()
		b.sends()
		if _, err := b.Conn.Write(next); err != nil {
			b.fail(err)
			return
		}
	}
}

func (b *buffered) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil {
		b.failed = err
	}
}
