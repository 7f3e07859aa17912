package circulate

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed group_state.lua
var groupStateLua string

var groupStateScript = newGroupScript("group state", groupStateLua)

// GroupState is how far a consumer group has got in one shard.
type GroupState struct {
	Now     time.Time // Redis' clock
	Lag     int       // messages that it has not read; where Redis lost count, at most as many
	Pending int       // that it was given and has not acknowledged
	Dead    int       // dead letters in the shard, of all groups
	Last    string    // position of the last message that it has read
	Holder  string    // the consumer whose lease was the last, if any

	// OldestUnread is for how long the first message that it has not read waits,
	// OldestPending the first that it has not acknowledged; 0 where there is none.
	OldestUnread, OldestPending time.Duration
}

// GroupState gives how far a group has got in a shard. Where the shard has not got
// the group it is ErrNoGroup.
func (r *Ring) GroupState(ctx context.Context, shard int, group string) (GroupState, error) {
	k := &r.keys[shard]
	reply, err := redis.Values(r.wire.Run(ctx, groupStateScript, shard, []string{k.messages, k.dead, k.leases}, group))
	if err != nil {
		return GroupState{}, err
	}
	if len(reply) == 1 {
		return GroupState{}, ErrNoGroup
	}
	var s GroupState
	var now int64
	var unread, pending string
	if _, err := redis.Scan(reply, &now, &s.Lag, &s.Pending, &s.Dead, &s.Last, &unread, &pending, &s.Holder); err != nil {
		return GroupState{}, fmt.Errorf("group state, shard %d: %w", shard, err)
	}
	s.Now = time.UnixMilli(now)
	s.OldestUnread, s.OldestPending = age(now, unread), age(now, pending)
	return s, nil
}

// age is how long ago a message was written.
func age(now int64, at string) time.Duration {
	id, err := ParseStreamID(at)
	if err != nil {
		return 0
	}
	return time.Duration(max(0, now-int64(id.Ms))) * time.Millisecond
}

// Groups gives the names of all consumer groups of the shards.
func (r *Ring) Groups(ctx context.Context) ([]string, error) {
	var names []string
	for shard := range r.keys {
		key := r.keys[shard].messages
		replies, err := r.wire.Pipeline(ctx, key, wire.Command{"XINFO", "GROUPS", key})
		if wire.HasCode(err, "no such key") {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("groups, shard %d: %w", shard, err)
		}
		groups, err := redis.Values(replies[0], nil)
		if err != nil {
			return nil, fmt.Errorf("groups, shard %d: %w", shard, err)
		}
		for _, g := range groups {
			info, err := redis.Values(g, nil)
			if err != nil {
				return nil, fmt.Errorf("groups, shard %d: %w", shard, err)
			}
			for i := 0; i+1 < len(info); i += 2 {
				if field, _ := redis.String(info[i], nil); field == "name" {
					name, _ := redis.String(info[i+1], nil)
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Consumers gives the consumers of a group that were heard of within the window.
func (r *Ring) Consumers(ctx context.Context, group string, window time.Duration) ([]string, error) {
	key := consumersKey(r.namespace, group)
	now, err := r.wire.Pipeline(ctx, key, wire.Command{"TIME"})
	if err != nil {
		return nil, fmt.Errorf("consumers: %w", err)
	}
	at, err := wire.Time(now[0])
	if err != nil {
		return nil, err
	}
	replies, err := r.wire.Pipeline(ctx, key, wire.Command{"ZRANGEBYSCORE", key, at.Add(-window).UnixMilli(), at.Add(window).UnixMilli()})
	if err != nil {
		return nil, fmt.Errorf("consumers: %w", err)
	}
	return redis.Strings(replies[0], nil)
}

// RemoveGroup forgets a consumer group in all shards: what it has read, what is
// pending, and what its effects remember. Its dead letters stay. It reports
// whether any shard had it.
//
// A consumer of it that runs makes it anew, from where that consumer had got to.
func (r *Ring) RemoveGroup(ctx context.Context, group string) (bool, error) {
	if err := checkGroup("remove group", group); err != nil {
		return false, err
	}
	removed := false
	for shard := range r.keys {
		k := &r.keys[shard]
		replies, err := r.wire.Pipeline(ctx, k.messages,
			wire.Command{"HDEL", k.leases, group}, wire.Command{"DEL", k.appliedKey(group)}, wire.Command{"EXISTS", k.messages})
		if err == nil && replies[2] == int64(1) {
			replies, err = r.wire.Pipeline(ctx, k.messages, wire.Command{"XGROUP", "DESTROY", k.messages, group})
			removed = removed || err == nil && replies[0] == int64(1)
		}
		if err != nil {
			return removed, fmt.Errorf("remove group, shard %d: %w", shard, err)
		}
	}
	key := consumersKey(r.namespace, group)
	if _, err := r.wire.Pipeline(ctx, key, wire.Command{"DEL", key, consumerReportsKey(r.namespace, group)}); err != nil {
		return removed, fmt.Errorf("remove group: %w", err)
	}
	return removed, nil
}
