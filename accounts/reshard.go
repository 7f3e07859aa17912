package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// ErrResharding reports a change of the number of shards that cannot begin.
var ErrResharding = errors.New("accounts: the number of shards cannot be changed now")

// Resharding is how far a change of the number of shards has come, or what one
// would have to do.
type Resharding struct {
	circulate.Resharding
	Accounts int      // registered
	Left     int      // of them, those that are still in old shards
	Transit  int      // batches on their way
	Kept     int      // batches that have arrived, of which the old shards keep a copy for some seconds
	Messages int      // in old shards: they are read there, and forgotten when their time is over
	Behind   []string // replicas that live and do not know the new shards yet
}

// Reshard begins to change the number of shards, which the monitors then do; with
// dry it only tells what there would be to do. To ask again is safe. It gives
// ErrResharding where another change is not over.
func (r *Registry) Reshard(ctx context.Context, to int, deadAfter time.Duration, dry bool) (Resharding, error) {
	if to < 1 || to > circulate.MaxShards {
		return Resharding{}, Faults{{Field: "shards", Reason: fmt.Sprintf("must be 1 to %d, is %d", circulate.MaxShards, to)}}
	}
	if !dry {
		if _, err := r.ring.Reshard(ctx, to); errors.Is(err, circulate.ErrReshardingOther) {
			return Resharding{}, fmt.Errorf("%w: %w", ErrResharding, err)
		} else if err != nil {
			return Resharding{}, err
		}
	}
	done, err := r.Resharding(ctx, deadAfter)
	if dry && err == nil && done.Phase == circulate.Steady {
		done.To = to
		if done.From != to {
			done.Left = done.Accounts
		}
	}
	return done, err
}

// Resharding tells how far a change of the number of shards has come. A replica
// counts as living that was heard of since deadAfter ago.
func (r *Registry) Resharding(ctx context.Context, deadAfter time.Duration) (Resharding, error) {
	var done Resharding
	var err error
	if done.Resharding, err = r.ring.Resharding(ctx); err != nil {
		return Resharding{}, err
	}
	var mu sync.Mutex
	err = r.eachShard(ctx, func(ctx context.Context, shard int) error {
		count, err := r.ring.Count(ctx, shard)
		if err != nil {
			return err
		}
		var left circulate.Leftover
		if shard < r.ring.Sources() {
			if left, err = r.ring.Left(ctx, shard); err != nil {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		done.Accounts += count.Registered
		if shard < r.ring.Sources() {
			done.Left += count.Registered
			done.Messages += count.Messages
			done.Transit += left.Transit
			done.Kept += left.Kept
		}
		return nil
	})
	if err != nil || done.Phase != circulate.Moving {
		return done, err
	}
	if r.ring.Sources() == 0 {
		done.Left = done.Accounts // this process does not know the new shards yet either
	}
	done.Behind, err = r.behind(ctx, done.Resharding, deadAfter)
	return done, err
}

// behind gives the replicas that live and do not know the new shards of a change.
func (r *Registry) behind(ctx context.Context, change circulate.Resharding, deadAfter time.Duration) ([]string, error) {
	replicas, now, err := r.ring.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, replica := range replicas {
		var report Report
		if now.Sub(replica.Beat) > deadAfter {
			continue
		}
		if json.Unmarshal(replica.Report, &report) != nil || report.Layout != change.Layout() {
			names = append(names, replica.Name)
		}
	}
	return names, nil
}

// FinishResharding forgets the old shards now rather than when the time of the
// messages in them is over: messages go that every consumer group has handled. It
// reports whether the change is over.
func (r *Registry) FinishResharding(ctx context.Context) (bool, error) {
	return r.ring.Drained(ctx, true)
}
