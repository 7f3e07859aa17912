package group

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// trimAtOnce is the most dead letters that one command drops.
const trimAtOnce = 10_000

// DeadState is how many dead letters a shard has, and how long ago the oldest died.
type DeadState struct {
	Letters int
	Oldest  time.Duration // 0 if there is none
}

// DeadState returns how many dead letters a shard has.
func (g *Groups) DeadState(ctx context.Context, shard int) (DeadState, error) {
	key := g.streams.Keys(shard).Dead
	replies, err := g.wire.PipelineOn(ctx, wire.Ordinary, shard, key, wire.Command{"TIME"}, wire.Command{"XLEN", key}, wire.Command{"XRANGE", key, "-", "+", "COUNT", 1})
	if err != nil {
		return DeadState{}, fmt.Errorf("dead letters, shard %d: %w", shard, err)
	}
	var s DeadState
	now, err := wire.Time(replies[0])
	if err != nil {
		return DeadState{}, err
	}
	if s.Letters, err = redis.Int(replies[1], nil); err != nil {
		return DeadState{}, fmt.Errorf("dead letters, shard %d: %w", shard, err)
	}
	oldest, err := g.streams.Read(shard, replies[2])
	if err != nil {
		return DeadState{}, fmt.Errorf("dead letters, shard %d: %w", shard, err)
	}
	if len(oldest) > 0 {
		s.Oldest = circulate.PositionAge(now, oldest[0].Position)
	}
	return s, nil
}

// TrimDead drops the dead letters of a shard that died before a time of Redis' clock, or none
// for its age if that is the zero time, and the oldest if there are more than most; 0 means any
// number. It returns how many were dropped.
func (g *Groups) TrimDead(ctx context.Context, shard int, before time.Time, most int) (dropped int, err error) {
	if most < 0 {
		return 0, fmt.Errorf("%w: trim dead letters: most must not be negative, is %d", wire.ErrInput, most)
	}
	key := g.streams.Keys(shard).Dead
	cut := func(strategy string, limit any) error {
		// One command that drops all of them would block the server for too long. When no
		// whole node of the stream can be dropped, what is left is part of one.
		for _, args := range [][]any{{"~", limit, "LIMIT", trimAtOnce}, {limit}} {
			for n := trimAtOnce; n > 0; dropped += n {
				replies, err := g.wire.Pipeline(ctx, key, append(wire.Command{"XTRIM", key, strategy}, args...))
				if err != nil {
					return fmt.Errorf("trim dead letters, shard %d: %w", shard, err)
				}
				if n, err = redis.Int(replies[0], nil); err != nil {
					return fmt.Errorf("trim dead letters, shard %d: %w", shard, err)
				}
			}
		}
		return nil
	}
	if !before.IsZero() {
		err = cut("MINID", circulate.StreamIDAt(before).String())
	}
	if err == nil && most > 0 {
		err = cut("MAXLEN", most)
	}
	return dropped, err
}
