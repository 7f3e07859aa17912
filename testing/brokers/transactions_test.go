//go:build night

package brokers

import (
	"testing"

	"github.com/rounds-dev/rounds/testing/sinktest"
)

// TestKafkaTransactions runs the suite with transactions that also have the positions. Nothing doubles a record, as
// those see it who read what is committed.
func TestKafkaTransactions(t *testing.T) {
	sinktest.Run(t, sinktest.Suite{New: func(t *testing.T) sinktest.Place {
		c := newCluster(t)
		c.extra = withPositions
		return c
	}, Fake: true, TooLarge: 1 << 20})
}
