package redistest

import (
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Writes before Keep survive, and those that somebody waits for. Of the others nothing is left,
// unless the failure loses nothing.
func TestLosing(t *testing.T) {
	t.Parallel()
	EachLosing(t, func(t *testing.T, server *Losing) {
		do := func(commands ...[]any) (last any) {
			t.Helper()
			conn, err := server.Conn(t.Context(), "")
			must(t, err)
			defer conn.Close()
			for _, c := range commands {
				must(t, conn.Send(c[0].(string), c[1:]...))
			}
			must(t, conn.Flush())
			for range commands {
				last, _ = redis.ReceiveWithTimeout(conn, readyWithin) // an old server does not know WAITAOF
			}
			return last
		}
		do([]any{"SET", "kept", 1})
		server.Keep()
		do([]any{"SET", "confirmed", 1}, []any{"WAIT", server.Replicas, 2000}, []any{"WAITAOF", 1, 0, 2000})
		do([]any{"SET", "late", 1})
		server.Lose()
		for name, want := range map[string]bool{"kept": true, "confirmed": !server.Unsure, "late": server.Lossless} {
			if there := do([]any{"EXISTS", name}) == any(int64(1)); there != want {
				t.Errorf("%s is there: %v", name, there)
			}
		}
		do([]any{"SET", "after", 1})
	})
}
