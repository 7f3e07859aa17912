package circulate

import (
	"context"
	_ "embed"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed deregister.lua
var deregisterLua string

var deregisterScript = wire.NewScript("deregister", deregisterLua)

// Deregister takes accounts of one shard out for good, with all that the ring
// knows of them but their messages. A check under way will not be written. It
// reports how many were registered.
func (r *Ring) Deregister(ctx context.Context, shard int, ids []string) (int, error) {
	if err := wire.CheckBatch("deregister", len(ids)); err != nil {
		return 0, err
	}
	return r.countAnywhere(ctx, shard, ids, r.deregisterIn)
}

// deregisterIn is Deregister in this very shard.
func (r *Ring) deregisterIn(ctx context.Context, shard int, ids []string) (int, error) {
	k := &r.keys[shard]
	return redis.Int(r.wire.Run(ctx, deregisterScript, shard, []string{
		k.changes, k.tickets, k.schedule, k.parked,
		k.accounts, k.cursors, k.failures, k.strikes, k.nudges, k.reasons, k.states, k.errors,
	}, anyOf(ids)...))
}

func anyOf(texts []string) []any {
	args := make([]any, len(texts))
	for i, t := range texts {
		args[i] = t
	}
	return args
}
