package monitor

import (
	"context"
	"time"
)

// pastAge returns the time of Redis' clock before which everything in a shard may be dropped for
// its age, or the zero time; age 0 is no bound. Nothing may for a day after a time of which nobody knows whether it
// passed or the clock went ahead, if that was as long as a quarter of the age: an operator has
// that long to put a wrong clock right. A shorter step drops so much earlier. Bounds of number
// and memory go on.
//
// The clock that was judged is the one that is counted from: it may step in the next moment.
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
