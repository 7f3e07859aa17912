package message

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// groupWindow is how long a silent consumer counts as alive. It is also the default time
// after which other consumers take over its messages.
const groupWindow = 15 * time.Second

var (
	// ErrNoGroup reports a consumer group that does not exist.
	ErrNoGroup = errors.New("message: no such consumer group")
	// ErrGroupAlive reports a consumer group that consumers are reading.
	ErrGroupAlive = errors.New("message: the group has consumers that are running")
)

// Group is a consumer group and how far it has read.
type Group struct {
	Name          string
	Lag           int           // messages that it has not read
	Pending       int           // messages that it has read but not acknowledged
	OldestUnread  time.Duration // the age of the oldest message that it has not read
	OldestPending time.Duration // the age of the oldest message that it has not acknowledged
	Consumers     []string      // its living consumers
}

// Groups returns the consumer groups, by name.
func (r *Reader) Groups(ctx context.Context) ([]Group, error) {
	names, err := r.ring.Streams().Groups(ctx)
	if err != nil {
		return nil, err
	}
	groups := make([]Group, 0, len(names))
	for _, name := range names {
		g, err := r.Group(ctx, name)
		if errors.Is(err, ErrNoGroup) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// Group returns a consumer group, or ErrNoGroup.
func (r *Reader) Group(ctx context.Context, name string) (Group, error) {
	if circulate.ValidateGroup(name) != nil {
		return Group{}, fmt.Errorf("%w: %q", ErrNoGroup, name)
	}
	states := make([]circulate.GroupState, r.ring.Shards())
	missing := make([]bool, len(states))
	err := circulate.EachShard(ctx, r.ring.Shards(), func(ctx context.Context, shard int) (err error) {
		states[shard], err = r.ring.Streams().GroupState(ctx, shard, name)
		if errors.Is(err, circulate.ErrNoGroup) {
			missing[shard], err = true, nil
		}
		return err
	})
	if err != nil {
		return Group{}, err
	}
	if !slices.Contains(missing, false) {
		return Group{}, fmt.Errorf("%w: %q", ErrNoGroup, name)
	}
	g := Group{Name: name}
	for _, s := range states {
		g.Lag += s.Lag
		g.Pending += s.Pending
		g.OldestUnread = max(g.OldestUnread, s.OldestUnread)
		g.OldestPending = max(g.OldestPending, s.OldestPending)
	}
	g.Consumers, err = group.Of(r.ring).Consumers(ctx, name, groupWindow)
	return g, err
}

// RemoveGroup removes a consumer group with its position and its pending messages. Its dead
// letters stay. RemoveGroup returns ErrNoGroup for a group that does not exist, and
// ErrGroupAlive for a group with running consumers: they would create it again.
func (r *Reader) RemoveGroup(ctx context.Context, name string) error {
	if circulate.ValidateGroup(name) != nil {
		return fmt.Errorf("%w: %q", ErrNoGroup, name)
	}
	alive, err := group.Of(r.ring).Consumers(ctx, name, groupWindow)
	if err != nil {
		return err
	}
	if len(alive) > 0 {
		return fmt.Errorf("%w: %q", ErrGroupAlive, name)
	}
	removed, err := group.Of(r.ring).Remove(ctx, name)
	if err == nil && !removed {
		err = fmt.Errorf("%w: %q", ErrNoGroup, name)
	}
	return err
}
