package monitor

import (
	"context"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	sendsSwept = 128 // sends, keys and windows that one step ends
	sendsSteps = 16  // such steps for each shard and sweep
)

// sweepSends ends what has ended by itself in the outbox: sends that expired, and attempts that last
// too long or whose replicas are dead. A namespace without sends costs one round trip to each node.
func (m *Monitor) sweepSends(ctx context.Context, dead func(string) bool, swept *Swept) error {
	outbox := m.ring.Sends()
	shards, err := outbox.Present(ctx)
	if err != nil || len(shards) == 0 {
		return err
	}
	var alive []string
	for replica := range m.beats {
		if !dead(replica) {
			alive = append(alive, replica)
		}
	}
	for _, shard := range shards {
		for range sendsSteps {
			s, err := outbox.Sweep(ctx, shard, sendsSwept, m.config.DeadAfter, alive)
			if err != nil {
				return err
			}
			swept.Expired += s.Expired
			swept.Doubtful += len(s.Unknown)
			for _, id := range s.Unknown {
				m.log.Warn("an attempt of a send has no known end", "send", id, "shard", shard)
			}
			if s.Looked < sendsSwept {
				break
			}
		}
	}
	return nil
}

// countSends adds up the sends that have not ended.
func (m *Monitor) countSends(ctx context.Context) (sum circulate.SendCount, err error) {
	outbox := m.ring.Sends()
	shards, err := outbox.Present(ctx)
	for _, shard := range shards {
		c, err := outbox.Count(ctx, shard)
		if err != nil {
			return circulate.SendCount{}, err
		}
		sum.Add(c)
	}
	return sum, err
}
