package circulate

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed trim.lua
var trimLua string

var trimScript = wire.NewScript("trim", trimLua)

// trimStep is how many messages one step drops, about a millisecond's work.
const trimStep = 512

// TrimMessagesTo drops the oldest messages of a shard until it has no more than
// most, but none that a consumer group has not read or not acknowledged. It
// reports how many were dropped, and whether a group held some back. An error may
// come after some were dropped.
func (r *Ring) TrimMessagesTo(ctx context.Context, shard, most int) (dropped int, heldBack bool, err error) {
	if most < 0 {
		return 0, false, fmt.Errorf("%w: trim: most: must not be negative, is %d", wire.ErrInput, most)
	}
	for {
		reply, err := redis.Ints(r.wire.Run(ctx, trimScript, shard, []string{r.keys[shard].messages}, most, trimStep))
		if err != nil {
			return dropped, false, err
		}
		if len(reply) != 3 {
			return dropped, false, fmt.Errorf("trim, shard %d: %w", shard, wire.ErrReply)
		}
		dropped += reply[0]
		if again, held := reply[1] == 1, reply[2] == 1; held || !again {
			return dropped, held, nil
		}
	}
}

// DeadState is how many dead letters a shard has, and how long ago the oldest died.
type DeadState struct {
	Letters int
	Oldest  time.Duration // 0 where there is none
}

// DeadState gives how many dead letters a shard has.
func (r *Ring) DeadState(ctx context.Context, shard int) (DeadState, error) {
	key := r.keys[shard].dead
	replies, err := r.wire.PipelineOn(ctx, wire.Ordinary, shard, key, wire.Command{"TIME"}, wire.Command{"XLEN", key}, wire.Command{"XRANGE", key, "-", "+", "COUNT", 1})
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
	oldest, err := readStream(shard, replies[2])
	if err != nil {
		return DeadState{}, fmt.Errorf("dead letters, shard %d: %w", shard, err)
	}
	if len(oldest) > 0 {
		s.Oldest = age(now.UnixMilli(), oldest[0].Position)
	}
	return s, nil
}

// TrimDead drops the dead letters of a shard that are older than the age, and the
// oldest where there are more than most; 0 is any age, or any number. It reports how
// many were dropped.
func (r *Ring) TrimDead(ctx context.Context, shard int, age time.Duration, most int) (dropped int, err error) {
	if age < 0 || most < 0 {
		return 0, fmt.Errorf("%w: trim dead letters: neither age nor most may be negative", wire.ErrInput)
	}
	key := r.keys[shard].dead
	cut := func(strategy string, limit any) error {
		// One command would hold the server up for as long as all of them take. What is
		// left when no whole node of the stream can go is the part of one.
		for _, args := range [][]any{{"~", limit, "LIMIT", trimAtOnce}, {limit}} {
			for n := trimAtOnce; n > 0; dropped += n {
				replies, err := r.wire.Pipeline(ctx, key, append(wire.Command{"XTRIM", key, strategy}, args...))
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
	if age > 0 {
		now, err := r.Now(ctx, shard)
		if err != nil {
			return 0, err
		}
		if err := cut("MINID", StreamIDAt(now.Add(-age)).String()); err != nil {
			return dropped, err
		}
	}
	if most > 0 {
		err = cut("MAXLEN", most)
	}
	return dropped, err
}
