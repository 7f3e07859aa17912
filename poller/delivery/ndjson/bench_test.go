package ndjson

import (
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// BenchmarkHandle stores batches of 256 messages, 16 at once as a consumer does.
func BenchmarkHandle(b *testing.B) {
	s := New("crm", Settings{Directory: b.TempDir()}, sink.Encoding{Namespace: sinktest.Namespace}, nil)
	if err := s.Prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	batch := sinktest.Messages(256, "a")
	b.SetParallelism(8)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			for _, err := range s.Handle(b.Context(), batch) {
				if err != nil {
					b.Error(err)
				}
			}
		}
	})
	if err := s.Close(); err != nil {
		b.Error(err)
	}
	b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "messages/s")
}
