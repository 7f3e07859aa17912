package circulate

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
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

// survey looks at groups of one shard.
func (r *Ring) survey(shard int, all []*survey) {
	args := make([]any, len(all))
	for i, s := range all {
		args[i] = s.group
	}
	k := &r.keys[shard]
	reply, err := redis.Values(r.run(context.Background(), groupSurveyScript, shard, []string{k.messages, k.dead}, args...))
	if err == nil && len(reply) != 2+surveyColumns*len(all) {
		err = fmt.Errorf("survey, shard %d: %w", shard, errReply)
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
