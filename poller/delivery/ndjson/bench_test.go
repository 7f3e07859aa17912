package ndjson

import (
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// BenchmarkHandle stores batches of 256 messages, 16 at once as a consumer does.
func BenchmarkHandle(b *testing.B) {
	s := New("crm", Settings{Directory: b.TempDir()}, sink.Encoding{Namespace: sinktest.Namespace}, nil)
	batch := sinktest.Messages(256, "a")
	sinktest.Bench(b, s, func(int64) []delivery.Delivery { return batch })
}
