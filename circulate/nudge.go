package circulate

import (
	"context"
	_ "embed"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed nudge.lua
var nudgeLua string

var nudgeScript = wire.NewTellingScript("nudge", nudgeLua)

// ErrParked reports that an account is out of circulation.
var ErrParked = wire.Finding("circulate: account is parked")

// Nudge asks for a check before the account is due.
type Nudge struct {
	Within time.Duration // 0 means now; a nudge never makes a check later
	Hint   []byte        // for the checker, once; nil keeps the hint of an earlier nudge
	Lives  time.Duration // how long the hint may be used
}

// Nudge moves the account's due time earlier, never later. Nudges of one account merge:
// the first decides when, and the newest hint is used. An account that is being checked
// is checked again after its return. It returns ErrNotRegistered or ErrParked if there is
// nothing to check.
func (a Account) Nudge(ctx context.Context, n Nudge) error {
	return a.ring.whereverIs(ctx, a.id, func(ctx context.Context, shard int) error { return a.ring.nudgeIn(ctx, shard, a.id, n) })
}

// nudgeIn is Nudge in exactly this shard.
func (r *Ring) nudgeIn(ctx context.Context, shard int, id string, n Nudge) error {
	k := &r.keys[shard]
	where, err := redis.String(r.wire.Run(ctx, nudgeScript, shard,
		[]string{k.tickets, k.schedule, k.parked, k.nudges, k.timeline.Mattered, k.timeline.Routine},
		append(append([]any{id, max(0, n.Within.Milliseconds()), n.Hint, max(0, n.Lives.Milliseconds())}, r.wakeArgs(shard)...), r.told())...))
	switch {
	case err != nil:
		return err
	case where == "unknown":
		return ErrNotRegistered
	case where == "parked":
		return ErrParked
	}
	return nil
}
