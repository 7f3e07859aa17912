package brokers

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/kafka"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// handled stores batches of 256 new messages of 32 accounts, 16 at once as a consumer does.
func handled(b *testing.B, to delivery.Sink) {
	if err := to.Prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	const size, accounts = 256, 32
	var batches atomic.Int64
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			n := batches.Add(1)
			var names []string
			for i := range accounts {
				names = append(names, fmt.Sprint(n, "-", i))
			}
			for _, err := range to.Handle(b.Context(), sinktest.Messages(size/accounts, names...)) {
				if err != nil {
					b.Error(err)
					return
				}
			}
		}
	})
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "messages/s")
}

// BenchmarkHandleKafka writes to kfake, in the same process: it tells what the client costs, and not what Kafka does.
func BenchmarkHandleKafka(b *testing.B) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(12, topic))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	handled(b, open(b, kafka.Type{Namespace: sinktest.Namespace}, fmt.Sprintf(`"brokers":[%q],"topic":%q`, c.ListenAddrs()[0], topic)))
}
