package connect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"
)

// Embedded is a Redis inside the process, in memory, for a laptop and for tests. It
// listens nowhere unless Listen is called, and its data ends with the process unless
// package datadir saves it.
type Embedded struct {
	lender
	server *miniredis.Miniredis
	clock  *embeddedClock
	pools  *pools

	mu     sync.Mutex // guards the server, which must not be dialled while it is closed
	dialed bool
	closed bool
	door   *doorway // nil: the server listens nowhere

	lags *lags // of the current server; guarded by mu

	looking sync.Mutex // one Look at a time
	look    look

	recorder atomic.Pointer[recorder] // nil: there is no log
	redoing  *shadow                  // repeats the commands of a log; guarded by mu
}

// embeddedClock is the server's clock. It stands still while commands run, and advances
// between them by a millisecond or more. Each time it changes, the server searches all
// keys for expired ones, which was most of its work within scripts.
type embeddedClock struct {
	server *miniredis.Miniredis

	mu   sync.Mutex
	now  func() time.Time
	last time.Time
}

// move advances the clock and returns its time. If the clock was set back, it also
// returns the time before.
func (c *embeddedClock) move() (now, back time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now().Round(0); now.Sub(c.last).Abs() >= time.Millisecond { // as in Redis, keys live by the wall clock
		if now.Before(c.last) {
			back = c.last
		}
		c.server.SetTime(now)
		c.last = now
	}
	return c.last, back
}

// hold stops the clock at a moment, and returns the time source that it followed.
func (c *embeddedClock) hold(at time.Time) (was func() time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was = c.now
	c.now, c.last = func() time.Time { return at }, at
	c.server.SetTime(at)
	return was
}

// tick advances the clock. With a log, the recorder does that where it notes the moment.
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
	}, pingIdle)
	e.lender = e.pools.connFor
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

// hook shows us each command before the server sees it. The caller holds mu.
func (e *Embedded) hook(srv *server.Server) {
	if e.lags != nil && e.lags.server == srv { // a test restarts the server
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

// Name returns "embedded".
func (e *Embedded) Name() string { return "embedded" }

// Survey returns the name and nothing else.
func (e *Embedded) Survey(context.Context) ([]Node, error) { return []Node{{Name: e.Name()}}, nil }

// Miniredis returns the server itself, for tests that inject faults.
func (e *Embedded) Miniredis() *miniredis.Miniredis { return e.server }

// SetClock makes the server use another clock from its next command on, for tests.
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

const (
	// lookCommand is the command by which the embedded server calls us. It does nothing
	// unless a Look is under way.
	lookCommand = "ROUNDS.LOOK"
	// lookScript calls it: within a script, the server's lock is held.
	lookScript = "return redis.call('" + lookCommand + "')"
	lookBuffer = 64 << 10
)

// look is the function that lookCommand calls, or nil.
type look = atomic.Pointer[func(c *server.Peer)]

// Look calls a function while the embedded server does nothing else: no other command
// takes place between the function's first command and its last. The server's replies are
// appended to replies, in Redis' protocol. Look returns how long the server stood still.
// The function must not do blocking commands.
func (e *Embedded) Look(replies *bytes.Buffer, fn func(do func(command ...string)) error) (time.Duration, error) {
	e.looking.Lock()
	defer e.looking.Unlock()
	e.mu.Lock() // so that the server is not closed meanwhile
	defer e.mu.Unlock()
	srv, err := e.started()
	if err != nil {
		return 0, err
	}
	e.tick()
	var stood time.Duration
	var called bool
	var failed error
	call := func(c *server.Peer) {
		called = true
		began := time.Now()
		own := server.NewPeer(bufio.NewWriterSize(replies, lookBuffer))
		own.Ctx = c.Ctx // the script's, which has the server's lock
		failed = fn(func(command ...string) {
			srv.Dispatch(own, command)
			own.Flush()
		})
		stood = time.Since(began)
		c.WriteOK()
	}
	e.look.Store(&call)
	defer e.look.Store(nil)
	var reply bytes.Buffer
	caller := server.NewPeer(bufio.NewWriter(&reply))
	srv.Dispatch(caller, []string{"EVAL", lookScript, "0"})
	caller.Flush()
	if r := e.recorder.Load(); r != nil {
		r.clients.Delete(caller)
	}
	if !called {
		return 0, fmt.Errorf("embedded redis: %q", reply.String())
	}
	return stood, failed
}

// started returns the server, which knows lookCommand. The caller holds mu.
func (e *Embedded) started() (*server.Server, error) {
	if e.closed {
		return nil, net.ErrClosed
	}
	if e.server.Server() == nil { // no client has dialled yet
		conn, err := e.server.Dial()
		if err != nil {
			return nil, err
		}
		_ = conn.Close()
	}
	srv := e.server.Server()
	if srv == nil {
		return nil, net.ErrClosed
	}
	if !srv.IsRegisteredCommand(lookCommand) {
		if err := srv.Register(lookCommand, func(c *server.Peer, _ string, _ []string) {
			if fn := e.look.Swap(nil); fn != nil {
				(*fn)(c)
				return
			}
			c.WriteError("ERR unknown command")
		}); err != nil {
			return nil, errors.Join(errors.New("embedded redis"), err)
		}
	}
	return srv, nil
}

// unfit returns why a log cannot have a command, or "" if it can.
func unfit(name string, args []string) string {
	other := name == "SELECT" && len(args) > 0 && strings.Trim(args[0], "0") != ""
	if other || slices.Contains(unkept, name) {
		return "ERR " + name + " cannot be kept in a data directory"
	}
	return ""
}

// Commands in capital letters.
var (
	// asTheyAre are done by the client itself: they change the client's state, and no
	// key.
	asTheyAre = []string{"SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "AUTH", "HELLO", "CLIENT", "QUIT"}
	// harmless change no key, although the server does not call them read-only.
	harmless = append([]string{
		"CLUSTER", "ECHO", "PING", "SELECT", "WAIT", "OBJECT", "PUBLISH", "PUBSUB", "EVAL", "EVALSHA", "SCRIPT", "COMMAND",
		"INFO", "TIME", "MEMORY", "XINFO", "DISCARD", "EXEC", "MULTI", "UNWATCH", "WATCH", lookCommand,
	}, asTheyAre...)
	// unkept cannot be logged: other databases are in no image, commands that take
	// something at random would take something else the next time, and commands that wait
	// would block all clients.
	unkept = []string{
		"SWAPDB", "MOVE", "SPOP", "BLPOP", "BRPOP", "BRPOPLPUSH", "BLMOVE", "BZMPOP", "BZPOPMAX", "BZPOPMIN",
	}
	// counted reply how much they changed; 0: nothing. XACK does not count deleted
	// entries.
	counted = []string{
		"DEL", "UNLINK", "EXPIRE", "EXPIREAT", "PEXPIRE", "PEXPIREAT", "PERSIST", "HDEL", "HSETNX", "LREM", "SADD", "SREM", "SETNX",
		"XDEL", "XTRIM", "ZREM", "ZREMRANGEBYLEX", "ZREMRANGEBYRANK", "ZREMRANGEBYSCORE",
	}
	// moved reply with what they moved; null: nothing.
	moved = []string{"LMOVE", "LPOP", "RPOP", "RPOPLPUSH", "XREADGROUP", "GETDEL"}
)

// changedNothing reports whether a command changed nothing, judging by its reply.
func changedNothing(name string, reply []byte) bool {
	switch text := string(reply[:min(len(reply), 5)]); text {
	case ":0\r\n":
		return slices.Contains(counted, name)
	case "$-1\r\n", "*-1\r\n", "_\r\n":
		return slices.Contains(moved, name)
	}
	return false
}

// blockAt returns the index of BLOCK among the arguments; -1: the command does not wait.
func blockAt(args []string) int {
	for i, arg := range args {
		switch {
		case strings.EqualFold(arg, "STREAMS"):
			return -1
		case strings.EqualFold(arg, "BLOCK") && i+1 < len(args):
			return i
		}
	}
	return -1
}

// skipReply returns the replies after the first.
func skipReply(replies []byte) []byte {
	line, rest, _ := bytes.Cut(replies, []byte("\r\n"))
	if len(line) == 0 {
		return nil
	}
	n, _ := strconv.Atoi(string(line[1:]))
	switch line[0] {
	case '$':
		if n < 0 {
			return rest
		}
		return rest[min(n+len("\r\n"), len(rest)):]
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return rest
	}
	for range n {
		rest = skipReply(rest)
	}
	return rest
}

// Redo repeats the commands of a log, at the moment that the log names, in a server
// without a log. Nobody else may use the server until the clock is released.
func (e *Embedded) Redo(at time.Time, effects [][]string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	srv, err := e.started()
	if err != nil {
		return err
	}
	if e.redoing == nil {
		e.redoing = newShadow()
	}
	e.clock.hold(at)
	nobody := &server.Peer{Ctx: e.redoing.peer.Ctx}
	if len(effects) == 0 { // keys that end at this moment end
		effects = [][]string{{"EXISTS", ""}}
	}
	for _, effect := range effects {
		reply := e.redoing.do(srv, nobody, effect)
		if len(reply) == 0 || reply[0] == '-' {
			return fmt.Errorf("%.200q: %w", effect, errors.New(strings.TrimSpace(string(reply))))
		}
	}
	return nil
}

// HoldClock stops the server's clock at a moment, for repeated commands, until release.
func (e *Embedded) HoldClock(at time.Time) (release func()) {
	was := e.clock.hold(at)
	return func() { e.SetClock(was) }
}
