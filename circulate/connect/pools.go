package connect

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// purpose is what a connection is lent for.
type purpose uint8

const (
	ordinary purpose = iota // everything else
	vital                   // heartbeats, claims and what returns claims
	groups                  // steps of consumer groups, of which there may be any number
	blocking                // calls that Redis holds back until something happens, and subscriptions
	purposes
)

// pools are the connections to one server, apart for each purpose. So a heartbeat, a
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
	if test == nil {
		all.test = pingIdle
	}
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

func (all *pools) lend(ctx context.Context, p purpose) (redis.Conn, error) {
	return all.of[p].GetContext(ctx)
}

// good tests a connection before it is lent. If another one was cut since it was used
// last, the server may have been restarted, and all connections may be dead: one call
// finds that out for every pool.
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

// Close closes the connection, and notes whether it was cut. A connection whose call was
// not answered in time proves nothing about the others.
func (p *pooled) Close() error {
	var network net.Error
	if err := p.Err(); err != nil && !(errors.As(err, &network) && network.Timeout()) {
		p.in.cut.Store(time.Now().UnixNano())
	}
	return p.fullConn.Close()
}
