package message

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	Events        bool          // it asks for events beside messages
	Consumers     []Consumer    // its living consumers, by name
}

// Consumer is a living consumer of a group.
type Consumer struct {
	Name          string
	Silent        time.Duration // the time since its last sign of life
	Shards        int           // shards that it reads
	Pending       int           // messages of these shards that are read but not acknowledged
	OldestPending time.Duration // the age of the oldest of these messages
	Error         string        // why messages wait for it: the last error of its handler; empty: none does
}

// Groups returns the consumer groups, by name.
func (r *Reader) Groups(ctx context.Context) ([]Group, error) { return r.groupsOf(ctx, nil) }

// Group returns a consumer group, or ErrNoGroup.
func (r *Reader) Group(ctx context.Context, name string) (Group, error) {
	if circulate.ValidateGroup(name) != nil {
		return Group{}, fmt.Errorf("%w: %q", ErrNoGroup, name)
	}
	groups, err := r.groupsOf(ctx, func(group string) bool { return group == name })
	if err != nil {
		return Group{}, err
	}
	if len(groups) == 0 {
		return Group{}, fmt.Errorf("%w: %q", ErrNoGroup, name)
	}
	return groups[0], nil
}

// groupsOf returns the groups that wanted selects, or all if it is nil, sorted by name. It asks
// all shards at once.
func (r *Reader) groupsOf(ctx context.Context, wanted func(group string) bool) ([]Group, error) {
	states, err := group.Of(r.ring).States(ctx, wanted)
	if err != nil {
		return nil, err
	}
	sums := group.Sum(states)
	names := slices.Sorted(maps.Keys(sums))
	present, err := group.Of(r.ring).PresentIn(ctx, names, groupWindow)
	if err != nil {
		return nil, err
	}
	told, err := r.ring.Streams().Told(ctx, 0) // the last shard to learn of it
	if err != nil {
		return nil, err
	}
	groups := make([]Group, 0, len(names))
	for _, name := range names {
		sum := sums[name]
		groups = append(groups, Group{name, sum.Lag, sum.Pending, sum.OldestUnread, sum.OldestPending, slices.Contains(told, name), consumersOf(name, present[name], states)})
	}
	return groups, nil
}

// consumersOf returns the living consumers of a group, with what they have leased.
func consumersOf(name string, present []group.Consumer, states []map[string]circulate.GroupState) []Consumer {
	consumers := make([]Consumer, len(present))
	reads := make(map[string]*Consumer, len(present))
	for i, p := range present {
		consumers[i] = Consumer{Name: p.Name, Silent: p.Silent, Error: p.Deferred}
		reads[p.Name] = &consumers[i]
	}
	for _, shard := range states {
		if s, ok := shard[name]; ok && reads[s.Holder] != nil {
			c := reads[s.Holder]
			c.Shards++
			c.Pending += s.Pending
			c.OldestPending = max(c.OldestPending, s.OldestPending)
		}
	}
	slices.SortFunc(consumers, func(a, b Consumer) int { return strings.Compare(a.Name, b.Name) })
	return consumers
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
