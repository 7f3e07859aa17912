package monitor

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/rounds-dev/rounds/circulate/group"
)

// deadLetters drops dead letters that are past their retention or too many, from the
// longest streams first, and shows how many are left.
func (m *Monitor) deadLetters(ctx context.Context) error {
	lengths, oldest := make([]int, m.ring.Shards()), time.Duration(0)
	states := make([]group.DeadState, len(lengths))
	for shard := range lengths {
		if _, err := m.trimDead(ctx, shard, 0); err != nil {
			return err
		}
		s, err := group.Of(m.ring).DeadState(ctx, shard)
		if err != nil {
			return err
		}
		states[shard], lengths[shard] = s, s.Letters
	}
	level := math.MaxInt
	if m.config.DeadKept > 0 {
		level = max(1, levelOf(lengths, m.config.DeadKept))
	}
	letters := 0
	for shard, s := range states {
		if s.Letters > level {
			dropped, err := m.trimDead(ctx, shard, level)
			if err != nil {
				return err
			}
			if s.Letters -= dropped; s.Letters > 0 {
				if s, err = group.Of(m.ring).DeadState(ctx, shard); err != nil {
					return err
				}
			}
		}
		letters += s.Letters
		oldest = max(oldest, s.Oldest)
	}
	if m.duty.held() {
		m.metrics.dead.set(float64(letters))
		m.metrics.deadOldest.set(oldest.Seconds())
		m.watch.letters(letters, oldest)
	}
	return nil
}

// trimDead drops a shard's dead letters that are past their retention. If most is not 0
// and there are more letters than that, it drops the oldest.
func (m *Monitor) trimDead(ctx context.Context, shard, most int) (int, error) {
	before, err := m.pastAge(ctx, shard, m.config.DeadRetention)
	if err != nil {
		return 0, fmt.Errorf("dead letters: %w", err)
	}
	if most == 0 && before.IsZero() {
		return 0, nil
	}
	dropped, err := group.Of(m.ring).TrimDead(ctx, shard, before, most)
	if dropped > 0 {
		m.metrics.deadDropped.Add(float64(dropped))
		m.log.Warn("dead letters were dropped: they were past their retention, or too many",
			"shard", shard, "dropped", dropped, "retention", m.config.DeadRetention, "kept", m.config.DeadKept)
	}
	if err != nil {
		return dropped, fmt.Errorf("dead letters: %w", err)
	}
	return dropped, nil
}
