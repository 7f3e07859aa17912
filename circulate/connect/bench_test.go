package connect_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// BenchmarkCall lends a connection, does one command, and returns the connection, through
// each way to reach the same kind of server.
func BenchmarkCall(b *testing.B) {
	cluster := redistest.StartCluster(b, 0)
	plain := redistest.Connect(b, cluster.Owner(b, connect.Slot("key")))
	for _, way := range []struct {
		name   string
		server connect.Server
	}{
		{"plain", plain},
		{"cluster", cluster.Connect(b)},
		{"sentinel", redistest.StartSentinels(b).Connect(b)},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				conn, err := way.server.Conn(b.Context(), "key")
				if err != nil {
					b.Fatal(err)
				}
				if _, err := redis.DoWithTimeout(conn, time.Second, "GET", "key"); err != nil {
					b.Fatal(err)
				}
				_ = conn.Close()
			}
		})
	}
}
