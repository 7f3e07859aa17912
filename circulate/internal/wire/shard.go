package wire

import (
	"context"
	"fmt"
)

// Key is the name of a key and the type that it must have.
type Key [2]string

// Run runs a script on keys of a shard. If one of the shard's keys has the wrong type, it
// is set aside, and the script runs once more.
func (w *Wire) Run(ctx context.Context, s *Script, shard int, keys []string, args ...any) (any, error) {
	reply, err := w.Eval(ctx, s, keys, args)
	if HasCode(err, "WRONGTYPE") && w.mended(ctx, shard) {
		reply, err = w.Eval(ctx, s, keys, args)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, shard %d: %w", s.name, shard, err)
	}
	return reply, nil
}

// PipelineOn is PipelineFor on a shard whose keys of a wrong type are set aside.
func (w *Wire) PipelineOn(ctx context.Context, p Purpose, shard int, key string, commands ...Command) ([]any, error) {
	replies, err := w.PipelineFor(ctx, p, key, commands...)
	if HasCode(err, "WRONGTYPE") && w.mended(ctx, shard) {
		return w.PipelineFor(ctx, p, key, commands...)
	}
	return replies, err
}

func (w *Wire) mended(ctx context.Context, shard int) bool {
	moved, err := w.SetShardAside(ctx, shard)
	return err == nil && moved > 0
}

// SetShardAside is SetAside for all keys of a shard.
func (w *Wire) SetShardAside(ctx context.Context, shard int) (int, error) {
	if w.keys == nil {
		return 0, nil
	}
	all := w.keys(shard)
	names, types := make([]string, len(all)), make([]any, len(all))
	for i, k := range all {
		names[i], types[i] = k[0], k[1]
	}
	return w.SetAside(ctx, names, types, "shard", shard)
}
