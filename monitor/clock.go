package monitor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// farPage is how many scheduled accounts a step looks at: a millisecond's work.
	farPage = 200
	// rewinds is how many turns in a row a shard is put right: a check that was under way
	// may have been returned by the clock as it was, until its replica had read it anew.
	rewinds = 3
)

// clockWatch notices steps of Redis' clock, and puts right what is due by a clock that
// went back.
type clockWatch struct {
	*Monitor
	last  map[int]reading
	turns map[int]int // of the shards that are being put right, how many are left
}

// reading is what a shard's clock showed when ours did.
type reading struct{ server, local time.Time }

func newClockWatch(m *Monitor) *clockWatch {
	return &clockWatch{m, make(map[int]reading), make(map[int]int)}
}

// turn reads each shard's clock. An error is that of the first shard that failed; the
// others have been looked at.
func (w *clockWatch) turn(ctx context.Context) error {
	var first error
	var step accounts.ClockStep
	moved, began := 0, false
	for shard := range w.ring.Shards() {
		stepped, n, err := w.look(ctx, shard)
		moved += n
		if s := stepped.Seconds(); s != 0 {
			began = true
			if s*s > step.Seconds*step.Seconds {
				step.Seconds = s
			}
		}
		if err != nil {
			if first == nil {
				first = err
			}
			if w.allAway(shard, err) {
				break
			}
		}
	}
	w.metrics.rescheduled.Add(float64(moved))
	if began {
		w.metrics.stepped(step.Seconds)
	}
	if began || moved > 0 {
		if err := w.tell(ctx, step.Seconds, began, moved); first == nil {
			first = err
		}
	}
	return first
}

// look reads one shard's clock, and tells how far it went ahead, or back, where it has
// not been told before, and how many accounts were moved.
func (w *clockWatch) look(ctx context.Context, shard int) (step time.Duration, moved int, err error) {
	local := time.Now()
	c, err := w.ring.ReadClock(ctx, shard)
	if err != nil {
		return 0, 0, err
	}
	was, known := w.last[shard]
	w.last[shard] = reading{c.Now, local}
	back := c.Back()
	if back == 0 {
		delete(w.turns, shard)
		if ahead := c.Now.Sub(was.server) - local.Sub(was.local); known && ahead >= circulate.ClockStep {
			step = ahead
		}
		return step, 0, nil
	}
	left, under := w.turns[shard]
	if !under {
		step, left = -back, rewinds
		// Replicas read the clock when they claim.
		if err := w.ring.Wake(ctx, shard); err != nil {
			w.log.Debug("the replicas were not woken", "error", err)
		}
	}
	w.turns[shard] = left
	if moved, err = w.rewind(ctx, shard, back); err != nil {
		return step, moved, err
	}
	if w.turns[shard] = left - 1; left > 1 {
		return step, moved, nil
	}
	delete(w.turns, shard)
	return step, moved, w.ring.ForgetNewest(ctx, shard, c.Newest)
}

// rewind puts a shard right whose clock went back.
func (w *clockWatch) rewind(ctx context.Context, shard int, back time.Duration) (moved int, err error) {
	if err := w.ring.Rewind(ctx, shard, back); err != nil {
		return 0, err
	}
	for cursor := ""; cursor != circulate.ScanDone && ctx.Err() == nil; {
		far, now, next, err := w.ring.FarScheduled(ctx, shard, cursor, farPage, 0)
		if err != nil {
			return moved, err
		}
		cursor = next
		var moves []circulate.Move
		for _, f := range far {
			if due, beyond := accounts.Beyond(f, now, back); beyond {
				moves = append(moves, circulate.Move{Far: f, To: due})
			}
		}
		for len(moves) > 0 {
			some := moves[:min(len(moves), farPage)]
			n, err := w.ring.MoveDue(ctx, shard, some)
			if err != nil {
				return moved, err
			}
			moved, moves = moved+n, moves[len(some):]
		}
	}
	return moved, ctx.Err()
}

// tell tells of a step, or that more accounts were moved after one.
func (w *clockWatch) tell(ctx context.Context, seconds float64, began bool, moved int) error {
	by := time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
	switch {
	case began && by < 0:
		w.log.Error("Redis' clock went back: what was due by it is put right", "by", -by, "accounts", moved)
	case began:
		w.log.Error("Redis' clock went ahead: what has become due is checked once", "by", by)
	default:
		w.log.Info("accounts were due by the clock as it was", "accounts", moved)
	}
	kept, err := w.ring.LastClockStep(ctx)
	if err != nil {
		return err
	}
	var all accounts.ClockStep
	_ = json.Unmarshal(kept, &all) // what another version left there may be something else
	if began {
		now, err := w.ring.Now(ctx, 0)
		if err != nil {
			return err
		}
		all.Steps, all.At, all.Seconds, all.Moved = all.Steps+1, now.UTC(), by.Seconds(), 0
	}
	all.Moved += moved
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return w.ring.KeepClockStep(ctx, text)
}
