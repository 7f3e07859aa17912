package circulate

import (
	"context"
	"fmt"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// run does a step on a shard.
func (r *Ring) run(ctx context.Context, s *wire.Script, shard int, keys []string, args ...any) (any, error) {
	reply, err := settingAside(ctx, r, shard, func() (any, error) { return r.wire.Eval(ctx, s, keys, args) })
	if err != nil {
		return nil, fmt.Errorf("%s, shard %d: %w", s.Name(), shard, err)
	}
	return reply, nil
}

// settingAside does something with a shard's keys. If one of them has the wrong
// type it is set aside, and the thing done once more.
func settingAside[T any](ctx context.Context, r *Ring, shard int, do func() (T, error)) (T, error) {
	reply, err := do()
	if wire.HasCode(err, "WRONGTYPE") {
		if moved, moveErr := r.setAsideMistyped(ctx, shard); moveErr == nil && moved > 0 {
			return do()
		}
	}
	return reply, err
}

// setAsideMistyped renames the shard's keys that have not the type they must
// have, so that the shard goes on and nothing is destroyed.
func (r *Ring) setAsideMistyped(ctx context.Context, shard int) (int, error) {
	all := r.keys[shard].all()
	keys, types := make([]string, len(all)), make([]any, len(all))
	for i, k := range all {
		keys[i], types[i] = k.name, k.kind
	}
	return r.wire.SetAside(ctx, keys, types, "shard", shard)
}
