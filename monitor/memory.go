package monitor

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// memoryLook is the time between two looks at Redis' memory.
const memoryLook = 5 * time.Second

// lookAtMemory shows how much of its memory each node of Redis uses. While that is above
// the mark, it trims messages at once, because pollers claim nothing until it is below.
func (m *Monitor) lookAtMemory(ctx context.Context) error {
	full := false
	var all circulate.Memory
	known, limited := true, true
	for _, shard := range m.ring.OneOfEachNode() {
		memory, err := m.ring.Memory(ctx, shard)
		if circulate.Unavailable(err) {
			return err
		}
		known = known && err == nil
		limited = limited && memory.Limit > 0
		all.Used, all.Limit = all.Used+memory.Used, all.Limit+memory.Limit
		if err != nil || memory.Limit == 0 {
			// This Redis does not report its memory. If it refuses a write, it is full
			// all the same.
			full = full || circulate.Full(m.ring.TryWriteTo(ctx, shard))
			continue
		}
		if !m.duty.held() {
			return nil
		}
		m.metrics.memory.WithLabelValues(m.ring.Node(shard)).Set(memory.Share())
		full = full || 100*memory.Share() >= float64(m.config.MemoryMark)
	}
	if !limited {
		all.Limit = 0
	}
	if known {
		m.last.noteMemory(all, time.Now())
	}
	if !full {
		return nil
	}
	return m.trim(ctx)
}
