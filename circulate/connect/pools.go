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
	ordinary purpose = iota // all that is none of the others
	vital                   // heartbeats, claims and what returns claims
	groups                  // steps of consumer groups, of which there may be any number
	blocking                // what Redis holds back until something happens, and subscriptions
	purposes
)

// pools are the connections to one server, apart for each purpose: so that a
// heartbeat, a claim or a return waits neither behind reads that block nor behind
// however many ordinary calls.
type pools struct {
	of   [purposes]*redis.Pool
	cut  atomic.Int64 // when a connection was found to be cut, last; unix ns
	test tester
}

// tester tells whether a connection that was used last at a time is good; at the
// zero time: that must be found out.
type tester func(ctx context.Context, c redis.Conn, used time.Time) error

// newPools makes a pool for each purpose. Connections are opened only when they are
// wanted.
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
			o.MaxConns = (o.MaxConns + 1) / 2 // all that they ask is in Redis' way
		}
		all.of[i] = newPool(o, lent, all.good)
	}
	return all
}

func (all *pools) lend(ctx context.Context, p purpose) (redis.Conn, error) {
	return all.of[p].GetContext(ctx)
}

// good tests a connection before it is lent. Where another one was cut since it
// was used, the server may have been started anew, and all may be: one call finds
// that out for every pool.
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

// fullConn is what every connection is that is dialed here.
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

// Close ends the connection, and notes whether it was cut. One whose call was not
// answered in time says nothing of the others.
func (p *pooled) Close() error {
	var network net.Error
	if err := p.Err(); err != nil && !(errors.As(err, &network) && network.Timeout()) {
		p.in.cut.Store(time.Now().UnixNano())
	}
	return p.fullConn.Close()
}
