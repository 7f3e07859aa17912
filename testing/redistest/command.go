package redistest

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// WithQuickFailover has a server of a cluster or of sentinels declared dead after a
// second or less of silence. Without it, a busy machine causes no failover.
func WithQuickFailover() Option { return func(s *Server) { s.quick = true } }

// silence returns which of two times the options ask for.
func silence(options []Option, quick, slow string) string {
	var asked Server
	for _, o := range options {
		o(&asked)
	}
	if asked.quick {
		return quick
	}
	return slow
}

// command does a command on a connection of its own.
func (s *Server) command(name string, args ...any) (any, error) {
	return s.commandWithin(connect.Options{}, name, args...)
}

// LimitMemory sets maxmemory, as in a configuration file: "64mb"; "0" is no limit.
func (s *Server) LimitMemory(tb testing.TB, maxmemory string) {
	tb.Helper()
	if _, err := s.command("CONFIG", "SET", "maxmemory", maxmemory); err != nil {
		tb.Fatal(err)
	}
}

// glance is command with short timeouts, for a server that may not answer.
func (s *Server) glance(name string, args ...any) (any, error) {
	return s.commandWithin(connect.Options{ConnectTimeout: time.Second, ReadTimeout: time.Second}, name, args...)
}

func (s *Server) commandWithin(o connect.Options, name string, args ...any) (any, error) {
	conn, err := s.dial(o)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reply, err := conn.Do(name, args...)
	if err != nil {
		return nil, fmt.Errorf("%s %.3v at %s: %w", name, args, filepath.Base(s.Dir), err)
	}
	return reply, nil
}

// field returns a field of CLUSTER INFO or INFO, or "" if the server does not answer.
func (s *Server) field(name, field string) string {
	var args []any
	if name == "CLUSTER" {
		args = append(args, "INFO")
	}
	text, err := redis.String(s.glance(name, args...))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value
		}
	}
	return ""
}

// await waits until a condition holds, for at most 30 seconds.
func await(what string, is func() bool) error {
	deadline := time.After(30 * time.Second)
	for !is() {
		select {
		case <-deadline:
			return fmt.Errorf("after 30 s not so: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// must ends the test on an error.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// The ports of servers that are killed and started again are below those that systems use
// for outgoing connections, which could be taken meanwhile. The same holds for the ports
// of a cluster's bus, 10,000 above.
const leastPort, mostPort, busAbove = 20_000, 22_699, 10_000

// lastingPort returns a free port that stays free while its server is away.
func lastingPort(random func(n int) int) (int, error) {
	var err error
	for range 200 {
		port := leastPort + random(mostPort-leastPort+1)
		if err = free(port); err == nil {
			if err = free(port + busAbove); err == nil {
				return port, nil
			}
		}
	}
	return 0, fmt.Errorf("no two free ports %d apart: %w", busAbove, err)
}

func free(port int) error {
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return err
	}
	return l.Close()
}
