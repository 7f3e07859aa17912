package postgres

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/testing/pgtest"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// BenchmarkHandle stores batches of 256 new messages, 16 at once as a consumer does.
func BenchmarkHandle(b *testing.B) {
	server := pgtest.Start(b, pgtest.WithSettings("fsync=on"))
	p := &place{url: server.URL(server.NewDatabase(b)), table: defaultTable}
	s := p.Open(b)
	if err := s.Prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	const size = 256
	var accounts atomic.Int64
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var batch []delivery.Delivery
			for again := sinktest.Messages(size, fmt.Sprint(accounts.Add(1))); len(again) > 0; again = batch {
				batch = nil
				for i, err := range s.Handle(b.Context(), again) {
					if err != nil {
						batch = append(batch, again[i])
					}
				}
			}
		}
	})
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "messages/s")
	if err := s.Close(); err != nil {
		b.Error(err)
	}
}
