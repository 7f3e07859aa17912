package group

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed survey.lua
var surveyLua string

var surveyScript = wire.NewGroupScript("survey", surveyLua)

// survey is a group that a caller asks about, and the result.
type survey struct {
	group string
	state circulate.GroupState
	err   error
	done  chan struct{}
}

// Survey is [circulate.Streams.GroupState] without the holder, for many groups that are
// asked about at about the same time. They are read in one step.
func (g *Groups) Survey(ctx context.Context, shard int, group string) (circulate.GroupState, error) {
	s := &survey{group: group, done: make(chan struct{})}
	g.surveys.ask(shard, s, g.survey)
	select {
	case <-s.done:
		return s.state, s.err
	case <-ctx.Done():
		return circulate.GroupState{}, ctx.Err()
	}
}

// surveyColumns are the values that the script replies for each group.
const surveyColumns = 5

// SurveyAll is Survey of all groups in a list. Groups that the shard does not have are
// left out.
func (g *Groups) SurveyAll(ctx context.Context, shard int, groups []string) (map[string]circulate.GroupState, error) {
	states := make(map[string]circulate.GroupState, len(groups))
	for names := range slices.Chunk(groups, gatherMax) {
		all := make([]*survey, len(names))
		for i, name := range names {
			all[i] = &survey{group: name, done: make(chan struct{})}
		}
		g.surveyThese(ctx, shard, all)
		for _, s := range all {
			switch {
			case s.err == nil:
				states[s.group] = s.state
			case !errors.Is(s.err, circulate.ErrNoGroup):
				return nil, s.err
			}
		}
	}
	return states, nil
}

// survey reads groups of one shard that several callers have asked about.
func (g *Groups) survey(shard int, all []*survey) { g.surveyThese(context.Background(), shard, all) }

func (g *Groups) surveyThese(ctx context.Context, shard int, all []*survey) {
	args := make([]any, len(all))
	for i, s := range all {
		args[i] = s.group
	}
	k := g.streams.Keys(shard)
	reply, err := redis.Values(g.wire.Run(ctx, surveyScript, shard, []string{k.Messages, k.Dead}, args...))
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
		return circulate.ErrNoGroup
	}
	s.state.Now = time.UnixMilli(now)
	s.state.OldestUnread, s.state.OldestPending = circulate.PositionAge(s.state.Now, unread), circulate.PositionAge(s.state.Now, pending)
	return nil
}
