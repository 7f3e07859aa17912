package monitor

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// memoryLook is between two looks at Redis' memory.
const memoryLook = 5 * time.Second

// lookAtMemory shows how much of its memory each node of Redis uses, and trims
// messages at once where that is up to the mark: pollers take none until it is below.
func (m *Monitor) lookAtMemory(ctx context.Context) error {
	full := false
	for _, shard := range m.ring.OneOfEachNode() {
		memory, err := m.ring.Memory(ctx, shard)
		if circulate.Unavailable(err) {
			return err
		}
		if err != nil || memory.Limit == 0 {
			// It does not tell. What refuses to take more is full in any case.
			full = full || circulate.Full(m.ring.TryWriteTo(ctx, shard))
			continue
		}
		if !m.duty.held() {
			return nil
		}
		m.metrics.memory.WithLabelValues(m.ring.Node(shard)).Set(memory.Share())
		full = full || 100*memory.Share() >= float64(m.config.MemoryMark)
	}
	if !full {
		return nil
	}
	return m.trim(ctx)
}
