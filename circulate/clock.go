package circulate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	clockScript       = wire.NewScript("clock", lua("clock"))
	clockFarScript    = wire.NewScript("far", lua("clock_far"))
	clockMoveScript   = wire.NewScript("move", lua("clock_move"))
	clockRewindScript = wire.NewScript("rewind", lua("clock_rewind"))
	rewindSendScript  = wire.NewScript("rewind send", lua("sends"), lua("send_rewind"))
)

// ClockStep is the smallest step of Redis' clock that counts. A smaller step has passed
// before anybody could react.
const ClockStep = 10 * time.Second

// Clock is a reading of a shard's clock.
type Clock struct {
	Now time.Time
	// Newest is the newest time read before, if the clock is now behind it by ClockStep
	// or more; otherwise it is zero.
	Newest time.Time
	// Gap is the longest time that passed between two readings, if it ended within the
	// last day. Either nothing ran or the clock jumped ahead. Less than ten minutes is no
	// gap.
	Gap time.Duration
}

const (
	// leastGap is the shortest time between two readings that counts as a gap. Monitors
	// read a shard's clock every five minutes.
	leastGap = 10 * time.Minute
	// gapKept is how long a gap is reported.
	gapKept = 24 * time.Hour
)

// Back returns how far the clock went back, or 0.
func (c Clock) Back() time.Duration {
	if c.Newest.IsZero() {
		return 0
	}
	return c.Newest.Sub(c.Now)
}

// Clocks reads the clocks of a ring's shards, and reschedules accounts that are due too
// late after a clock went back.
type Clocks struct{ ring *Ring }

// Clocks returns the clocks of the ring.
func (r *Ring) Clocks() Clocks { return Clocks{r} }

// Read reads a shard's clock and stores the newest time seen. It reports a clock that
// went back until ForgetNewest.
func (c Clocks) Read(ctx context.Context, shard int) (Clock, error) {
	return c.ring.readClock(ctx, shard, "")
}

// ForgetNewest says that everything due by the clock that went back has been rescheduled.
// It forgets the time that Read returned, unless another caller has seen a newer one.
func (c Clocks) ForgetNewest(ctx context.Context, shard int, newest time.Time) error {
	_, err := c.ring.readClock(ctx, shard, strconv.FormatInt(newest.UnixMilli(), 10))
	return err
}

func (r *Ring) readClock(ctx context.Context, shard int, forget string) (Clock, error) {
	reply, err := redis.Int64s(r.wire.Run(ctx, clockScript, shard, []string{r.keys[shard].clock}, ClockStep.Milliseconds(), forget, leastGap.Milliseconds(), gapKept.Milliseconds()))
	if err != nil {
		return Clock{}, err
	}
	if len(reply) != 4 {
		return Clock{}, fmt.Errorf("clock, shard %d: %w", shard, wire.ErrReply)
	}
	c := Clock{Now: time.UnixMilli(reply[0]), Gap: time.Duration(reply[3]) * time.Millisecond}
	if reply[1] > 0 {
		c.Newest = time.UnixMilli(reply[1])
	}
	return c, nil
}

// Far is a scheduled account that is not due for a while.
type Far struct {
	ID     string
	Due    time.Time
	Rule   Rule   // what decided Due
	Record []byte // nil if there is none
	State  string // its cadence's state; opaque to the ring
}

// FarScheduled looks at about n of a shard's scheduled accounts. It returns the accounts
// that are not due within a time, the time now, and the next cursor. The scan begins with
// an empty cursor and ends with ScanDone. An account that stays scheduled throughout is
// looked at once, in rare cases twice.
func (c Clocks) FarScheduled(ctx context.Context, shard int, cursor string, n int, within time.Duration) ([]Far, time.Time, string, error) {
	if cursor == "" {
		cursor = ScanDone
	}
	k := &c.ring.keys[shard]
	reply, err := redis.Values(c.ring.wire.Run(ctx, clockFarScript, shard, []string{k.schedule, k.tickets, k.accounts, k.states},
		cursor, n, within.Milliseconds()))
	if err != nil {
		return nil, time.Time{}, "", err
	}
	var now int64
	var next string
	rest, err := redis.Scan(reply, &now, &next)
	if err != nil || len(rest)%5 != 0 {
		return nil, time.Time{}, "", fmt.Errorf("far, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
	}
	var all []Far
	for len(rest) > 0 {
		var f Far
		var due, rule []byte
		if rest, err = redis.Scan(rest, &f.ID, &due, &rule, &f.Record, &f.State); err != nil {
			return nil, time.Time{}, "", fmt.Errorf("far, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
		}
		if f.Due, err = score(due); err != nil {
			return nil, time.Time{}, "", fmt.Errorf("far, shard %d: %w", shard, err)
		}
		if len(rule) > 0 {
			f.Rule = Rule(rule[0])
		}
		all = append(all, f)
	}
	return all, time.UnixMilli(now), next, nil
}

// Move is a scheduled account that should be due at another time.
type Move struct {
	Far Far
	To  time.Time
}

// MoveDue reschedules accounts of one shard, each only if its due time is still the one
// that was seen. It returns how many it moved, and is safe to repeat.
func (c Clocks) MoveDue(ctx context.Context, shard int, moves []Move) (int, error) {
	if err := wire.CheckBatch("move", len(moves)); err != nil {
		return 0, err
	}
	args := c.ring.wakeArgs(shard)
	for _, m := range moves {
		args = append(args, m.Far.ID, m.Far.Due.UnixMilli(), max(1, m.To.UnixMilli()))
	}
	k := &c.ring.keys[shard]
	return redis.Int(c.ring.wire.Run(ctx, clockMoveScript, shard, []string{k.schedule, k.tickets}, args...))
}

// rewindPage is how many leases, nudges or parked accounts one step looks at.
const rewindPage = 500

// Rewind puts right the other times in a shard after its clock went back. It shortens
// leases of consumer groups and, the first time, nudges, corrects since when accounts
// are parked, and brings nearer when sends are due, and when attempts and windows end.
// Repeating it with first shortens the nudges again.
func (c Clocks) Rewind(ctx context.Context, shard int, back time.Duration, first bool) error {
	k := &c.ring.keys[shard]
	for which, cursor := "leases", ScanDone; which != ""; {
		reply, err := redis.Values(c.ring.wire.Run(ctx, clockRewindScript, shard, []string{k.leases, k.nudges, k.parked},
			back.Milliseconds(), which, cursor, rewindPage))
		if err != nil {
			return err
		}
		var changed int
		if _, err := redis.Scan(reply, &which, &cursor, &changed); err != nil {
			return fmt.Errorf("rewind, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
		}
		if which == "nudges" && !first {
			which = "parked"
		}
	}
	for which, behind := string(GroupQueued), ""; which != ""; {
		reply, err := redis.Values(c.ring.wire.Run(ctx, rewindSendScript, shard, k.outbox.with(), back.Milliseconds(), which, behind, rewindPage))
		if err != nil {
			return err
		}
		var changed int
		if _, err := redis.Scan(reply, &which, &behind, &changed); err != nil {
			return fmt.Errorf("rewind sends, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
		}
	}
	return nil
}

// KeepStep stores what is known of the last steps of Redis' clock, for LastStep. The ring
// does not interpret it.
func (c Clocks) KeepStep(ctx context.Context, found []byte) error {
	return c.ring.store(ctx, "keep clock step", clockStepKey(c.ring.namespace), found)
}

// LastStep returns what KeepStep stored, or nil.
func (c Clocks) LastStep(ctx context.Context) ([]byte, error) {
	return c.ring.stored(ctx, "last clock step", clockStepKey(c.ring.namespace))
}
