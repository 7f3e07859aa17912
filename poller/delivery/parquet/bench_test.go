package parquet

import (
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery/ndjson"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// BenchmarkHandleParquet stores batches of 256 messages, 16 at once as a consumer does, and finishes
// the files.
func BenchmarkHandleParquet(b *testing.B) {
	s := ndjson.NewOf(form{sinktest.Namespace}, "lake", ndjson.Settings{Directory: b.TempDir(), MaxBytes: 16 << 20}, nil)
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
