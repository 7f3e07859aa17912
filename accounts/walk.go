package accounts

import (
	"context"

	"github.com/rounds-dev/rounds/circulate"
)

// inOrder has a walk go through all shards, from one to before another, so that no
// account is missed while the number of shards changes: first those that accounts
// leave, and then, with none on its way, those that they go to. Where the number
// began to change since the ring was opened, accounts may be where the walk did not
// come, and it returns circulate.ErrResharding.
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

// enter is called by a walk that goes from shard to shard, in their order, before
// it looks at one: no account is on its way when it comes to the first of those that
// accounts go to.
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

// complete is called by a walk that has come to its end. It returns
// circulate.ErrResharding where the walk may have missed accounts.
func (r *Registry) complete(ctx context.Context) error {
	changed, err := r.ring.Changed(ctx)
	if err == nil && changed {
		err = circulate.ErrResharding
	}
	return err
}
