package monitor

import (
	"context"
	"time"
)

// agesTell reports whether what is in a shard for longer than an age may be dropped. It may not
// for a day after a time of which nobody knows whether it passed or Redis' clock went ahead, if
// that was as long as a quarter of the age: an operator has that long to put a wrong clock
// right. A shorter step drops so much earlier. Bounds of number and memory go on.
func (m *Monitor) agesTell(ctx context.Context, shard int, age time.Duration) (bool, error) {
	clock, err := m.ring.Clocks().Read(ctx, shard)
	return clock.Gap < max(age/4, 1), err
}
