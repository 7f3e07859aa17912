package monitor

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// clockSettles is for how long nothing is dropped for its age after Redis' clock has stepped. An
// operator has that long to put a wrong clock right. Bounds of number and memory go on.
const clockSettles = 24 * time.Hour

// ageWatch notices that Redis' clock has stepped since ages were last judged by it. The clock
// watch records the step for all monitors, but may look later.
type ageWatch struct {
	mu   sync.Mutex
	last map[int]reading // by shard
}

// agesTell reports whether messages and dead letters of a shard may be dropped for their age.
func (m *Monitor) agesTell(ctx context.Context, shard int) (bool, error) {
	kept, err := m.ring.Clocks().LastStep(ctx)
	if err != nil {
		return false, err
	}
	now, err := m.ring.Now(ctx, shard)
	if err != nil {
		return false, err
	}
	local := time.Now()
	m.ages.mu.Lock()
	defer m.ages.mu.Unlock()
	if was, known := m.ages.last[shard]; known {
		// The reading stays, so that ages tell nothing until the clock watch has recorded the step.
		by, ago := now.Sub(was.server)-local.Sub(was.local), local.Sub(was.local)
		if by.Abs() >= circulate.ClockStep && ago < clockSettles {
			return false, nil
		}
	}
	if m.ages.last == nil {
		m.ages.last = make(map[int]reading)
	}
	m.ages.last[shard] = reading{now, local}
	var step accounts.ClockStep
	_ = json.Unmarshal(kept, &step) // another version may have left something else there
	return step.At.IsZero() || now.Sub(step.At) >= clockSettles, nil
}
