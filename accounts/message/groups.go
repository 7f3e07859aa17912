package message

import (
	"context"
	"errors"
	"fmt"
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
	Consumers     []Consumer    // its living consumers, by name
}

// Consumer is a living consumer of a group.
type Consumer struct {
	Name          string
	Silent        time.Duration // since its last sign of life
	Shards        int           // shards that it reads
	Pending       int           // messages of these shards that are read but not acknowledged
	OldestPending time.Duration // the age of the oldest of them
}

// Groups returns the consumer groups, by name.
func (r *Reader) Groups(ctx context.Context) ([]Group, error) {
	names, err := r.ring.Streams().Groups(ctx)
	if err != nil {
		return nil, err
	}
	return r.groupsOf(ctx, names)
}

// Group returns a consumer group, or ErrNoGroup.
func (r *Reader) Group(ctx context.Context, name string) (Group, error) {
	if circulate.ValidateGroup(name) != nil {
		return Group{}, fmt.Errorf("%w: %q", ErrNoGroup, name)
	}
	groups, err := r.groupsOf(ctx, []string{name})
	if err != nil {
		return Group{}, err
	}
	if len(groups) == 0 {
		return Group{}, fmt.Errorf("%w: %q", ErrNoGroup, name)
	}
	return groups[0], nil
}

// groupsOf returns those of the groups that exist. It asks each shard for all of them at
// once.
func (r *Reader) groupsOf(ctx context.Context, names []string) ([]Group, error) {
	if len(names) == 0 {
		return []Group{}, nil
	}
	states := make([]map[string]circulate.GroupState, r.ring.Shards())
	holders := make([]map[string]string, len(states))
	err := circulate.EachShard(ctx, len(states), func(ctx context.Context, shard int) (err error) {
		if states[shard], err = group.Of(r.ring).SurveyAll(ctx, shard, names); err == nil && len(states[shard]) > 0 {
			holders[shard], err = group.Of(r.ring).Holders(ctx, shard)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	groups := make([]Group, 0, len(names))
	for _, name := range names {
		present, err := group.Of(r.ring).Present(ctx, name, groupWindow)
		if err != nil {
			return nil, err
		}
		g, there := Group{Name: name, Consumers: make([]Consumer, len(present))}, false
		reads := make(map[string]*Consumer, len(present))
		for i, p := range present {
			g.Consumers[i] = Consumer{Name: p.Name, Silent: p.Silent}
			reads[p.Name] = &g.Consumers[i]
		}
		for shard := range states {
			s, ok := states[shard][name]
			if !ok {
				continue
			}
			there = true
			g.Lag += s.Lag
			g.Pending += s.Pending
			g.OldestUnread = max(g.OldestUnread, s.OldestUnread)
			g.OldestPending = max(g.OldestPending, s.OldestPending)
			if c := reads[holders[shard][name]]; c != nil {
				c.Shards++
				c.Pending += s.Pending
				c.OldestPending = max(c.OldestPending, s.OldestPending)
			}
		}
		if there {
			slices.SortFunc(g.Consumers, func(a, b Consumer) int { return strings.Compare(a.Name, b.Name) })
			groups = append(groups, g)
		}
	}
	return groups, nil
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
