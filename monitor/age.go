package monitor

import (
	"context"
	"time"
)

// pastAge returns the time of Redis' clock before which everything in a shard may be
// dropped for its age, or the zero time; age 0 is no bound. A gap in the readings of the
// clock may be time that passed or a clock that went ahead. For a day after a gap of at
// least a quarter of the age, nothing may be dropped: an operator has that long to put a
// wrong clock right. A shorter gap makes the bound earlier by its length. Bounds of
// number and memory still apply.
//
// The age counts from the reading that was judged: the clock may step in the next moment.
func (m *Monitor) pastAge(ctx context.Context, shard int, age time.Duration) (time.Time, error) {
	if age == 0 {
		return time.Time{}, nil
	}
	clock, err := m.ring.Clocks().Read(ctx, shard)
	if err != nil || clock.Gap >= max(age/4, 1) {
		return time.Time{}, err
	}
	return clock.Now.Add(-age), nil
}
