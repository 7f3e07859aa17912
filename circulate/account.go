package circulate

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Account is one account of a ring, by its id, with the steps that concern it alone. It
// finds the account in its shard even while the number of shards changes. For many
// accounts at once, use the ring's own steps, which take the accounts of one shard.
type Account struct {
	ring *Ring
	id   string
}

// Account returns the account with an id. The id need not be registered.
func (r *Ring) Account(id string) Account { return Account{r, id} }

// Shard returns the shard that the account belongs to.
func (a Account) Shard() int { return a.ring.ShardOf(a.id) }

// Now returns the time by the clock that decides for the account.
func (a Account) Now(ctx context.Context) (time.Time, error) { return a.ring.Now(ctx, a.Shard()) }

// Look returns what the ring knows about the account, or ErrNotRegistered.
func (a Account) Look(ctx context.Context) (View, error) {
	views, err := a.ring.Look(ctx, a.Shard(), []string{a.id})
	switch {
	case err != nil:
		return View{}, err
	case len(views) == 0:
		return View{}, ErrNotRegistered
	}
	return views[0], nil
}

// Register registers the account, unless it is registered. It ignores the item's id.
func (a Account) Register(ctx context.Context, item Registration) (Registered, error) {
	item.ID = a.id
	outcomes, err := a.ring.Register(ctx, a.Shard(), []Registration{item})
	if err != nil {
		return 0, err
	}
	return outcomes[0], nil
}

// Upsert is Register, and changes the record of a registered account; see Ring.Upsert.
func (a Account) Upsert(ctx context.Context, item Registration) (Registered, error) {
	item.ID = a.id
	outcomes, err := a.ring.Upsert(ctx, a.Shard(), []Registration{item})
	if err != nil {
		return 0, err
	}
	return outcomes[0], nil
}

// Deregister removes the account for good. It returns ErrNotRegistered if it is not
// registered.
func (a Account) Deregister(ctx context.Context) error {
	return a.counted(a.ring.Deregister(ctx, a.Shard(), []string{a.id}))
}

// DeregisterIf is Deregister if the account has exactly this record, byte by byte.
// Otherwise it changes nothing and returns ErrNotRegistered.
func (a Account) DeregisterIf(ctx context.Context, record []byte) error {
	return a.counted(a.ring.countAnywhere(ctx, a.Shard(), []string{a.id}, func(ctx context.Context, shard int, ids []string) (int, error) {
		return a.ring.deregisterIn(ctx, shard, ids, []any{a.ring.told(), 2, ids[0], record})
	}))
}

// Park takes the account out of circulation for a reason. It returns ErrNotRegistered if
// it is not registered.
func (a Account) Park(ctx context.Context, reason string) error {
	return a.counted(a.ring.Park(ctx, a.Shard(), reason, []string{a.id}))
}

// Resume puts a parked account back into circulation and clears its failures and strikes.
// It does not change an account that circulates. It ignores the item's id. It returns
// ErrNotRegistered if the account is not registered.
func (a Account) Resume(ctx context.Context, item Resumption) error {
	item.ID = a.id
	outcomes, err := a.ring.ResumeAll(ctx, a.Shard(), []Resumption{item})
	if err == nil && outcomes[0] == NotRegistered {
		err = ErrNotRegistered
	}
	return err
}

// counted returns the error of a step that returns how many accounts it found.
func (Account) counted(n int, err error) error {
	if err == nil && n == 0 {
		err = ErrNotRegistered
	}
	return err
}

var (
	nudgeScript        = wire.NewTellingScript("nudge", lua("nudge"))
	nudgeOverdueScript = wire.NewScript("nudgeoverdue", lua("nudgeoverdue"))
)

// ErrParked reports that an account is out of circulation.
var ErrParked = wire.Finding("circulate: account is parked")

// Nudge asks for a check before the account is due.
type Nudge struct {
	Within time.Duration // 0 means now; a nudge never makes a check later
	Hint   []byte        // passed to the checker once; nil leaves an earlier nudge's hint in place
	Lives  time.Duration // how long the hint stays valid
}

// Nudge moves the account's due time earlier, never later. Nudges of one account merge:
// the earliest due time and the newest hint win. An account that is being checked is
// checked again after its return. A nudge to now of an account that is overdue moves it
// before others that are. Nudge returns ErrNotRegistered or ErrParked if there is
// nothing to check.
func (a Account) Nudge(ctx context.Context, n Nudge) error {
	return a.ring.whereverIs(ctx, a.id, func(ctx context.Context, shard int) error { return a.ring.nudgeIn(ctx, shard, a.id, n) })
}

// nudgeIn is Nudge in exactly this shard.
func (r *Ring) nudgeIn(ctx context.Context, shard int, id string, n Nudge) error {
	k := &r.keys[shard]
	where, err := redis.String(r.wire.Run(ctx, nudgeScript, shard,
		[]string{k.tickets, k.schedule, k.parked, k.nudges, k.timeline.Mattered, k.timeline.Routine, k.urgent},
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

// NudgeOverdue nudges those accounts of a shard to now that are overdue, the first one
// first, and returns how many were. It changes none that is not due yet, that waits in
// message_queue, or that is claimed, parked or not registered. It writes no line in the
// timeline.
func (r *Ring) NudgeOverdue(ctx context.Context, shard int, ids []string) (int, error) {
	if err := wire.CheckBatch("nudge overdue", len(ids)); err != nil {
		return 0, err
	}
	k := &r.keys[shard]
	return redis.Int(r.wire.Run(ctx, nudgeOverdueScript, shard, []string{k.schedule, k.tickets, k.urgent}, anyOf(ids)...))
}
