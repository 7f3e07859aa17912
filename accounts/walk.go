package accounts

import (
	"context"

	"github.com/rounds-dev/rounds/circulate"
)

// inOrder calls walk so that it goes through all shards and misses no account while the
// number of shards changes: first through the shards that accounts leave, and then, when
// none is on its way, through the shards that they go to. If the change began after the
// ring was opened, the walk may have missed accounts: inOrder returns
// circulate.ErrResharding.
func (r *Registry) inOrder(ctx context.Context, walk func(ctx context.Context, from, to int) error) error {
	sources := r.ring.Sources()
	if sources > 0 {
		if err := walk(ctx, 0, sources); err != nil {
			return err
		}
	}
	if err := r.enter(ctx, sources); err != nil {
		return err
	}
	if err := walk(ctx, sources, r.ring.Shards()); err != nil {
		return err
	}
	return r.complete(ctx)
}

// enter is called before a walk looks at a shard. A walk goes through the shards in their
// order. Before the first shard that accounts go to, enter completes all moves, so that no
// account is on its way.
func (r *Registry) enter(ctx context.Context, shard int) error {
	if shard != r.ring.Sources() {
		return nil
	}
	for source := range shard {
		if _, err := r.ring.Mover().Complete(ctx, source); err != nil {
			return err
		}
	}
	return nil
}

// complete is called at the end of a walk. It returns circulate.ErrResharding if the walk
// may have missed accounts.
func (r *Registry) complete(ctx context.Context) error {
	changed, err := r.ring.Changed(ctx)
	if err == nil && changed {
		err = circulate.ErrResharding
	}
	return err
}
