package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// standing is what Redis tells of a group in a shard without a script.
type standing struct {
	state  circulate.GroupState
	unread bool // there may be messages that it has not read
}

// States returns how far groups have read in each shard, by name and with the holder of the
// lease. Wanted chooses groups by their names; nil: all. It asks Redis twice, whatever the number
// of shards, so messages may have been read or acknowledged in between. A script looks only at
// shards where something is unread.
func (g *Groups) States(ctx context.Context, wanted func(group string) bool) ([]map[string]circulate.GroupState, error) {
	shards := make([]map[string]circulate.GroupState, g.ring.Shards())
	batches := make([]wire.Batch, len(shards))
	for shard := range shards {
		k := g.streams.Keys(shard)
		batches[shard] = wire.Batch{Key: k.Messages, Commands: []wire.Command{
			{"TIME"}, {"XINFO", "GROUPS", k.Messages}, {"XLEN", k.Dead}, {"HGETALL", k.Leases},
		}}
	}
	var pending []wire.Batch // XPENDING of a group each
	var of []*circulate.GroupState
	found := make([]map[string]*standing, len(shards))
	for shard, replies := range g.wire.PipelineEach(ctx, wire.Ordinary, batches) {
		if replies.Err != nil && !wire.Replied(replies.Err) {
			return nil, fmt.Errorf("groups, shard %d: %w", shard, replies.Err)
		}
		var err error
		if found[shard], err = readStandings(replies, wanted); err != nil {
			// Such as a key of the wrong type, which the script sets aside.
			if shards[shard], err = g.statesIn(ctx, shard, wanted); err != nil {
				return nil, err
			}
			continue
		}
		key := g.streams.Keys(shard).Messages
		for name, s := range found[shard] {
			if s.state.Pending > 0 && !s.unread {
				pending, of = append(pending, wire.Batch{Key: key, Commands: []wire.Command{{"XPENDING", key, name}}}), append(of, &s.state)
			}
		}
	}
	for i, replies := range g.wire.PipelineEach(ctx, wire.Ordinary, pending) {
		if replies.Err != nil && !wire.Replied(replies.Err) {
			return nil, fmt.Errorf("groups: %w", replies.Err)
		}
		if replies.Err == nil { // otherwise the group was removed meanwhile
			summary, _ := redis.Values(replies.Values[0], nil)
			of[i].OldestPending = circulate.PositionAge(of[i].Now, string(wire.BytesAt(summary, 1)))
		}
	}
	if err := g.surveyUnread(ctx, found); err != nil {
		return nil, err
	}
	for shard, standings := range found {
		if shards[shard] == nil {
			shards[shard] = make(map[string]circulate.GroupState, len(standings))
		}
		for name, s := range standings {
			shards[shard][name] = s.state
		}
	}
	return shards, nil
}

// surveyUnread has the script look at the groups that have not read everything, in one round
// trip to each node.
func (g *Groups) surveyUnread(ctx context.Context, found []map[string]*standing) error {
	var calls []wire.Call
	var asked [][]*survey
	var shards []int
	for shard, standings := range found {
		var unread []*survey
		for name, s := range standings {
			if s.unread {
				unread = append(unread, &survey{group: name})
			}
		}
		k := g.streams.Keys(shard)
		for some := range slices.Chunk(unread, gatherMax) {
			args := make([]any, len(some))
			for i, s := range some {
				args[i] = s.group
			}
			calls, asked, shards = append(calls, wire.Call{Keys: []string{k.Messages, k.Dead}, Args: args}), append(asked, some), append(shards, shard)
		}
	}
	for i, reply := range g.wire.EvalEach(ctx, surveyScript, calls) {
		values, err := redis.Values(reply.Value, reply.Err)
		if err == nil && len(values) != 2+surveyColumns*len(asked[i]) {
			err = wire.ErrReply
		}
		if err != nil {
			return fmt.Errorf("groups, shard %d: %w", shards[i], err)
		}
		for j, s := range asked[i] {
			err := s.read(values[:2], values[2+surveyColumns*j:][:surveyColumns])
			switch {
			case errors.Is(err, circulate.ErrNoGroup): // removed meanwhile
				delete(found[shards[i]], s.group)
			case err != nil:
				return fmt.Errorf("groups, shard %d: %w", shards[i], err)
			default:
				s.state.Holder = found[shards[i]][s.group].state.Holder
				found[shards[i]][s.group].state = s.state
			}
		}
	}
	return nil
}

// readStandings reads the replies about a shard. A stream that does not exist has no groups.
func readStandings(replies wire.Replies, wanted func(string) bool) (map[string]*standing, error) {
	if len(replies.Values) != 4 {
		return nil, errors.Join(wire.ErrReply, replies.Err)
	}
	now, err := wire.Time(replies.Values[0])
	if err != nil {
		return nil, err
	}
	infos, err := redis.Values(replies.Values[1], nil)
	if wire.HasCode(err, "no such key") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	dead, err := redis.Int(replies.Values[2], nil)
	if err != nil {
		return nil, err
	}
	holders, err := readHolders(replies.Values[3])
	if err != nil {
		return nil, err
	}
	all := make(map[string]*standing, len(infos))
	for _, info := range infos {
		name, s, err := readStanding(info)
		if err != nil {
			return nil, err
		}
		if wanted == nil || wanted(name) {
			s.state.Now, s.state.Dead, s.state.Holder = now.Truncate(time.Millisecond), dead, holders[name]
			all[name] = s
		}
	}
	return all, nil
}

// readStanding reads what XINFO GROUPS says of a group.
func readStanding(info any) (name string, s *standing, err error) {
	fields, err := redis.Values(info, nil)
	if err != nil {
		return "", nil, errors.Join(wire.ErrReply, err)
	}
	s = &standing{unread: true} // if Redis lost count, or is too old to count
	for i := 0; i+1 < len(fields); i += 2 {
		field, _ := redis.String(fields[i], nil)
		switch value := fields[i+1]; field {
		case "name":
			name, err = redis.String(value, nil)
		case "pending":
			s.state.Pending, err = redis.Int(value, nil)
		case "last-delivered-id":
			s.state.Last, err = redis.String(value, nil)
		case "lag":
			if value != nil {
				s.unread = value != int64(0)
			}
		}
		if err != nil {
			return "", nil, errors.Join(wire.ErrReply, err)
		}
	}
	return name, s, nil
}

// statesIn is States of one shard, by the script.
func (g *Groups) statesIn(ctx context.Context, shard int, wanted func(string) bool) (map[string]circulate.GroupState, error) {
	names, err := g.streams.GroupsOf(ctx, shard)
	if err != nil {
		return nil, err
	}
	states, err := g.SurveyAll(ctx, shard, names)
	if err != nil {
		return nil, err
	}
	holders, err := g.Holders(ctx, shard)
	if err != nil {
		return nil, err
	}
	for name, s := range states {
		if s.Holder = holders[name]; wanted == nil || wanted(name) {
			states[name] = s
		} else {
			delete(states, name)
		}
	}
	return states, nil
}
