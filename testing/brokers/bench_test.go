package brokers

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/kafka"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// handled stores batches of 256 new messages of 32 accounts.
func handled(b *testing.B, to delivery.Sink) {
	const size, accounts = 256, 32
	sinktest.Bench(b, to, func(n int64) []delivery.Delivery {
		names := make([]string, accounts)
		for i := range names {
			names[i] = fmt.Sprint(n, "-", i)
		}
		return sinktest.Messages(size/accounts, names...)
	})
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
