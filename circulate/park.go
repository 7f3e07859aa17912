package circulate

import (
	"context"
	_ "embed"
	"time"

	"github.com/gomodule/redigo/redis"
)

// ReasonPaused is why an account is parked that somebody paused.
const ReasonPaused = "paused"

var (
	//go:embed park.lua
	parkLua string
	//go:embed resume.lua
	resumeLua string

	parkScript   = newScript("park", parkLua)
	resumeScript = newScript("resume", resumeLua)
)

// Park takes accounts of one shard out of circulation, with a reason that
// replaces an earlier one. A check under way will not be written. It reports how
// many were registered.
func (r *Ring) Park(ctx context.Context, shard int, reason string, ids []string) (int, error) {
	if err := r.checkBatch("park", len(ids)); err != nil {
		return 0, err
	}
	k := &r.keys[shard]
	return redis.Int(r.run(ctx, parkScript, shard,
		[]string{k.tickets, k.ticketSeq, k.schedule, k.parked, k.reasons},
		append([]any{reason}, anyOf(ids)...)...))
}

// Resume brings a parked account back, due then, with its failures and strikes
// forgotten and its cursor kept. One that circulates is left alone. It gives
// ErrNotRegistered for an id that no account has.
func (r *Ring) Resume(ctx context.Context, id string, due time.Time) error {
	shard := r.ShardOf(id)
	k := &r.keys[shard]
	letter, err := redis.String(r.run(ctx, resumeScript, shard,
		[]string{k.tickets, k.ticketSeq, k.schedule, k.parked, k.reasons, k.failures, k.strikes, k.states},
		append(r.wakeArgs(shard), id, max(0, due.UnixMilli()))...))
	if err != nil {
		return err
	}
	if letter == "n" {
		return ErrNotRegistered
	}
	return nil
}
