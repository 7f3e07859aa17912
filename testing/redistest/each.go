package redistest

import (
	"context"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// Redis is a server that a test runs against. It lends connections as circulate.Server
// requires.
type Redis interface {
	Conn(ctx context.Context, key string) (redis.Conn, error)
	Name() string
	Close() error
}

// Each runs fn against the embedded server and a real one, as subtests, each on
// a server of its own.
func Each(t *testing.T, fn func(t *testing.T, server Redis)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		fn(t, kept(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		fn(t, Connect(t, Start(t)))
	})
}

// Embedded starts the embedded server and ends it with the test.
func Embedded(tb testing.TB) *connect.Embedded {
	tb.Helper()
	e := connect.NewEmbedded()
	tb.Cleanup(func() { _ = e.Close() })
	return e
}

// Connect opens a pool to a server and closes it with the test.
func Connect(tb testing.TB, s *Server) *connect.Single {
	tb.Helper()
	single, err := connect.OpenSingle(s.URL(), connect.Options{CAFile: s.CAFile()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = single.Close() })
	return single
}
