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

var (
	// ErrResharding reports a change of the number of shards that cannot begin.
	ErrResharding = errors.New("accounts: the number of shards cannot be changed now")
	// ErrNoReturn reports a change that can only go on.
	ErrNoReturn = errors.New("accounts: the change of the number of shards cannot be given up any more")
	// ErrNoRoom reports one for which Redis has too little memory.
	ErrNoRoom = errors.New("accounts: too little memory to change the number of shards")
)

// NoRoomError is an ErrNoRoom that tells which server has too little.
type NoRoomError struct{ circulate.Room }

// Is reports that it is an ErrNoRoom.
func (*NoRoomError) Is(target error) bool { return target == ErrNoRoom }

func (e *NoRoomError) Error() string {
	server := "Redis"
	if e.Node != "" {
		server += " at " + e.Node
	}
	const mb = 1e6
	return fmt.Sprintf("%s has %.1f MB left below its memory limit, and moving the accounts takes about %.1f MB: raise maxmemory or keep fewer messages",
		server, float64(max(0, e.Free))/mb, float64(e.Need)/mb)
}

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

	// Room is what a dry run found that each server with a limit of memory needs.
	Room []circulate.Room
}

// ReshardOptions say how a change of the number of shards is begun.
type ReshardOptions struct {
	Dry   bool // only tell what there would be to do
	Force bool // even where Redis seems to have too little memory
}

// Reshard begins to change the number of shards, which the monitors then do. To ask
// again is safe. It returns ErrResharding where another change is not over, and
// ErrNoRoom where Redis has too little memory below its limit.
func (r *Registry) Reshard(ctx context.Context, to int, deadAfter time.Duration, o ReshardOptions) (Resharding, error) {
	if to < 1 || to > circulate.MaxShards {
		return Resharding{}, Faults{{Field: "shards", Reason: fmt.Sprintf("must be 1 to %d, is %d", circulate.MaxShards, to)}}
	}
	room, err := r.roomFor(ctx, to)
	if err != nil {
		return Resharding{}, err
	}
	if !o.Dry {
		for _, server := range room {
			if server.Free < server.Need && !o.Force {
				return Resharding{}, &NoRoomError{server}
			}
		}
		if _, err := r.ring.Mover().Begin(ctx, to); errors.Is(err, circulate.ErrReshardingOther) {
			return Resharding{}, fmt.Errorf("%w: %w", ErrResharding, err)
		} else if err != nil {
			return Resharding{}, err
		}
	}
	done, err := r.Resharding(ctx, deadAfter)
	if o.Dry && err == nil && done.Phase == circulate.Steady {
		done.To, done.Room = to, room
		if done.From != to {
			done.Left = done.Accounts
		}
	}
	return done, err
}

// roomFor is the room for a change that has not begun.
func (r *Registry) roomFor(ctx context.Context, to int) ([]circulate.Room, error) {
	now, err := r.ring.Mover().State(ctx)
	if err != nil || now.Phase != circulate.Steady || now.To == to {
		return nil, err
	}
	return r.ring.Mover().Room(ctx, to)
}

// Resharding tells how far a change of the number of shards has come. A replica
// counts as living that was heard of since deadAfter ago.
func (r *Registry) Resharding(ctx context.Context, deadAfter time.Duration) (Resharding, error) {
	var done Resharding
	var err error
	if done.Resharding, err = r.ring.Mover().State(ctx); err != nil {
		return Resharding{}, err
	}
	var mu sync.Mutex
	err = circulate.EachShard(ctx, r.ring.Shards(), func(ctx context.Context, shard int) error {
		count, err := r.ring.Count(ctx, shard)
		if err != nil {
			return err
		}
		var left circulate.Leftover
		if shard < r.ring.Sources() {
			if left, err = r.ring.Mover().Remaining(ctx, shard); err != nil {
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

// behind returns the replicas that live and do not know the new shards of a change.
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

// AbortResharding gives up a change of the number of shards of which no account has
// begun to move; to ask again is safe. It returns ErrNoReturn where one has.
func (r *Registry) AbortResharding(ctx context.Context) error {
	_, err := r.ring.Mover().Abort(ctx)
	if errors.Is(err, circulate.ErrNoReturn) {
		err = fmt.Errorf("%w: %w", ErrNoReturn, err)
	}
	return err
}

// FinishResharding forgets the old shards now rather than when the time of the
// messages in them is over: messages go that every consumer group has handled. It
// reports whether the change is over.
func (r *Registry) FinishResharding(ctx context.Context) (bool, error) {
	return r.ring.Mover().Drained(ctx, true)
}
