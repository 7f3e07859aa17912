package circulate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed reshard_carry.lua
var reshardCarryLua string

var reshardCarryScript = wire.NewScript("carry", reshardCarryLua)

// carryPage is how many dead letters are read at once. Each may have 256 KiB.
const carryPage = 16

// CarryDead copies the dead letters of an old shard to the new shards of their accounts,
// in order. Each arrives once, however often this is repeated. Their retention begins
// again. It returns how many arrived.
func (m Mover) CarryDead(ctx context.Context, source int) (came int, err error) {
	if source < 0 || source >= m.ring.sources {
		return 0, fmt.Errorf("%w: carry: shard %d is not being left", wire.ErrInput, source)
	}
	for {
		letters, err := m.ring.carryPage(ctx, source)
		if err != nil || len(letters) == 0 {
			return came, err
		}
		gone := wire.Command{"XDEL", m.ring.keys[source].dead}
		for _, l := range letters {
			n, err := m.ring.carry(ctx, source, l)
			if err != nil {
				return came, err
			}
			came += n
			gone = append(gone, l.position)
		}
		if _, err := m.ring.wire.Pipeline(ctx, m.ring.keys[source].dead, gone); err != nil {
			return came, fmt.Errorf("carry, shard %d: %w", source, err)
		}
	}
}

// carriedLetter is a dead letter as it stands in its stream.
type carriedLetter struct {
	position, account string
	fields            []any
}

func (r *Ring) carryPage(ctx context.Context, source int) ([]carriedLetter, error) {
	key := r.keys[source].dead
	replies, err := r.wire.PipelineOn(ctx, wire.Ordinary, source, key, wire.Command{"XRANGE", key, "-", "+", "COUNT", carryPage})
	if err != nil {
		return nil, fmt.Errorf("carry, shard %d: %w", source, err)
	}
	entries, err := redis.Values(replies[0], nil)
	if err != nil {
		return nil, fmt.Errorf("carry, shard %d: %w", source, errors.Join(wire.ErrReply, err))
	}
	letters := make([]carriedLetter, len(entries))
	for i, e := range entries {
		l := &letters[i]
		pair, err := redis.Values(e, nil)
		if err != nil || len(pair) != 2 {
			return nil, fmt.Errorf("carry, shard %d: %w", source, errors.Join(wire.ErrReply, err))
		}
		position, err := redis.String(pair[0], nil)
		fields, fieldsErr := redis.Values(pair[1], nil)
		if err := errors.Join(err, fieldsErr); err != nil {
			return nil, fmt.Errorf("carry, shard %d: %w", source, errors.Join(wire.ErrReply, err))
		}
		l.position, l.fields = position, fields
		for j := 0; j+1 < len(fields); j += 2 {
			if name, _ := redis.String(fields[j], nil); name == "account" {
				l.account, _ = redis.String(fields[j+1], nil)
			}
		}
	}
	return letters, nil
}

func (r *Ring) carry(ctx context.Context, source int, l carriedLetter) (int, error) {
	target := r.target(l.account)
	k := &r.keys[target]
	came, err := redis.Int(r.wire.Run(ctx, reshardCarryScript, target, []string{k.dead, k.carried, k.arrivals},
		append([]any{r.shardName(source), l.position}, l.fields...)...))
	if err == nil && came < 0 {
		err = fmt.Errorf("carry, shard %d: %w", target, errNotReceiving)
	}
	return max(0, came), err
}
