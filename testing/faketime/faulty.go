package faketime

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
)

// ErrCut is the error of a caller whose connection broke.
var ErrCut = errors.New("connection cut")

// Fate is the outcome of a step.
type Fate uint8

// Fates.
const (
	Healthy   Fate = iota
	NotDone        // the connection breaks before the command arrives
	ReplyLost      // the command is done, and its reply does not arrive
)

// Point is a point in a call at which a test can intervene.
type Point uint8

// Points. A fate other than healthy refuses the connection at Connect, leaves a
// pipeline's command unsent at Send, and loses the reply at points that have one.
const (
	Connect  Point = iota // a connection is asked for
	Call                  // a command by itself, such as a script, is about to be sent
	Called                // its reply has arrived
	Send                  // a command of a pipeline is about to be sent
	Receive               // the reply to a command of a pipeline has arrived
	Notified              // a subscription has received something
)

// Step is one point of a process's call to Redis.
type Step struct {
	At      Point
	Key     string // Connect: the key whose server is wanted
	Command string // Call, Called and Send
	Args    []any  // of Call, Called and Send
	Reply   any    // Called, Receive and Notified
}

// ReturnsMessages reports whether a step returns accounts of which some have messages.
func (s Step) ReturnsMessages() bool {
	return s.Command == "EVALSHA" && slices.ContainsFunc(s.Args, func(a any) bool {
		brought, ok := a.([]byte) // a letter for each account, as the script of a return has them
		return ok && len(bytes.Trim(brought, "-cmbMBrR")) == 0 && bytes.ContainsAny(brought, "mbMBrR")
	})
}

// Faulty is a server whose connections fail as a test says.
type Faulty struct {
	circulate.Server

	// Quiet stops subscriptions from being pinged, because a fake week has many seconds.
	// Set it before a connection is made.
	Quiet bool

	mu     sync.Mutex
	decide func(s Step) Fate
}

// Set has a function decide the fate of each step from now on. If nil, all steps are
// healthy. The function may be called concurrently, and may use Redis itself.
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

// Conn lends a connection to the server.
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

// DoWithTimeout does a single command, such as a script.
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

// Send begins a pipeline or a subscription.
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

// ReceiveWithTimeout receives the replies of a pipeline.
func (c *faultyConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	at := Receive
	if c.subscribed {
		at = Notified
	}
	if c.subscribed && c.server.Quiet && timeout > 0 {
		timeout = 0 // no timeout
	}
	reply, err := redis.ReceiveWithTimeout(c.Conn, timeout)
	if c.server.fate(Step{At: at, Reply: reply}) != Healthy {
		return nil, ErrCut
	}
	return reply, err
}
