package monitor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// farPage is how many scheduled accounts a step looks at. It takes a millisecond.
	farPage = 200
	// rewinds is for how many turns in a row a shard is put right. A check under way may
	// still be returned by the old clock until its replica has read the clock again.
	rewinds = 3
	// clockRotation is how many turns read each shard's clock once: five minutes.
	clockRotation = 60
)

// clockWatch notices steps of Redis' clock, and reschedules accounts that are due too
// late after a clock went back.
//
// A node has one clock, so each turn reads it at one shard of each node. The other shards
// are read in rotation, which finds a step back that happened while no monitor looked.
// When a node's clock has gone back, all of its shards are put right at once.
type clockWatch struct {
	*Monitor
	last    map[int]reading
	repairs map[int]repair // by shard being put right
	turns   int
}

// reading is the time of a shard's clock, with our own time of that moment.
type reading struct{ server, local time.Time }

// repair says by how much a shard's clock went back, and for how many more turns the
// shard is put right.
type repair struct {
	back time.Duration
	left int
	to   map[string]int64 // by account: its due time from an earlier turn, unix ms; it stays
}

func newClockWatch(m *Monitor) *clockWatch {
	return &clockWatch{Monitor: m, last: make(map[int]reading), repairs: make(map[int]repair)}
}

// clockTurn is the result of a turn.
type clockTurn struct {
	step  time.Duration // the longest
	moved int
	first error // the error of the first shard that failed
	away  bool  // Redis is away
}

// turn reads the clocks. It returns the error of the first shard that failed, after it
// has looked at the others.
func (w *clockWatch) turn(ctx context.Context) error {
	var t clockTurn
	shards := w.ring.Shards()
	looked := make([]bool, shards)
	look := func(shard int, probe bool) time.Duration {
		if looked[shard] || t.away {
			return 0
		}
		looked[shard] = true
		step, moved, err := w.look(ctx, shard, probe)
		t.moved += moved
		if step.Abs() > t.step.Abs() {
			t.step = step
		}
		if err != nil {
			if t.first == nil {
				t.first = err
			}
			t.away = w.allAway(shard, err)
		}
		return step
	}
	for _, probe := range w.ring.OneOfEachNode() {
		step := look(probe, true)
		for shard := 0; step < 0 && shard < shards; shard++ {
			if _, under := w.repairs[shard]; !under && w.ring.Node(shard) == w.ring.Node(probe) {
				w.begin(ctx, shard, -step)
			}
		}
	}
	for shard := range shards {
		if _, under := w.repairs[shard]; under || shard%clockRotation == w.turns%clockRotation {
			look(shard, false)
		}
	}
	w.turns++
	return w.report(ctx, &t)
}

// report counts and logs the result of a turn.
func (w *clockWatch) report(ctx context.Context, t *clockTurn) error {
	first, moved, began := t.first, t.moved, t.step != 0
	w.metrics.rescheduled.Add(float64(moved))
	if began {
		w.metrics.stepped(t.step.Seconds())
	}
	if began || moved > 0 {
		if err := w.tell(ctx, t.step.Seconds(), began, moved); first == nil {
			first = err
		}
	}
	return first
}

// look reads one shard's clock, and puts the shard right if the clock went back. It returns
// how far the clock went ahead or back, unless that was reported before, and how many accounts
// were moved. It reports a step ahead only for a probe, the first shard that a turn reads at
// a node, since all shards of a node take the same step.
func (w *clockWatch) look(ctx context.Context, shard int, probe bool) (step time.Duration, moved int, err error) {
	local := time.Now()
	c, err := w.ring.Clocks().Read(ctx, shard)
	if err != nil {
		return 0, 0, err
	}
	was, known := w.last[shard]
	if probe {
		w.last[shard] = reading{c.Now, local}
	}
	fix, under := w.repairs[shard]
	back := max(c.Back(), fix.back)
	if back == 0 {
		if ahead := c.Now.Sub(was.server) - local.Sub(was.local); probe && known && ahead >= circulate.ClockStep {
			step = ahead
		}
		return step, 0, nil
	}
	if !under {
		step, fix = -back, w.begin(ctx, shard, back)
	}
	if back >= fix.back+circulate.ClockStep {
		clear(fix.to) // the clock went back once more
	}
	fix.back = back
	if moved, err = w.rewind(ctx, shard, fix, fix.left == rewinds); err != nil {
		return step, moved, err
	}
	if fix.left--; fix.left > 0 {
		w.repairs[shard] = fix
		return step, moved, nil
	}
	delete(w.repairs, shard)
	if c.Newest.IsZero() {
		return step, moved, nil
	}
	return step, moved, w.ring.Clocks().ForgetNewest(ctx, shard, c.Newest)
}

// begin marks a shard to be put right in this turn and in the ones that follow.
func (w *clockWatch) begin(ctx context.Context, shard int, back time.Duration) repair {
	fix := repair{back, rewinds, make(map[string]int64)}
	w.repairs[shard] = fix
	// Replicas read the clock when they claim.
	if err := w.ring.Wake(ctx, shard); err != nil {
		w.log.Debug("the replicas were not woken", "error", err)
	}
	return fix
}

// rewind puts a shard right after its clock went back, for the first time or once more.
func (w *clockWatch) rewind(ctx context.Context, shard int, fix repair, first bool) (moved int, err error) {
	if err := w.ring.Clocks().Rewind(ctx, shard, fix.back, first); err != nil {
		return 0, err
	}
	for cursor := ""; cursor != circulate.ScanDone && ctx.Err() == nil; {
		far, now, next, err := w.ring.Clocks().FarScheduled(ctx, shard, cursor, farPage, 0)
		if err != nil {
			return moved, err
		}
		cursor = next
		var moves []circulate.Move
		for _, f := range far {
			if to, moved := fix.to[f.ID]; moved && to == f.Due.UnixMilli() {
				continue
			}
			if due, beyond := accounts.Beyond(f, now, fix.back); beyond {
				moves = append(moves, circulate.Move{Far: f, To: due})
			}
		}
		for len(moves) > 0 {
			some := moves[:min(len(moves), farPage)]
			n, err := w.ring.Clocks().MoveDue(ctx, shard, some)
			if err != nil {
				return moved, err
			}
			for _, m := range some {
				fix.to[m.Far.ID] = m.To.UnixMilli()
			}
			moved, moves = moved+n, moves[len(some):]
		}
	}
	return moved, ctx.Err()
}

// tell logs a step, or that more accounts were moved after one.
func (w *clockWatch) tell(ctx context.Context, seconds float64, began bool, moved int) error {
	by := time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
	switch {
	case began && by < 0:
		w.log.Error("Redis' clock went back: accounts that were due by it are rescheduled", "by", -by, "accounts", moved)
	case began:
		w.log.Error("Redis' clock went ahead: accounts that have become due are checked once", "by", by)
	default:
		w.log.Info("more accounts that were due by the old clock were rescheduled", "accounts", moved)
	}
	kept, err := w.ring.Clocks().LastStep(ctx)
	if err != nil {
		return err
	}
	var all accounts.ClockStep
	_ = json.Unmarshal(kept, &all) // another version may have left something else there
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
	return w.ring.Clocks().KeepStep(ctx, text)
}
