package endtoend

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
)

// point is where a consumer process kills itself: before or after a named step with
// Redis, or in its handler.
type point string

const (
	afterRead        point = "read, after" // with messages in the reply
	beforeEffect     point = "effect, before"
	effectSent       point = "effect, sent" // Redis does it, and no reply arrives
	afterEffect      point = "effect, after"
	beforeAck        point = "XACK, before"
	afterAck         point = "XACK, after"
	beforeRedelivery point = "redeliver, before" // during takeover
	afterRedelivery  point = "redeliver, after"  // during takeover
	afterLease       point = "lease, after"
	beforeHandling   point = "handler, before"
	inTransaction    point = "in the transaction"
	afterHandling    point = "handler, after"
)

// fate decides what happens to a consumer process.
type fate struct {
	role
	reached atomic.Int32 // how often it reached the point where it dies
	steps   atomic.Int32
}

// reach kills the process if its fate says so.
func (f *fate) reach(p point) {
	if f.dies(p) {
		f.die()
	}
}

func (f *fate) dies(p point) bool { return p == f.Dies && f.reached.Add(1) == f.Nth }

// die does kill -9, or SIGSTOP for a process that freezes.
func (f *fate) die() {
	if f.Freezes {
		fmt.Fprintln(os.Stderr, freezes)
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-time.After(time.Second) // the signal may come through another thread, a little later
		return
	}
	fmt.Fprintln(os.Stderr, lastWords, f.Dies)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

const lastWords, freezes = "dies:", "freezes"

// loss says what is lost of the next step: the request, the reply, or nothing.
func (f *fate) loss() (request, reply bool) {
	if f.LoseEach == 0 {
		return false, false
	}
	n := f.steps.Add(1) % f.LoseEach
	return n == f.LoseEach/2, n == 0
}

// faulty is a server that loses some steps, and at some of which the process dies.
type faulty struct {
	circulate.Server
	fate *fate

	mu    sync.Mutex
	names map[string]string // SHA-1 of a script -> what it does
}

// Conn lends a connection.
func (s *faulty) Conn(ctx context.Context, key string) (redis.Conn, error) {
	conn, err := s.Server.Conn(ctx, key)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: conn, server: s}, nil
}

var scriptName = regexp.MustCompile(`(?m)^-- (\w+): `)

// step names what a command does. known is false for a script that was never sent in
// full.
func (s *faulty) step(command string, args []any) (name string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch command {
	case "EVAL":
		text := args[0].(string)
		all := scriptName.FindAllStringSubmatch(text, -1)
		sum := sha1.Sum([]byte(text))
		if s.names == nil {
			s.names = make(map[string]string)
		}
		s.names[hex.EncodeToString(sum[:])] = all[len(all)-1][1]
		return all[len(all)-1][1], true
	case "EVALSHA":
		name, known = s.names[args[0].(string)]
		return name, known
	}
	return command, true
}

type faultyConn struct {
	redis.Conn
	server *faulty
	sent   string // the command whose reply is to be received
}

// errLost is a cut connection: the outcome of the step is unknown.
var errLost = fmt.Errorf("lost on the way: %w", io.ErrUnexpectedEOF)

// DoWithTimeout does a step.
func (c *faultyConn) DoWithTimeout(timeout time.Duration, command string, args ...any) (any, error) {
	step, known := c.server.step(command, args)
	if !known {
		return nil, redis.Error("NOSCRIPT its text has to be seen first")
	}
	f := c.server.fate
	f.reach(point(step + ", before"))
	if f.dies(point(step + ", sent")) {
		_ = c.Conn.Send(command, args...)
		_ = c.Conn.Flush()
		f.die()
	}
	request, lost := f.loss()
	if request {
		return nil, errLost
	}
	reply, err := redis.DoWithTimeout(c.Conn, timeout, command, args...)
	if err == nil && (step != "read" || bringsMessages(reply)) {
		f.reach(point(step + ", after"))
	}
	if lost {
		return nil, errLost
	}
	return reply, err
}

// bringsMessages reports whether a read returned messages.
func bringsMessages(reply any) bool {
	values, _ := reply.([]any)
	return len(values) > 4
}

// Send begins a pipeline.
func (c *faultyConn) Send(command string, args ...any) error {
	c.sent = command
	c.server.fate.reach(point(command + ", before"))
	return c.Conn.Send(command, args...)
}

// ReceiveWithTimeout ends one.
func (c *faultyConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := redis.ReceiveWithTimeout(c.Conn, timeout)
	if err == nil {
		c.server.fate.reach(point(c.sent + ", after"))
	}
	if _, lost := c.server.fate.loss(); lost {
		return nil, errLost
	}
	return reply, err
}
