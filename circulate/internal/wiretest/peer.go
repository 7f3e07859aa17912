// Package wiretest has a server with scripted replies, and tests that every step over a
// wire to it must pass. Only tests use it.
package wiretest

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Answer decides how long the server pauses before its reply to a command, and what it
// replies. With an empty text it does not reply.
type Answer func(nth int, name string) (pause time.Duration, reply string)

// silence never replies.
func silence(int, string) (time.Duration, string) { return 0, "" }

// Peer is a server with scripted replies.
type Peer struct {
	answer Answer

	sent    atomic.Int64
	serving sync.WaitGroup
}

// Against runs a test in fake time on a wire to a server with that Answer.
func Against(t *testing.T, answer Answer, test func(t *testing.T, w *wire.Wire, p *Peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &Peer{answer: answer}
		test(t, wire.New(p, "rounds", wire.Options{}), p)
		p.serving.Wait()
	})
}

// Sent returns how many commands have arrived.
func (p *Peer) Sent() int64 { return p.sent.Load() }

// Conn lends a connection.
func (p *Peer) Conn(context.Context, string) (redis.Conn, error) {
	ours, theirs := net.Pipe()
	p.serving.Go(func() { p.serve(theirs) })
	return redis.NewConn(ours, 10*time.Second, 5*time.Second), nil
}

// serve answers a client's commands, each after the pause that answer names.
func (p *Peer) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	commands := make(chan string, 100)
	go func() {
		defer close(commands)
		in := bufio.NewReader(conn)
		for {
			name, err := readCommand(in)
			if err != nil {
				return
			}
			commands <- name
		}
	}()
	for name := range commands {
		pause, reply := p.answer(int(p.sent.Add(1)), name)
		time.Sleep(pause)
		if _, err := io.WriteString(conn, reply); err != nil {
			_ = conn.Close()
		}
	}
}

// readCommand reads an array of bulk strings and returns the first.
func readCommand(in *bufio.Reader) (string, error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	if err != nil {
		return "", err
	}
	name := ""
	for i := range n {
		size, err := number()
		if err != nil {
			return "", err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return "", err
		}
		if i == 0 {
			name = string(text[:size])
		}
	}
	return name, nil
}
