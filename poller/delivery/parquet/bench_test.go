package parquet

import (
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/ndjson"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// BenchmarkHandleParquet stores batches of 256 messages, 16 at once as a consumer does, and finishes
// the files.
func BenchmarkHandleParquet(b *testing.B) {
	s := ndjson.NewOf(form{sinktest.Namespace}, "lake", ndjson.Settings{Directory: b.TempDir(), MaxBytes: 16 << 20}, nil)
	batch := sinktest.Messages(256, "a")
	sinktest.Bench(b, s, func(int64) []delivery.Delivery { return batch })
}
