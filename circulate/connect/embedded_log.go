package connect

import (
	"bufio"
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// Log stores the changes of an embedded server. It gets effects, as a Redis sends them to
// its replicas: the commands that changed something, including those within scripts, but
// not the scripts. So repeating them needs no script, and no clock but the recorded one.
type Log interface {
	// Append stores the changes of one command, script or transaction, at one moment of
	// the server's clock, in order. The caller gets its reply once Append has returned.
	// After an error the caller is cut off, because the outcome is unknown. No effects
	// mean that the clock was set back after that moment. Calls do not overlap.
	Append(at time.Time, effects [][]string) error
	// Refuses returns why no change is possible now; nil: changes are possible.
	Refuses() error
	// Sync returns once everything that was appended would survive a power failure.
	Sync() error
}

// SetLog appends all changes from now on to a log. Call it once at most, before any
// client has a connection. The server then refuses databases other than the first,
// scripts within transactions, commands that take one of several at random, and blocking
// commands other than XREAD and XREADGROUP. WAITAOF syncs the log.
func (e *Embedded) SetLog(log Log) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dialed || e.recorder.Load() != nil {
		return errors.New("embedded redis: the log must be opened before the server is used")
	}
	srv, err := e.started()
	if err != nil {
		return err
	}
	r := &recorder{
		clock: e.clock, server: srv, log: log, writes: make(map[string]bool), outer: newShadow(), inner: newShadow(),
		woken: make(chan struct{}), closed: make(chan struct{}),
	}
	e.recorder.Store(r)
	e.hook(srv)
	return nil
}

// recorder stands before an embedded server's commands, and appends their effects to its log.
type recorder struct {
	clock   *embeddedClock
	server  *server.Server
	log     Log
	clients sync.Map // *server.Peer -> *client
	closed  chan struct{}

	mu     sync.Mutex // one command at a time; guards what follows
	writes map[string]bool
	outer  *shadow // runs what clients send
	inner  *shadow // runs what scripts call
	woken  chan struct{}

	// Of the command that is being done:
	effects [][]string
	refuses error // why no change is possible
	refused bool  // the client got that as its reply
}

// client is the state of a client that sends commands.
type client struct {
	queue  [][]string // of a transaction
	queues bool       // it is within a transaction
	wrong  string     // why the transaction must not be done; empty: it may be
}

// shadow does commands in place of a client, so that we see the reply before the client
// does.
type shadow struct {
	peer  *server.Peer
	out   *bufio.Writer
	reply bytes.Buffer
}

func newShadow() *shadow {
	s := &shadow{}
	s.out = bufio.NewWriterSize(&s.reply, lookBuffer)
	s.peer = server.NewPeer(s.out)
	return s
}

// do does a command as a client would, and returns the reply, which is valid until the
// next one.
func (s *shadow) do(srv *server.Server, c *server.Peer, command []string) []byte {
	s.reply.Reset()
	s.peer.Ctx, s.peer.Resp3 = c.Ctx, c.Resp3
	srv.Dispatch(s.peer, command)
	s.peer.Flush()
	c.Ctx = s.peer.Ctx
	if s.reply.Cap() > 16*lookBuffer { // one of many messages, say
		reply := slices.Clone(s.reply.Bytes())
		s.reply = bytes.Buffer{}
		return reply
	}
	return s.reply.Bytes()
}

// hook is called before each command, including those of scripts. For a script's command
// the server is locked, and so are we.
func (r *recorder) hook(c *server.Peer, name string, args ...string) bool {
	if c == r.outer.peer || c == r.inner.peer {
		return false
	}
	known, ok := r.clients.Load(c)
	if !ok {
		if c.Ctx != nil { // a context from its first command on: it is a script
			return r.nested(c, name, args)
		}
		known = &client{}
		r.clients.Store(c, known)
		c.OnDisconnect(func() { r.clients.Delete(c) })
	}
	switch {
	case slices.Contains(asTheyAre, name):
		return false
	case name == "WAITAOF":
		r.sync(c, args)
	case name == "XREAD" && blockAt(args) >= 0:
		return false
	case name == "XREADGROUP" && blockAt(args) >= 0:
		r.block(c, known.(*client), args)
	default:
		reply, _, ok := r.do(c, known.(*client), name, args)
		r.answer(c, reply, ok)
	}
	return true
}

// answer releases a reply, or cuts the client off if the outcome of its command is
// unknown.
func (r *recorder) answer(c *server.Peer, reply string, ok bool) {
	if !ok {
		c.Close()
		return
	}
	c.WriteRaw(reply)
}

// do does a client's command, and appends its effects to the log before it returns the reply. ok is
// false if the log failed, so that the outcome is unknown. changes is closed at the next change that
// a reader may wait for.
func (r *recorder) do(c *server.Peer, who *client, name string, args []string) (reply string, changes <-chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, back := r.clock.move()
	r.effects, r.refused, r.refuses = r.effects[:0], false, r.log.Refuses()
	if r.refuses == nil && !back.IsZero() && r.log.Append(back, nil) != nil {
		r.refuses = r.log.Refuses()
	}
	command := append([]string{name}, args...)
	if why := r.unfit(who, name, args); why != "" {
		r.spoil(c, who, name, why)
		return "-" + why + "\r\n", r.woken, true
	}
	raw := r.outer.do(r.server, c, command)
	if succeeded(raw) {
		r.note(who, name, command, raw)
	}
	if r.refused {
		return "-" + r.misconf() + "\r\n", r.woken, true
	}
	if len(r.effects) == 0 {
		return string(raw), r.woken, true
	}
	if err := r.log.Append(now, r.effects); err != nil {
		return "", r.woken, false
	}
	if slices.ContainsFunc(r.effects, func(effect []string) bool { return effect[0] == "XADD" || effect[0] == "XGROUP" }) {
		close(r.woken)
		r.woken = make(chan struct{})
	}
	return string(raw), r.woken, true
}

// spoil notes that a command of a transaction, if there is one, was refused. A refused EXEC ends the
// transaction.
func (r *recorder) spoil(c *server.Peer, who *client, name, why string) {
	if who.queues {
		who.wrong = why
	}
	if name == "EXEC" {
		r.outer.do(r.server, c, []string{"DISCARD"})
		*who = client{}
	}
}

// succeeded reports whether a reply is there and is no error.
func succeeded(reply []byte) bool { return len(reply) > 0 && reply[0] != '-' }

// note notes the effects of a successful command.
func (r *recorder) note(who *client, name string, command []string, reply []byte) {
	switch {
	case name == "MULTI":
		*who = client{queues: true}
	case name == "DISCARD":
		*who = client{}
	case name == "EXEC":
		r.noteTransaction(who.queue, reply)
		*who = client{}
	case who.queues:
		if bytes.HasPrefix(reply, []byte("+QUEUED")) {
			who.queue = append(who.queue, command)
		}
	case r.write(name) && !changedNothing(name, reply):
		r.effects = append(r.effects, command)
	}
}

// noteTransaction notes the effects of a transaction. Some of its commands may have failed.
func (r *recorder) noteTransaction(queue [][]string, reply []byte) {
	if bytes.HasPrefix(reply, []byte("*-1")) { // a watched key has changed
		return
	}
	_, reply, _ = bytes.Cut(reply, []byte("\r\n"))
	for _, command := range queue {
		next := skipReply(reply)
		if one := reply[:len(reply)-len(next)]; r.write(command[0]) && succeeded(one) && !changedNothing(command[0], one) {
			r.effects = append(r.effects, command)
		}
		reply = next
	}
}

// nested does a script's command, if it is a write, and notes its effect. It reports false for other
// commands, which the server then does itself.
func (r *recorder) nested(c *server.Peer, name string, args []string) bool {
	switch {
	case !r.write(name):
		return false
	case unfit(name, args) != "":
		c.WriteError(unfit(name, args))
		return true
	case r.refuses != nil:
		r.refused = true
		c.WriteError(r.misconf())
		return true
	}
	command := append([]string{name}, args...)
	reply := r.inner.do(r.server, c, command)
	if succeeded(reply) && !changedNothing(name, reply) {
		r.effects = append(r.effects, command)
	}
	c.WriteRaw(string(reply))
	return true
}

// unfit returns why a client's command cannot be done, or "" if it can.
func (r *recorder) unfit(who *client, name string, args []string) string {
	why := unfit(name, args)
	switch {
	case why != "":
		return why
	case name == "EXEC" && who.wrong != "":
		return "EXECABORT Transaction discarded because of previous errors: " + who.wrong
	case who.queues && (name == "EVAL" || name == "EVALSHA"):
		return "ERR a script within a transaction cannot be kept in a data directory"
	case r.refuses != nil && (r.write(name) || name == "EXEC" && slices.ContainsFunc(who.queue, func(command []string) bool { return r.write(command[0]) })):
		return r.misconf()
	}
	return ""
}

func (r *recorder) misconf() string {
	return "MISCONF Errors writing to the data directory: " + strings.Join(strings.Fields(r.refuses.Error()), " ")
}

// write reports whether a command may change something.
func (r *recorder) write(name string) bool {
	writes, known := r.writes[name]
	if !known {
		writes = !slices.Contains(harmless, name) && !r.server.IsReadOnlyCommand(name)
		if r.server.IsRegisteredCommand(name) { // strangers may send any number of unknown ones
			r.writes[name] = writes
		}
	}
	return writes
}

// sync answers WAITAOF: all earlier changes would survive a power failure.
func (r *recorder) sync(c *server.Peer, args []string) {
	if len(args) != 3 {
		c.WriteError("ERR wrong number of arguments for 'waitaof' command")
		return
	}
	if err := r.log.Sync(); err != nil {
		c.WriteError("MISCONF Errors writing to the data directory: " + err.Error())
		return
	}
	c.WriteRaw("*2\r\n:1\r\n:0\r\n")
}

// block does an XREADGROUP that waits. Between its tries other clients go on.
func (r *recorder) block(c *server.Peer, who *client, args []string) {
	at := blockAt(args)
	ms, err := strconv.ParseInt(args[at+1], 10, 64)
	if err != nil || ms < 0 {
		c.WriteError("ERR timeout is not an integer or out of range")
		return
	}
	var over <-chan time.Time
	if ms > 0 {
		t := time.NewTimer(time.Duration(ms) * time.Millisecond)
		defer t.Stop()
		over = t.C
	}
	args = slices.Delete(slices.Clone(args), at, at+2)
	for {
		if c.Closed() {
			return
		}
		reply, changes, ok := r.do(c, who, "XREADGROUP", args)
		if reply != "*-1\r\n" && reply != "_\r\n" || !ok {
			r.answer(c, reply, ok)
			return
		}
		select {
		case <-changes:
		case <-over:
			r.answer(c, reply, true)
			return
		case <-r.closed:
			return
		}
	}
}
