package circulate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed group_survey.lua
var groupSurveyLua string

var groupSurveyScript = newGroupScript("survey", groupSurveyLua)

// survey is a group that somebody wants to know of, and what came of it.
type survey struct {
	group string
	state GroupState
	err   error
	done  chan struct{}
}

// SurveyGroup is [Ring.GroupState] without the holder, for many groups that are
// asked about at about the same time: they are looked at in one step.
func (r *Ring) SurveyGroup(ctx context.Context, shard int, group string) (GroupState, error) {
	s := &survey{group: group, done: make(chan struct{})}
	r.surveys.ask(shard, s, r.survey)
	select {
	case <-s.done:
		return s.state, s.err
	case <-ctx.Done():
		return GroupState{}, ctx.Err()
	}
}

// surveyColumns are the values that the script replies for each group.
const surveyColumns = 5

// SurveyGroups is SurveyGroup of all that a list names. Those that the shard has not
// got are left out.
func (r *Ring) SurveyGroups(ctx context.Context, shard int, groups []string) (map[string]GroupState, error) {
	states := make(map[string]GroupState, len(groups))
	for names := range slices.Chunk(groups, gatherMax) {
		all := make([]*survey, len(names))
		for i, name := range names {
			all[i] = &survey{group: name, done: make(chan struct{})}
		}
		r.surveyAll(ctx, shard, all)
		for _, s := range all {
			switch {
			case s.err == nil:
				states[s.group] = s.state
			case !errors.Is(s.err, ErrNoGroup):
				return nil, s.err
			}
		}
	}
	return states, nil
}

// survey looks at groups of one shard that several have asked about.
func (r *Ring) survey(shard int, all []*survey) { r.surveyAll(context.Background(), shard, all) }

func (r *Ring) surveyAll(ctx context.Context, shard int, all []*survey) {
	args := make([]any, len(all))
	for i, s := range all {
		args[i] = s.group
	}
	k := &r.keys[shard]
	reply, err := redis.Values(r.wire.Run(ctx, groupSurveyScript, shard, []string{k.messages, k.dead}, args...))
	if err == nil && len(reply) != 2+surveyColumns*len(all) {
		err = fmt.Errorf("survey, shard %d: %w", shard, wire.ErrReply)
	}
	for i, s := range all {
		if s.err = err; err == nil {
			s.err = s.read(reply[:2], reply[2+surveyColumns*i:][:surveyColumns])
		}
		close(s.done)
	}
}

func (s *survey) read(head, values []any) error {
	var now int64
	if _, err := redis.Scan(head, &now, &s.state.Dead); err != nil {
		return fmt.Errorf("survey: %w", err)
	}
	var unread, pending string
	if _, err := redis.Scan(values, &s.state.Lag, &s.state.Pending, &s.state.Last, &unread, &pending); err != nil {
		return fmt.Errorf("survey: %w", err)
	}
	if s.state.Lag < 0 {
		return ErrNoGroup
	}
	s.state.Now = time.UnixMilli(now)
	s.state.OldestUnread, s.state.OldestPending = age(now, unread), age(now, pending)
	return nil
}
