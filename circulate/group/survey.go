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

var surveyScript = wire.NewGroupScript("survey", lua("survey"))

// survey is a group that a caller asks about, and the result.
type survey = asked[string, circulate.GroupState]

// Survey is [circulate.Streams.GroupState] without the holder. It reads the groups of
// calls made at about the same time in one step.
func (g *Groups) Survey(ctx context.Context, shard int, group string) (circulate.GroupState, error) {
	return g.surveys.ask(ctx, shard, group, g.surveyGathered)
}

// surveyColumns is how many values the script replies for each group.
const surveyColumns = 5

// surveyAll surveys several groups of a shard, by name. It leaves out groups that the shard
// does not have.
func (g *Groups) surveyAll(ctx context.Context, shard int, groups []string) (map[string]circulate.GroupState, error) {
	states := make(map[string]circulate.GroupState, len(groups))
	for names := range slices.Chunk(groups, gatherMax) {
		all := make([]*survey, len(names))
		for i, name := range names {
			all[i] = &survey{question: name}
		}
		g.survey(ctx, shard, all)
		for _, s := range all {
			switch {
			case s.err == nil:
				states[s.question] = s.answer
			case !errors.Is(s.err, circulate.ErrNoGroup):
				return nil, s.err
			}
		}
	}
	return states, nil
}

// surveyGathered surveys the groups of a shard that several callers have asked about. No
// caller's context ends it.
func (g *Groups) surveyGathered(shard int, all []*survey) {
	g.survey(context.Background(), shard, all)
}

// survey asks Redis about groups of a shard, and stores each answer or error in its survey.
func (g *Groups) survey(ctx context.Context, shard int, all []*survey) {
	args := make([]any, len(all))
	for i, s := range all {
		args[i] = s.question
	}
	k := g.streams.Keys(shard)
	reply, err := g.wire.Run(ctx, surveyScript, shard, []string{k.Messages, k.Dead}, args...)
	readSurveys(shard, all, reply, err)
}

// readSurveys reads the script's reply to several questions about a shard.
func readSurveys(shard int, all []*survey, reply any, err error) {
	values, err := redis.Values(reply, err)
	if err == nil && len(values) != 2+surveyColumns*len(all) {
		err = fmt.Errorf("survey, shard %d: %w", shard, wire.ErrReply)
	}
	for i, s := range all {
		if s.err = err; err == nil {
			s.err = readSurvey(&s.answer, values[:2], values[2+surveyColumns*i:][:surveyColumns])
		}
	}
}

func readSurvey(s *circulate.GroupState, head, values []any) error {
	var now int64
	if _, err := redis.Scan(head, &now, &s.Dead); err != nil {
		return fmt.Errorf("survey: %w", err)
	}
	var unread, pending string
	if _, err := redis.Scan(values, &s.Lag, &s.Pending, &s.Last, &unread, &pending); err != nil {
		return fmt.Errorf("survey: %w", err)
	}
	if s.Lag < 0 {
		return circulate.ErrNoGroup
	}
	s.Now = time.UnixMilli(now)
	s.OldestUnread, s.OldestPending = circulate.PositionAge(s.Now, unread), circulate.PositionAge(s.Now, pending)
	return nil
}

// standing is what Redis reports about a group in a shard without a script.
type standing struct {
	state  circulate.GroupState
	unread bool // there may be unread messages
}

// States returns how far groups have read in each shard, by name and with the consumer
// that has the lease. Wanted selects groups by name; a nil Wanted selects all. Whatever the
// number of shards, States asks Redis twice, and a third time, by a script, about groups
// with unread messages. So messages may be read or acknowledged in between.
func (g *Groups) States(ctx context.Context, wanted func(group string) bool) ([]map[string]circulate.GroupState, error) {
	shards := make([]map[string]circulate.GroupState, g.ring.Shards())
	batches := make([]wire.Batch, len(shards))
	for shard := range shards {
		k := g.streams.Keys(shard)
		batches[shard] = wire.Batch{Key: k.Messages, Commands: []wire.Command{
			{"TIME"}, {"XINFO", "GROUPS", k.Messages}, {"XLEN", k.Dead}, {"HGETALL", k.Leases},
		}}
	}
	var pending []wire.Batch // one XPENDING for each group
	var of []*circulate.GroupState
	found := make([]map[string]*standing, len(shards))
	for shard, replies := range g.wire.PipelineEach(ctx, wire.Ordinary, batches) {
		if replies.Err != nil && !wire.Replied(replies.Err) {
			return nil, fmt.Errorf("groups, shard %d: %w", shard, replies.Err)
		}
		var err error
		if found[shard], err = readStandings(replies, wanted); err != nil {
			// The script can still answer, for example by setting aside a key of the wrong type.
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

// Sum returns how far groups have read in all shards, by name. Now is the time in the shard with
// the message that has waited longest.
func Sum(shards []map[string]circulate.GroupState) map[string]circulate.GroupState {
	sums := make(map[string]circulate.GroupState)
	for _, states := range shards {
		for name, s := range states {
			sum := sums[name]
			if sum.Now.IsZero() || max(s.OldestUnread, s.OldestPending) > max(sum.OldestUnread, sum.OldestPending) {
				sum.Now = s.Now
			}
			sum.Lag += s.Lag
			sum.Pending += s.Pending
			sum.OldestUnread = max(sum.OldestUnread, s.OldestUnread)
			sum.OldestPending = max(sum.OldestPending, s.OldestPending)
			sums[name] = sum
		}
	}
	return sums
}

// surveyUnread runs the script for groups with unread messages, in one round trip to each
// node.
func (g *Groups) surveyUnread(ctx context.Context, found []map[string]*standing) error {
	var calls []wire.Call
	var asked [][]*survey
	var shards []int
	for shard, standings := range found {
		var unread []*survey
		for name, s := range standings {
			if s.unread {
				unread = append(unread, &survey{question: name})
			}
		}
		k := g.streams.Keys(shard)
		for some := range slices.Chunk(unread, gatherMax) {
			args := make([]any, len(some))
			for i, s := range some {
				args[i] = s.question
			}
			calls, asked, shards = append(calls, wire.Call{Keys: []string{k.Messages, k.Dead}, Args: args}), append(asked, some), append(shards, shard)
		}
	}
	for i, reply := range g.wire.EvalEach(ctx, surveyScript, calls) {
		readSurveys(shards[i], asked[i], reply.Value, reply.Err)
		for _, s := range asked[i] {
			switch {
			case errors.Is(s.err, circulate.ErrNoGroup): // removed meanwhile
				delete(found[shards[i]], s.question)
			case s.err != nil:
				return fmt.Errorf("groups, shard %d: %w", shards[i], s.err)
			default:
				s.answer.Holder = found[shards[i]][s.question].state.Holder
				found[shards[i]][s.question].state = s.answer
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

// readStanding reads a group from XINFO GROUPS.
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

// statesIn returns the same as States, for one shard and by the script alone.
func (g *Groups) statesIn(ctx context.Context, shard int, wanted func(string) bool) (map[string]circulate.GroupState, error) {
	names, err := g.streams.GroupsOf(ctx, shard)
	if err != nil {
		return nil, err
	}
	states, err := g.surveyAll(ctx, shard, names)
	if err != nil {
		return nil, err
	}
	holders, err := g.holders(ctx, shard)
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

// Stage is how far a group has come with a message.
type Stage string

// The stages.
const (
	// Unread: the group has not come to the message.
	Unread Stage = "unread"
	// Reading: a consumer has read the message and not acknowledged it.
	Reading Stage = "pending"
	// Passed: the message is acknowledged, or is older than the group.
	Passed Stage = "done"
	// Foreign: the message was replayed for another group, and this one passes over it.
	Foreign Stage = "skipped"
)

// Delivery is how far a group has come with a message.
type Delivery struct {
	Group string
	Stage Stage

	// Set only while a consumer is reading the message.
	Consumer   string
	Deliveries int           // how often it was delivered
	Idle       time.Duration // since the last delivery
}

// Deliveries returns the message at a position of a shard, and how far each group of the
// shard has come with it. The message is nil if there is none at that position.
func (g *Groups) Deliveries(ctx context.Context, shard int, position circulate.StreamID) (*circulate.Found, []Delivery, error) {
	key, at := g.streams.Keys(shard).Messages, position.String()
	fail := func(err error) (*circulate.Found, []Delivery, error) {
		return nil, nil, fmt.Errorf("deliveries, shard %d: %w", shard, err)
	}
	replies, err := g.wire.Pipeline(ctx, key, wire.Command{"XRANGE", key, at, at})
	if err != nil {
		return fail(err)
	}
	found, err := g.streams.Read(shard, replies[0])
	if err != nil {
		return fail(err)
	}
	if len(found) == 0 {
		return nil, nil, nil
	}
	states, err := g.lastRead(ctx, shard)
	if err != nil {
		return fail(err)
	}
	deliveries := make([]Delivery, 0, len(states))
	var pending []wire.Command
	var asked []int
	for _, s := range states {
		d := Delivery{Group: s.name, Stage: Passed}
		switch {
		case found[0].Only != "" && found[0].Only != s.name:
			d.Stage = Foreign
		case s.last.Before(position):
			d.Stage = Unread
		default:
			pending, asked = append(pending, wire.Command{"XPENDING", key, s.name, at, at, 1}), append(asked, len(deliveries))
		}
		deliveries = append(deliveries, d)
	}
	if len(pending) == 0 {
		return &found[0], deliveries, nil
	}
	replies, err = g.wire.Pipeline(ctx, key, pending...)
	if err != nil && (len(replies) != len(pending) || !wire.HasCode(err, "NOGROUP")) {
		return fail(err)
	}
	for i, reply := range replies {
		if err := deliveries[asked[i]].read(reply); err != nil {
			return fail(err)
		}
	}
	return &found[0], deliveries, nil
}

// read reads Redis' reply about the pending message at a position.
func (d *Delivery) read(reply any) error {
	entries, err := redis.Values(reply, nil)
	if errors.Is(err, redis.ErrNil) || wire.HasCode(err, "NOGROUP") || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	entry, err := redis.Values(entries[0], nil)
	if err != nil || len(entry) != 4 {
		return errors.Join(wire.ErrReply, err)
	}
	var id string
	var idle int64
	if _, err := redis.Scan(entry, &id, &d.Consumer, &idle, &d.Deliveries); err != nil {
		return err
	}
	d.Stage, d.Idle = Reading, time.Duration(idle)*time.Millisecond
	return nil
}

// lastRead is a group and the last message that it has read.
type lastRead struct {
	name string
	last circulate.StreamID
}

// lastRead returns the groups of a shard, by name.
func (g *Groups) lastRead(ctx context.Context, shard int) ([]lastRead, error) {
	names, err := g.streams.GroupsOf(ctx, shard)
	if err != nil {
		return nil, err
	}
	states, err := g.surveyAll(ctx, shard, names)
	if err != nil {
		return nil, err
	}
	all := make([]lastRead, 0, len(names))
	for _, name := range names {
		state, ok := states[name]
		if !ok {
			continue // removed meanwhile
		}
		last, err := circulate.ParseStreamID(state.Last)
		if err != nil {
			return nil, err
		}
		all = append(all, lastRead{name, last})
	}
	return all, nil
}
