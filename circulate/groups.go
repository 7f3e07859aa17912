package circulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// ErrNoGroup reports that a shard does not have the consumer group, or no longer has it.
var ErrNoGroup = wire.Finding("circulate: no such consumer group")

// ValidateGroup returns what is wrong with a consumer group's name. It must be 1 to 64
// letters, digits, dots, dashes or underscores.
func ValidateGroup(group string) error { return wire.ValidateGroup(group) }

// EnsureGroup makes a consumer group in a shard if it does not exist there. A new group
// reads what comes after the position: StreamStart for everything, StreamEnd for new
// messages only. In a new shard the group reads everything if an old shard whose accounts
// move there has the group already: the group is then as old as in the old shard. So make
// a group in the last shard first.
func (s Streams) EnsureGroup(ctx context.Context, shard int, group, after string) (created bool, err error) {
	if err := wire.CheckGroup("ensure group", group); err != nil {
		return false, err
	}
	if after != StreamEnd {
		if err := ValidatePosition(after); err != nil {
			return false, fmt.Errorf("%w: ensure group: %w", wire.ErrInput, err)
		}
	}
	key := s.ring.keys[shard].messages
	if after, err = s.ring.groupStart(ctx, shard, group, after); err != nil {
		return false, fmt.Errorf("ensure group, shard %d: %w", shard, err)
	}
	_, err = s.ring.wire.PipelineOn(ctx, wire.ForGroups, shard, key, wire.Command{"XGROUP", "CREATE", key, group, after, "MKSTREAM"})
	if wire.HasCode(err, "BUSYGROUP") {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ensure group, shard %d: %w", shard, err)
	}
	return true, nil
}

var groupStateScript = wire.NewGroupScript("group state", lua("group_state"))

// GroupState is how far a consumer group has read in one shard.
type GroupState struct {
	Now     time.Time // Redis' clock
	Lag     int       // unread messages; above 256 an upper bound if Redis lost count
	Pending int       // messages read and not acknowledged
	Dead    int       // dead letters in the shard, of all groups
	Last    string    // position of the last message read
	Holder  string    // the consumer with the last lease, if any

	// OldestUnread is how long the oldest unread message has waited. OldestPending is the
	// same for the oldest unacknowledged message. 0 if there is none.
	OldestUnread, OldestPending time.Duration
}

// GroupState returns how far a group has read in a shard. It returns ErrNoGroup if the
// shard does not have the group.
func (s Streams) GroupState(ctx context.Context, shard int, group string) (GroupState, error) {
	k := &s.ring.keys[shard]
	reply, err := redis.Values(s.ring.wire.Run(ctx, groupStateScript, shard, []string{k.messages, k.dead, k.leases}, group))
	if err != nil {
		return GroupState{}, err
	}
	if len(reply) == 1 {
		return GroupState{}, ErrNoGroup
	}
	var state GroupState
	var now int64
	var unread, pending string
	if _, err := redis.Scan(reply, &now, &state.Lag, &state.Pending, &state.Dead, &state.Last, &unread, &pending, &state.Holder); err != nil {
		return GroupState{}, fmt.Errorf("group state, shard %d: %w", shard, err)
	}
	state.Now = time.UnixMilli(now)
	state.OldestUnread, state.OldestPending = PositionAge(state.Now, unread), PositionAge(state.Now, pending)
	return state, nil
}

// GroupsOf returns the names of a shard's consumer groups, sorted.
func (s Streams) GroupsOf(ctx context.Context, shard int) ([]string, error) {
	groups, err := s.ring.groupInfos(ctx, s.ring.keys[shard].messages)
	if err != nil {
		return nil, fmt.Errorf("groups, shard %d: %w", shard, err)
	}
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.name
	}
	slices.Sort(names)
	return names, nil
}

// groupInfo is what Redis reports about a consumer group.
type groupInfo struct{ name, lastRead string }

// groupInfos returns the consumer groups of a stream, or none if there is no stream.
func (r *Ring) groupInfos(ctx context.Context, key string) ([]groupInfo, error) {
	replies, err := r.wire.Pipeline(ctx, key, wire.Command{"XINFO", "GROUPS", key})
	if wire.HasCode(err, "no such key") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	groups, err := redis.Values(replies[0], nil)
	if err != nil {
		return nil, err
	}
	infos := make([]groupInfo, len(groups))
	for i, g := range groups {
		fields, err := redis.Values(g, nil)
		if err != nil {
			return nil, errors.Join(wire.ErrReply, err)
		}
		for j := 0; j+1 < len(fields); j += 2 {
			switch field, _ := redis.String(fields[j], nil); field {
			case "name":
				infos[i].name, _ = redis.String(fields[j+1], nil)
			case "last-delivered-id":
				infos[i].lastRead, _ = redis.String(fields[j+1], nil)
			}
		}
	}
	return infos, nil
}
