package connect

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"
)

// Embedded is a Redis inside the process, in memory, for a laptop and for tests. It
// listens nowhere unless Listen is called, and its data ends with the process unless package
// datadir keeps it.
type Embedded struct {
	server *miniredis.Miniredis
	clock  *embeddedClock
	pools  *pools

	mu     sync.Mutex // guards the server, which must not be dialled while it is closed
	dialed bool
	closed bool
	door   *doorway // nil: it listens nowhere

	lags *lags // of the server that serves; guarded by mu

	looking sync.Mutex // one Look at a time
	look    look

	recorder atomic.Pointer[recorder] // nil: there is no log
	redoing  *shadow                  // does what a log has; guarded by mu
}

// embeddedClock is the server's clock. It stands still while commands run, and advances
// between them by a millisecond or more. At each change of its time the server searches
// all keys for expired ones, and within scripts that was most of its work.
type embeddedClock struct {
	server *miniredis.Miniredis

	mu   sync.Mutex
	now  func() time.Time
	last time.Time
}

// move advances the clock, and returns its time, and also the time before if it was set back.
func (c *embeddedClock) move() (now, back time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now().Round(0); now.Sub(c.last).Abs() >= time.Millisecond { // as Redis: its keys live by the wall clock
		if now.Before(c.last) {
			back = c.last
		}
		c.server.SetTime(now)
		c.last = now
	}
	return c.last, back
}

// hold stops the clock at a moment, and returns what it followed.
func (c *embeddedClock) hold(at time.Time) (was func() time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was = c.now
	c.now, c.last = func() time.Time { return at }, at
	c.server.SetTime(at)
	return was
}

// tick advances the clock. With a log that is done where the moment is noted.
func (e *Embedded) tick() {
	if e.recorder.Load() == nil {
		e.clock.move()
	}
}

// NewEmbedded starts an embedded server.
func NewEmbedded() *Embedded {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	clock := &embeddedClock{server: mini, now: time.Now}
	clock.move()
	e := &Embedded{server: mini, clock: clock}
	e.pools = newPools(Options{}.withDefaults(), func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", "embedded", redis.DialReadTimeout(10*time.Second),
			redis.DialContextFunc(func(context.Context, string, string) (net.Conn, error) { return e.dial() }))
	}, nil)
	return e
}

// dial connects to the server unless it is closed: dialling would start it again.
func (e *Embedded) dial() (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, net.ErrClosed
	}
	conn, err := e.server.Dial()
	if err != nil {
		return nil, err
	}
	e.dialed = true
	e.hook(e.server.Server())
	return newBuffered(conn, e.tick), nil
}

// hook has us see each command before the server does. The caller holds mu.
func (e *Embedded) hook(srv *server.Server) {
	if e.lags != nil && e.lags.server == srv { // a test restarts it
		return
	}
	l := &lags{server: srv, counted: make(map[string]map[string]lag)}
	e.lags = l
	srv.SetPreHook(func(c *server.Peer, name string, args ...string) bool {
		if _, own := l.own.Load(c); own {
			return false
		}
		if r := e.recorder.Load(); r != nil && r.hook(c, name, args...) {
			return true
		}
		return l.hook(c, name, args)
	})
}

// Conn lends a connection.
func (e *Embedded) Conn(ctx context.Context, key string) (redis.Conn, error) {
	return e.connFor(ctx, key, ordinary)
}

// VitalConn lends a connection for a heartbeat, a claim or what returns a claim.
func (e *Embedded) VitalConn(ctx context.Context, key string) (redis.Conn, error) {
	return e.connFor(ctx, key, vital)
}

// GroupConn lends a connection for a step of a consumer group.
func (e *Embedded) GroupConn(ctx context.Context, key string) (redis.Conn, error) {
	return e.connFor(ctx, key, groups)
}

// BlockingConn lends a connection for a call that blocks, or a subscription.
func (e *Embedded) BlockingConn(ctx context.Context, key string) (redis.Conn, error) {
	return e.connFor(ctx, key, blocking)
}

func (e *Embedded) connFor(ctx context.Context, _ string, p purpose) (redis.Conn, error) {
	return e.pools.lend(ctx, p)
}

// Name returns "embedded".
func (e *Embedded) Name() string { return "embedded" }

// Survey tells nothing but the name.
func (e *Embedded) Survey(context.Context) ([]Node, error) { return []Node{{Name: e.Name()}}, nil }

// Miniredis returns the server itself, for tests that inject faults.
func (e *Embedded) Miniredis() *miniredis.Miniredis { return e.server }

// SetClock has the server use another clock from its next command on, for tests.
func (e *Embedded) SetClock(now func() time.Time) {
	e.clock.mu.Lock()
	defer e.clock.mu.Unlock()
	e.clock.now = now
}

// Close ends the server and drops its data.
func (e *Embedded) Close() error {
	err := e.pools.Close()
	e.mu.Lock()
	was := e.closed
	e.closed = true
	door := e.door
	e.mu.Unlock()
	if door != nil {
		door.close()
	}
	if r := e.recorder.Load(); r != nil && !was {
		close(r.closed)
	}
	e.server.Close()
	return err
}
