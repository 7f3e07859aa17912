package group

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	buryScript   = wire.NewGroupScript("bury", lua("bury"))
	replayScript = wire.NewGroupScript("replay", lua("replay"))
	skipScript   = wire.NewGroupScript("skip", lua("skip"))
)

// maxDeadError is how many bytes of an error a dead letter stores.
const maxDeadError = 1024

// DeadLetter is a message that a consumer group could not handle.
type DeadLetter struct {
	circulate.Found        // Position is the position in the dead-letter stream
	Group           string // the group that could not handle it
	Error           string
	Deliveries      int
	Origin          string // the message's position in its shard's stream
}

// Bury puts a message into its shard's dead-letter stream with an error, and acknowledges
// it. It reports whether it did: a message that is no longer pending, or was trimmed,
// leaves no dead letter. At most 1 KiB of the error is stored.
func (g *Groups) Bury(ctx context.Context, l *Lease, p Pending, why string) (bool, error) {
	k := g.streams.Keys(l.Shard)
	why = strings.ToValidUTF8(why[:min(len(why), maxDeadError)], "")
	reply, err := redis.String(g.wire.Run(ctx, buryScript, l.Shard, []string{k.Leases, k.Messages, k.Dead},
		l.Group, l.Consumer, l.token, l.TTL.Milliseconds(), p.Position, p.Deliveries, why))
	if err != nil {
		return false, noGroup(err)
	}
	if reply == "lost" {
		return false, ErrLeaseLost
	}
	return reply == "dead", nil
}

// DeadLetters returns up to n dead letters of a shard after a position, oldest first.
func (g *Groups) DeadLetters(ctx context.Context, shard int, after string, n int) ([]DeadLetter, error) {
	if err := circulate.ValidatePosition(after); err != nil {
		return nil, fmt.Errorf("%w: dead letters: %w", wire.ErrInput, err)
	}
	key := g.streams.Keys(shard).Dead
	replies, err := g.wire.PipelineOn(ctx, wire.Ordinary, shard, key, wire.Command{"XRANGE", key, "(" + after, "+", "COUNT", n})
	if err != nil {
		return nil, fmt.Errorf("dead letters, shard %d: %w", shard, err)
	}
	found, err := g.streams.Read(shard, replies[0])
	if err != nil {
		return nil, fmt.Errorf("dead letters, shard %d: %w", shard, err)
	}
	entries, err := wire.Entries(replies[0])
	if err != nil {
		return nil, fmt.Errorf("dead letters, shard %d: %w", shard, err)
	}
	letters := make([]DeadLetter, len(found))
	for i, f := range found {
		e := &entries[i]
		deliveries, _ := strconv.Atoi(e.Field("deliveries"))
		letters[i] = DeadLetter{Found: f, Group: e.Field("for"), Error: e.Field("error"), Deliveries: deliveries, Origin: e.Field("position")}
	}
	return letters, nil
}

// DeadCounts returns how many dead letters each shard has, of all groups.
func (g *Groups) DeadCounts(ctx context.Context) ([]int, error) {
	batches := make([]wire.Batch, g.ring.Shards())
	for shard := range batches {
		key := g.streams.Keys(shard).Dead
		batches[shard] = wire.Batch{Key: key, Commands: []wire.Command{{"XLEN", key}}}
	}
	counts := make([]int, len(batches))
	for shard, replies := range g.wire.PipelineEach(ctx, wire.Ordinary, batches) {
		err := replies.Err
		if err == nil {
			counts[shard], err = redis.Int(replies.Values[0], nil)
		}
		if err != nil {
			return nil, fmt.Errorf("dead letters, shard %d: %w", shard, err)
		}
	}
	return counts, nil
}

// ReplayDead puts a dead letter back at the end of its shard's stream, for the group that
// could not handle it. Other groups acknowledge it without handling it. It then follows
// later messages of its account. ReplayDead returns the new position, or "" if there is
// no such dead letter.
func (g *Groups) ReplayDead(ctx context.Context, shard int, position string) (string, error) {
	if err := circulate.ValidatePosition(position); err != nil {
		return "", fmt.Errorf("%w: replay: %w", wire.ErrInput, err)
	}
	k := g.streams.Keys(shard)
	return redis.String(g.wire.Run(ctx, replayScript, shard, []string{k.Dead, k.Messages}, position))
}

// DropDead drops dead letters of a shard, and returns how many there were.
func (g *Groups) DropDead(ctx context.Context, shard int, positions ...string) (int, error) {
	if len(positions) == 0 {
		return 0, nil
	}
	key := g.streams.Keys(shard).Dead
	drop := wire.Command{"XDEL", key}
	for _, p := range positions {
		if err := circulate.ValidatePosition(p); err != nil {
			return 0, fmt.Errorf("%w: drop dead letters: %w", wire.ErrInput, err)
		}
		drop = append(drop, p)
	}
	replies, err := g.wire.Pipeline(ctx, key, drop)
	if err != nil {
		return 0, fmt.Errorf("drop dead letters, shard %d: %w", shard, err)
	}
	return redis.Int(replies[0], nil)
}

// Skip puts a pending message of an account into its shard's dead-letter stream with the
// reason, and acknowledges it, whichever consumer has it. It returns the dead letter's
// position, or "" if the message is no longer pending, was trimmed, or belongs to another
// account. At most 1 KiB of the reason is stored.
//
// It needs no lease. A consumer that is about to deliver the message again finds it gone
// and goes on with the account's next message. A consumer that is delivering it at this
// moment may still succeed, so that the message is both delivered and a dead letter. It
// is never neither.
func (g *Groups) Skip(ctx context.Context, shard int, group, position, account, why string) (letter string, err error) {
	if err := wire.CheckGroup("skip", group); err != nil {
		return "", err
	}
	if err := circulate.ValidatePosition(position); err != nil {
		return "", fmt.Errorf("%w: skip: %w", wire.ErrInput, err)
	}
	k := g.streams.Keys(shard)
	why = strings.ToValidUTF8(why[:min(len(why), maxDeadError)], "")
	letter, err = redis.String(g.wire.Run(ctx, skipScript, shard, []string{k.Leases, k.Messages, k.Dead}, group, position, account, why))
	return letter, noGroup(err)
}

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

// TrimDead drops the dead letters of a shard that died before a time of Redis' clock,
// unless before is zero. It also drops the oldest if there are more than most, unless
// most is 0. It returns how many it dropped.
func (g *Groups) TrimDead(ctx context.Context, shard int, before time.Time, most int) (dropped int, err error) {
	if most < 0 {
		return 0, fmt.Errorf("%w: trim dead letters: most must not be negative, is %d", wire.ErrInput, most)
	}
	key := g.streams.Keys(shard).Dead
	cut := func(strategy string, limit any) error {
		// Dropping all of them with one command would block the server for too long. When
		// no whole node of the stream can be dropped, the rest is part of one node.
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
