package redistest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// WithQuickFailover has a server of a cluster or of sentinels taken for dead after
// a second or less of silence. Without it a busy machine fails nobody over.
func WithQuickFailover() Option { return func(s *Server) { s.quick = true } }

// silence is the one of two times that the options ask for.
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
	conn, err := s.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Do(name, args...)
}

// field is one of CLUSTER INFO or INFO; empty where the server does not answer.
func (s *Server) field(name, field string) string {
	var args []any
	if name == "CLUSTER" {
		args = append(args, "INFO")
	}
	text, err := redis.String(s.command(name, args...))
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

// eventually waits until something is so, for at most 30 seconds.
func eventually(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	deadline := time.After(30 * time.Second)
	for !is() {
		select {
		case <-deadline:
			tb.Fatalf("after 30 s not so: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func must[T any](tb testing.TB, read func(any, error) (T, error)) func(any, error) T {
	return func(reply any, err error) T {
		tb.Helper()
		value, err := read(reply, err)
		if err != nil {
			tb.Fatal(fmt.Errorf("redis: %w", err))
		}
		return value
	}
}
