package sqlonce_test

import (
	"fmt"
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery/sqlonce"
	"github.com/rounds-dev/rounds/testing/pgtest"
)

// BenchmarkHandle applies new messages, one row each, by one consumer, with
// commits that reach the disk as they do by default.
func BenchmarkHandle(b *testing.B) {
	b.Run("PostgreSQL", func(b *testing.B) {
		server := pgtest.Start(b, pgtest.WithSettings("fsync=on"))
		benchmark(b, newWorld(b, server.Database(b), sqlonce.PostgreSQL))
	})
	b.Run("SQLite", func(b *testing.B) {
		benchmark(b, newWorld(b, openSQLite(b, "&_pragma=synchronous(FULL)"), sqlonce.SQLite))
	})
}

func benchmark(b *testing.B, w *world) {
	h := w.handler(apply, sqlonce.Options{MaxBatch: 1000})
	next := 0
	for _, size := range []int{1, 16, 128, 1000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			for b.Loop() {
				batch := messages(100, size)
				for i := range batch {
					batch[i].Message.ID = fmt.Sprintf("%016d", next)
					next++
				}
				if errs := h.Handle(b.Context(), batch); errs != nil {
					b.Fatal(errs)
				}
			}
			b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
