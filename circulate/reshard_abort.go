package circulate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	//go:embed reshard_stay.lua
	reshardStayLua string
	//go:embed reshard_unstay.lua
	reshardUnstayLua string

	reshardStayScript   = wire.NewScript("stay", reshardStayLua)
	reshardUnstayScript = wire.NewScript("unstay", reshardUnstayLua)
)

var (
	// ErrNoReturn reports a change of the number of shards that cannot be aborted any
	// more, because accounts have begun to move.
	ErrNoReturn = wire.Finding("circulate: accounts have begun to move to other shards")
	// ErrAborted reports a shard whose accounts stay, because the change was, or is
	// being, aborted.
	ErrAborted = fmt.Errorf("%w: the change of the number of shards is aborted", ErrResharding)
)

// Abort ends a change of the number of shards before any account has begun to move.
// Afterwards the number is what it was. It returns ErrNoReturn if an account has moved,
// and does nothing if no change is under way. It is safe to repeat, and any number of
// processes may do it. If one stops half way, the monitors continue.
//
// The abort is decided when every old shard has recorded that its accounts stay. From
// then on no mover, however late, takes any out. Then the new shards are closed to
// registrations, and then meta forgets them. Their names are never used again.
func (m Mover) Abort(ctx context.Context) (Resharding, error) {
	l, err := m.ring.readLayout(ctx)
	if err != nil || l.next == 0 {
		now := l.resharding()
		if err == nil && now.Phase == Draining {
			err = ErrNoReturn
		}
		return now, err
	}
	to := l.lasting()
	var old, new []shardKeys
	for shard := range l.shards {
		old = append(old, generationKeys(m.ring.namespace, l.generation, l.shards, shard))
	}
	for shard := range to.shards {
		new = append(new, generationKeys(m.ring.namespace, to.generation, to.shards, shard))
	}
	for i := range old {
		k := &old[i]
		stays, err := redis.Bool(m.ring.wire.Eval(ctx, reshardStayScript, []string{k.stays, k.leaving, k.tickets}, []any{to.generation}))
		if err != nil {
			return Resharding{}, fmt.Errorf("abort: %w", err)
		}
		if !stays {
			return l.resharding(), errors.Join(ErrNoReturn, m.ring.unstay(ctx, old[:i], to.generation))
		}
	}
	for i := range new {
		k := &new[i]
		if _, err := m.ring.wire.Eval(ctx, reshardLeaveScript, []string{k.leaving, k.tickets, k.stays}, []any{0, to.generation + 1}); err != nil {
			return Resharding{}, fmt.Errorf("abort: %w", err)
		}
	}
	back := l
	back.next, back.skipped = 0, l.skipped+1
	done, err := m.ring.changeLayout(ctx, l, back)
	if err != nil {
		return done, err
	}
	for i := range new {
		// If this fails, the few keys stay.
		if _, err := m.ring.wire.Pipeline(ctx, new[i].leaving, expiry(&new[i])...); err != nil {
			m.ring.log.Debug("keys of shards that are not used stay", "error", err)
		}
	}
	return done, nil
}

// unstay lets the accounts of shards leave after all.
func (r *Ring) unstay(ctx context.Context, shards []shardKeys, generation int) error {
	for i := range shards {
		if _, err := r.wire.Eval(ctx, reshardUnstayScript, []string{shards[i].stays}, []any{generation}); err != nil {
			return fmt.Errorf("abort: %w", err)
		}
	}
	return nil
}
