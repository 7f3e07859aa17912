package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

var (
	// ErrResharding reports a change of the number of shards that cannot begin.
	ErrResharding = errors.New("accounts: the number of shards cannot be changed now")
	// ErrNoReturn reports a change that can no longer be aborted.
	ErrNoReturn = errors.New("accounts: the change of the number of shards can no longer be aborted")
	// ErrNoRoom reports a change for which Redis has too little memory.
	ErrNoRoom = errors.New("accounts: too little memory to change the number of shards")
)

// noRoomError is an ErrNoRoom that says which server has too little memory.
type noRoomError struct{ circulate.Room }

// Is reports whether target is ErrNoRoom.
func (*noRoomError) Is(target error) bool { return target == ErrNoRoom }

func (e *noRoomError) Error() string {
	server := "Redis"
	if e.Node != "" {
		server += " at " + e.Node
	}
	const mb = 1e6
	return fmt.Sprintf("%s has %.1f MB left below its memory limit, and moving the accounts takes about %.1f MB: raise maxmemory or keep fewer messages",
		server, float64(max(0, e.Free))/mb, float64(e.Need)/mb)
}

// Resharding is how far a change of the number of shards is, or what a dry run found.
type Resharding struct {
	circulate.Resharding
	Accounts int      // registered accounts
	Left     int      // accounts that are still in old shards
	Transit  int      // batches on their way
	Kept     int      // batches that arrived; the old shards retain a copy for some seconds
	Messages int      // messages in old shards, where they are read until their time is over
	Behind   []string // living replicas that do not know the new shards yet

	NoMonitor bool // no monitor is alive: until one is, nothing moves

	// Room is the memory that each server with a limit needs, as a dry run found it.
	Room []circulate.Room
}

// ReshardOptions say how to begin a change of the number of shards.
type ReshardOptions struct {
	Dry   bool // only say what the change would do
	Force bool // begin even if Redis seems to have too little memory
}

// Reshard begins a change of the number of shards, which the monitors carry out. Repeating
// the call is safe. It returns Faults for a number that is not valid, ErrResharding while
// another change is under way, and ErrNoRoom if Redis has too little memory below its limit.
// A replica counts as living if its last heartbeat is less than deadAfter ago, and so does a monitor by its last
// sign of life. Without a monitor the change begins, and moves nothing before one is there.
func (r *Registry) Reshard(ctx context.Context, to int, deadAfter time.Duration, o ReshardOptions) (Resharding, error) {
	if to < 1 || to > circulate.MaxShards {
		return Resharding{}, Faults{{Field: "shards", Reason: fmt.Sprintf("must be 1 to %d, is %d", circulate.MaxShards, to)}}
	}
	room, err := r.roomFor(ctx, to)
	if err != nil {
		return Resharding{}, err
	}
	if now, err := r.ring.Mover().State(ctx); err != nil {
		return Resharding{}, err
	} else if o.Dry && now.Phase != circulate.Steady && now.To != to {
		return Resharding{}, fmt.Errorf("%w: %w", ErrResharding, circulate.ErrReshardingOther)
	}
	if !o.Dry {
		for _, server := range room {
			if server.Free < server.Need && !o.Force {
				return Resharding{}, &noRoomError{server}
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

// roomFor returns the memory that a change needs before it begins.
func (r *Registry) roomFor(ctx context.Context, to int) ([]circulate.Room, error) {
	now, err := r.ring.Mover().State(ctx)
	if err != nil || now.Phase != circulate.Steady || now.To == to {
		return nil, err
	}
	return r.ring.Mover().Room(ctx, to)
}

// Resharding returns how far a change of the number of shards is. A replica counts as
// living if its last heartbeat is less than deadAfter ago.
func (r *Registry) Resharding(ctx context.Context, deadAfter time.Duration) (Resharding, error) {
	var done Resharding
	var err error
	if done.Resharding, err = r.ring.Mover().State(ctx); err != nil {
		return Resharding{}, err
	}
	counts, err := r.ring.CountAll(ctx)
	if err != nil {
		return Resharding{}, err
	}
	for _, count := range counts {
		done.Accounts += count.Registered
	}
	if done.NoMonitor, err = r.noMonitor(ctx, deadAfter); err != nil {
		return Resharding{}, err
	}
	var mu sync.Mutex
	err = circulate.EachShard(ctx, r.ring.Sources(), func(ctx context.Context, shard int) error {
		left, err := r.ring.Mover().Remaining(ctx, shard)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		done.Left += counts[shard].Registered
		done.Messages += counts[shard].Messages
		done.Transit += left.Transit
		done.Kept += left.Kept
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

// noMonitor reports whether no monitor is alive.
func (r *Registry) noMonitor(ctx context.Context, deadAfter time.Duration) (bool, error) {
	members, now, err := r.ring.Roster().Members(ctx)
	if err != nil {
		return false, err
	}
	outage := r.ring.LastOutage(now)
	return !slices.ContainsFunc(processesOf(members), func(p Process) bool {
		return slices.Contains(p.Roles, "monitor") && outage.Alive(p.Beat, now, deadAfter)
	}), nil
}

// behind returns the living replicas that do not know the new shards of a change.
func (r *Registry) behind(ctx context.Context, change circulate.Resharding, deadAfter time.Duration) ([]string, error) {
	replicas, now, err := r.ring.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	outage := r.ring.LastOutage(now)
	for _, replica := range replicas {
		var report Report
		if !outage.Alive(replica.Beat, now, deadAfter) {
			continue
		}
		if json.Unmarshal(replica.Report, &report) != nil || report.Layout != change.Layout() {
			names = append(names, replica.Name)
		}
	}
	return names, nil
}

// AbortResharding aborts a change of the number of shards before the first account moves.
// Repeating the call is safe. It returns ErrNoReturn once an account has begun to move.
func (r *Registry) AbortResharding(ctx context.Context) error {
	_, err := r.ring.Mover().Abort(ctx)
	if errors.Is(err, circulate.ErrNoReturn) {
		err = fmt.Errorf("%w: %w", ErrNoReturn, err)
	}
	return err
}

// Undrained returns how many messages in old shards each consumer group still has to
// handle. It leaves out groups that have none.
func (r *Registry) Undrained(ctx context.Context) (map[string]int, error) {
	left := make(map[string]int)
	var mu sync.Mutex
	err := circulate.EachShard(ctx, r.ring.Sources(), func(ctx context.Context, shard int) error {
		groups, err := r.ring.Streams().GroupsOf(ctx, shard)
		if err != nil {
			return err
		}
		for _, group := range groups {
			s, err := r.ring.Streams().GroupState(ctx, shard, group)
			if errors.Is(err, circulate.ErrNoGroup) {
				continue
			}
			if err != nil {
				return err
			}
			if n := s.Lag + s.Pending; n > 0 {
				mu.Lock()
				left[group] += n
				mu.Unlock()
			}
		}
		return nil
	})
	return left, err
}

// FinishResharding drops the messages in old shards that every consumer group has handled,
// and then the old shards, before the messages' time is over. It reports whether the change
// is complete.
func (r *Registry) FinishResharding(ctx context.Context) (bool, error) {
	return r.ring.Mover().Drained(ctx, true)
}
