package faketime

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
)

// ErrCut is what a caller gets whose connection broke.
var ErrCut = errors.New("connection cut")

// Fate is what becomes of a step.
type Fate uint8

// Fates.
const (
	Healthy   Fate = iota
	NotDone        // the connection breaks before the command gets there
	ReplyLost      // the command is done, and its reply does not arrive
)

// Point is where in a call a test comes in between.
type Point uint8

// Points. Whatever is not healthy at one refuses the connection at Connect, leaves
// a pipeline's command unsent at Send, and loses the reply at those that have one.
const (
	Connect  Point = iota // a connection is asked for
	Call                  // a command by itself, as scripts are, is about to be sent
	Called                // and its reply is there
	Send                  // a command of a pipeline is about to be sent
	Receive               // the reply to one is there
	Notified              // a subscription was told something
)

// Step is a point of a process's way to Redis.
type Step struct {
	At      Point
	Key     string // Connect: whose server is wanted
	Command string // Call, Called and Send
	Args    []any  // likewise
	Reply   any    // Called, Receive and Notified
}

// Faulty is a server whose connections fail as a test says.
type Faulty struct {
	circulate.Server

	// Quiet keeps subscriptions from being pinged: a week has many seconds. Set it
	// before a connection is made.
	Quiet bool

	mu     sync.Mutex
	decide func(s Step) Fate
}

// Set has a function decide from now on what becomes of each step; nil: all is
// healthy. It may be called by several at once, and may use Redis itself.
func (f *Faulty) Set(decide func(s Step) Fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decide = decide
}

func (f *Faulty) fate(s Step) Fate {
	f.mu.Lock()
	decide := f.decide
	f.mu.Unlock()
	if decide == nil {
		return Healthy
	}
	return decide(s)
}

// Conn lends a connection of the server's.
func (f *Faulty) Conn(ctx context.Context, key string) (redis.Conn, error) {
	if f.fate(Step{At: Connect, Key: key}) != Healthy {
		return nil, ErrCut
	}
	conn, err := f.Server.Conn(ctx, key)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: conn, server: f}, nil
}

type faultyConn struct {
	redis.Conn
	server     *Faulty
	subscribed bool
}

// DoWithTimeout is what scripts go through.
func (c *faultyConn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	fate := c.server.fate(Step{At: Call, Command: name, Args: args})
	if fate == NotDone {
		return nil, ErrCut
	}
	reply, err := redis.DoWithTimeout(c.Conn, timeout, name, args...)
	if fate == ReplyLost || c.server.fate(Step{At: Called, Command: name, Args: args, Reply: reply}) != Healthy {
		return nil, ErrCut
	}
	return reply, err
}

// Send is how pipelines begin, and subscriptions.
func (c *faultyConn) Send(name string, args ...any) error {
	if name == "SUBSCRIBE" {
		c.subscribed = true
	}
	if name == "PING" && c.server.Quiet {
		return nil
	}
	if c.server.fate(Step{At: Send, Command: name, Args: args}) != Healthy {
		return ErrCut
	}
	return c.Conn.Send(name, args...)
}

// ReceiveWithTimeout is what the replies of pipelines come through.
func (c *faultyConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	at := Receive
	if c.subscribed {
		at = Notified
	}
	if c.subscribed && c.server.Quiet {
		timeout = 0 // none
	}
	reply, err := redis.ReceiveWithTimeout(c.Conn, timeout)
	if c.server.fate(Step{At: at, Reply: reply}) != Healthy {
		return nil, ErrCut
	}
	return reply, err
}
