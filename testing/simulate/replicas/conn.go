package replicas

import (
	"bytes"
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

const defaultTimeout = 10 * time.Second

// conn is a connection through a link. A subscription is a connection of its own.
type conn struct {
	link *Link
	key  string

	failed  error
	pending []command
	replies []reply
	sub     *subscription
}

type command struct {
	name string
	args []any
}

type reply struct {
	value any
	err   error // what Redis answered
}

func (c *conn) Close() error {
	if c.sub != nil {
		c.sub.close()
	}
	return nil
}

func (c *conn) Err() error { return c.failed }

func (c *conn) Do(name string, args ...any) (any, error) {
	return c.DoWithTimeout(defaultTimeout, name, args...)
}

// DoWithTimeout does a single command, such as a script.
func (c *conn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	if c.failed != nil {
		return nil, c.failed
	}
	replies, err := c.exchange(timeout, []command{{name, args}})
	if err != nil {
		c.failed = err
		return nil, err
	}
	return replies[0].value, replies[0].err
}

func (c *conn) Send(name string, args ...any) error {
	if c.sub != nil {
		return c.sub.send(name, args...) // another goroutine may be receiving
	}
	if c.failed != nil {
		return c.failed
	}
	c.pending = append(c.pending, command{name, args})
	return nil
}

// Flush is where a pipeline meets its fate.
func (c *conn) Flush() error {
	switch {
	case c.sub != nil:
		return nil
	case c.failed != nil:
		return c.failed
	case len(c.pending) == 0:
		return nil
	case c.pending[0].name == "SUBSCRIBE":
		sub, err := c.link.subscribe(c.pending[0])
		c.sub, c.failed, c.pending = sub, err, nil
		return err
	}
	pending := c.pending
	c.pending = nil
	replies, err := c.exchange(defaultTimeout, pending)
	c.replies, c.failed = replies, err
	return nil // a cut shows when the replies are read
}

func (c *conn) Receive() (any, error) { return c.ReceiveWithTimeout(defaultTimeout) }

func (c *conn) ReceiveWithTimeout(time.Duration) (any, error) {
	switch {
	case c.sub != nil:
		return c.sub.receive()
	case len(c.replies) == 0:
		if c.failed == nil {
			c.failed = errCut
		}
		return nil, c.failed
	}
	next := c.replies[0]
	c.replies = c.replies[1:]
	return next.value, next.err
}

// exchange has commands done by Redis, or not, as the link's state decides.
func (c *conn) exchange(timeout time.Duration, commands []command) ([]reply, error) {
	l := c.link
	l.stand()
	if err := l.broken(); err != nil {
		return nil, err
	}
	f := l.roll(c.key)
	if f.then != nil {
		defer func() { l.Kill(); f.then() }()
	}
	if f.diesBefore {
		return nil, errCut
	}
	if err := c.waitOut(timeout, f, commands); err != nil {
		return nil, err
	}
	switch f.verdict {
	case notDone:
		return nil, errCut
	case late:
		c.doLater(f.late, nil, commands)
		time.Sleep(timeout)
		return nil, l.timedOut()
	}
	if !f.diesAfterward {
		pass(f.there)
		if l.stand(); l.broken() != nil {
			return nil, errCut
		}
	}
	replies, err := l.world.run(timeout, commands)
	if err != nil || f.verdict == replyLost || f.diesAfterward {
		return nil, errCut
	}
	pass(f.back)
	stood := l.stand()
	if l.broken() != nil {
		return nil, errCut
	}
	if stood > timeout && f.afterAll {
		return nil, l.timedOut() // the reply had arrived, but too late
	}
	return replies, nil
}

// waitOut waits while the link hangs. What it holds back may still be done when that
// ends, though nobody waits for it any more.
func (c *conn) waitOut(timeout time.Duration, f fate, commands []command) error {
	l := c.link
	l.mu.Lock()
	hung := l.hung
	if l.conditions.Spares != nil && l.conditions.Spares(c.key) {
		hung = nil
	}
	l.mu.Unlock()
	if hung == nil {
		return nil
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-hung:
		return l.broken()
	case <-timer.C:
	}
	if f.afterAll {
		c.doLater(f.late, hung, commands)
	}
	return l.timedOut()
}

// doLater has commands done after a while, and after the link has stopped hanging, though
// their caller has given up.
func (c *conn) doLater(after time.Duration, hung chan struct{}, commands []command) {
	kept := make([]command, len(commands))
	for i, it := range commands {
		kept[i] = command{it.name, append([]any(nil), it.args...)}
		for j, arg := range kept[i].args {
			if text, ok := arg.([]byte); ok {
				kept[i].args[j] = bytes.Clone(text)
			}
		}
	}
	w := c.link.world
	go func() {
		if hung != nil {
			<-hung
		}
		time.Sleep(after)
		if w.isDown() {
			return // it is lost after all
		}
		// Nobody learns the outcome.
		_, _ = w.run(defaultTimeout, kept)
	}()
}

func pass(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}

// run has Redis do commands.
func (w *World) run(timeout time.Duration, commands []command) ([]reply, error) {
	if w.isDown() {
		return nil, errRefused
	}
	conn, err := w.redis.Conn(context.Background(), "")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	replies := make([]reply, len(commands))
	if refusal := w.refused(); refusal != "" {
		for i := range replies {
			replies[i].err = redis.Error(refusal)
		}
		return replies, nil
	}
	for _, it := range commands {
		it.args = w.mutants.Instead(it.name, it.args)
		if err := conn.Send(it.name, it.args...); err != nil {
			return nil, err
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	for i := range replies {
		value, err := redis.ReceiveWithTimeout(conn, timeout)
		if conn.Err() != nil {
			return nil, err
		}
		replies[i] = reply{value, err}
	}
	return replies, nil
}
