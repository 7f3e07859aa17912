package sinktest

import (
	"sync/atomic"
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// Bench has a sink store batches, 16 at once on two processors as a consumer does, closes it, and
// reports messages a second. batch returns the batch of a number, each of the same size; the sink must
// take all of it.
func Bench(b *testing.B, to delivery.Sink, batch func(n int64) []delivery.Delivery) {
	b.Helper()
	if err := to.Prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	var batches, messages atomic.Int64
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			all := batch(batches.Add(1))
			messages.Add(int64(len(all)))
			for _, err := range to.Handle(b.Context(), all) {
				if err != nil {
					b.Error(err)
					return
				}
			}
		}
	})
	if err := to.Close(); err != nil {
		b.Error(err)
	}
	b.ReportMetric(float64(messages.Load())/b.Elapsed().Seconds(), "messages/s")
}
