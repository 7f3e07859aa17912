package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/testing/mutants"
)

// operation is what Redis does atomically: a command, a script, or everything from MULTI
// to EXEC.
type operation [][]string

func (o operation) String() string {
	lines := make([]string, len(o))
	for i := range o {
		lines[i] = strings.Join(o[i], unit)
	}
	return strings.Join(lines, record)
}

func parseOperation(text string) operation {
	var o operation
	for _, line := range strings.Split(text, record) {
		o = append(o, strings.Split(line, unit))
	}
	return o
}

// scripts are the texts that clients sent, by the digest that names them. A mutation
// changes the text behind the digest.
type scripts struct {
	mutate func(text string) (string, error)

	mu    sync.Mutex
	texts map[string]string // by the digest that clients know
	names map[string]string // by the same digest, what their own comments say
	err   error             // of a mutation that does not fit
}

func newScripts(mutate func(text string) (string, error)) *scripts {
	return &scripts{mutate: mutate, texts: make(map[string]string), names: make(map[string]string)}
}

func digest(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (s *scripts) add(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sha := digest(text)
	if _, known := s.texts[sha]; !known {
		run := text
		if s.mutate != nil {
			var err error
			if run, err = s.mutate(text); err != nil {
				run, s.err = text, err
			}
		}
		s.texts[sha], s.names[sha] = run, mutants.ScriptName(text)
	}
	return sha
}

func (s *scripts) text(sha string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.texts[sha]
	return text, ok
}

// name returns the name of the script that an operation is, or "" if it is none.
func (s *scripts) name(o operation) string {
	if o[0][0] != "EVALSHA" {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[o[0][1]]
}

// describe describes an operation in one line.
func (s *scripts) describe(o operation) string {
	var parts []string
	for _, c := range o {
		switch {
		case c[0] == "EVALSHA":
			text, _ := s.text(c[1])
			var args []string
			var keys int
			_, _ = fmt.Sscan(c[2], &keys)
			args = append(args, c[3+keys:]...)
			parts = append(parts, mutants.ScriptName(text)+" "+strings.Join(args, " "))
		case c[0] == "MULTI" || c[0] == "EXEC" || c[0] == "TIME":
		default:
			parts = append(parts, strings.Join(c, " "))
		}
	}
	return strings.ReplaceAll(strings.Join(parts, "; "), tag, "")
}

// holder decides when an operation is done and returns its reply.
type holder interface {
	step(o operation) (reply string)
}

// server lends connections on which every operation is held.
type server struct {
	holder  holder
	scripts *scripts
}

func (s *server) Conn(context.Context, string) (redis.Conn, error) {
	return &conn{server: s}, nil
}

type conn struct {
	server  *server
	sent    []([]string)
	replies []any
	err     error
}

func (c *conn) Close() error { return nil }
func (c *conn) Err() error   { return c.err }
func (c *conn) Flush() error { return c.err }

func (c *conn) Send(name string, args ...any) error {
	c.sent = append(c.sent, command(name, args))
	return c.err
}

func (c *conn) Do(name string, args ...any) (any, error) {
	if len(c.sent) > 0 {
		return nil, errors.New("explore: Do behind a pipeline")
	}
	line := command(name, args)
	switch name {
	case "EVALSHA":
		if _, known := c.server.scripts.text(line[1]); !known {
			return nil, redis.Error("NOSCRIPT No matching script.")
		}
	case "EVAL":
		line[0], line[1] = "EVALSHA", c.server.scripts.add(line[1])
	}
	c.sent = append(c.sent, line)
	return c.Receive()
}

// Receive has the next of the sent operations done, unless its replies are there already.
// TIME is done at once, because the clock stands still.
func (c *conn) Receive() (any, error) {
	if c.err != nil {
		return nil, c.err
	}
	if len(c.replies) == 0 {
		if len(c.sent) == 0 {
			return nil, errors.New("explore: nothing was sent")
		}
		n := 1
		if c.sent[0][0] == "MULTI" {
			for c.sent[n-1][0] != "EXEC" {
				n++
			}
		}
		for n < len(c.sent) && (c.sent[n][0] == "TIME" || c.sent[n-1][0] == "TIME") {
			n++
		}
		next := operation(c.sent[:n:n])
		c.sent = c.sent[n:]
		c.replies, c.err = decode(c.server.holder.step(next))
		if c.err != nil {
			return nil, c.err
		}
	}
	reply := c.replies[0]
	c.replies = c.replies[1:]
	if err, failed := reply.(redis.Error); failed {
		return nil, err
	}
	return reply, nil
}

func (c *conn) DoWithTimeout(_ time.Duration, name string, args ...any) (any, error) {
	return c.Do(name, args...)
}

func (c *conn) ReceiveWithTimeout(time.Duration) (any, error) { return c.Receive() }

func command(name string, args []any) []string {
	line := []string{name}
	for _, a := range args {
		switch a := a.(type) {
		case []byte:
			line = append(line, string(a))
		case nil:
			line = append(line, "")
		default:
			line = append(line, fmt.Sprint(a))
		}
	}
	return line
}
