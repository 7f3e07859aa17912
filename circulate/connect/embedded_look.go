package connect

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

const (
	// lookCommand is the command by which the embedded server calls us. While no Look is
	// under way it does nothing.
	lookCommand = "ROUNDS.LOOK"
	// lookScript calls it: within a script, the server's lock is held.
	lookScript = "return redis.call('" + lookCommand + "')"
	lookBuffer = 64 << 10
)

// look is what Look calls next; nil: nothing.
type look = atomic.Pointer[func(c *server.Peer)]

// Look calls a function while the embedded server does nothing else: no command of anybody
// takes place between the first command that the function does and the last. What the server
// replies to each is appended to replies, in Redis' protocol. Look returns how long the server
// stood still. Blocking commands must not be done.
func (e *Embedded) Look(replies *bytes.Buffer, fn func(do func(command ...string)) error) (time.Duration, error) {
	e.looking.Lock()
	defer e.looking.Unlock()
	e.mu.Lock() // the server is not closed meanwhile
	defer e.mu.Unlock()
	srv, err := e.started()
	if err != nil {
		return 0, err
	}
	e.tick()
	var stood time.Duration
	called, failed := false, error(nil)
	call := func(c *server.Peer) {
		called = true
		began := time.Now()
		own := server.NewPeer(bufio.NewWriterSize(replies, lookBuffer))
		own.Ctx = c.Ctx // of a script: it has the lock
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
	if e.server.Server() == nil { // nobody has dialled yet
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
