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
	return w.setKeysAside(ctx, w.keys(shard), "shard", shard)
}

func (w *Wire) setKeysAside(ctx context.Context, keys []Key, about ...any) (int, error) {
	names, types := make([]string, len(keys)), make([]any, len(keys))
	for i, k := range keys {
		names[i], types[i] = k[0], k[1]
	}
	return w.SetAside(ctx, names, types, about...)
}

// Mending returns what a call on keys outside the shards returns. If one of the keys has the
// wrong type, it is set aside, and the call is made once more. One node has all of the keys.
func Mending[T any](ctx context.Context, w *Wire, keys []Key, call func() (T, error)) (T, error) {
	reply, err := call()
	if !HasCode(err, "WRONGTYPE") {
		return reply, err
	}
	if moved, moveErr := w.setKeysAside(ctx, keys); moveErr != nil || moved == 0 {
		return reply, err
	}
	return call()
}
