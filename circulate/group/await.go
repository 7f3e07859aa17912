package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// awaitMargin is how much longer than a block its reply may take.
const awaitMargin = 2 * time.Second

// Await waits until some shard has a message after the position given for it, but no
// longer than block, and returns those that have. All shards must be on one node. It
// delivers nothing and acknowledges nothing; read the messages with [Groups.Read].
// Meanwhile it keeps a connection to itself, of those for blocking calls. See
// [Groups.Watch] for a wait that many share.
//
// A blocking XREADGROUP would save a step, but would deliver messages even after the
// caller's lease is lost, or into a dead connection.
func (g *Groups) Await(ctx context.Context, after map[int]string, block time.Duration) ([]int, error) {
	arrived, err := g.await(ctx, after, block)
	var ready []int
	for _, a := range arrived {
		ready = append(ready, a.shard)
	}
	return ready, err
}

// arrival is the first message of a shard after a position. Without a position, the shard
// is served by another node and may have one.
type arrival struct {
	shard    int
	position string
}

func (g *Groups) await(ctx context.Context, after map[int]string, block time.Duration) ([]arrival, error) {
	if len(after) == 0 || block < time.Millisecond {
		return nil, fmt.Errorf("%w: await messages: needs a shard and at least 1ms", wire.ErrInput)
	}
	shards := slices.Sorted(maps.Keys(after))
	if len(shards) > 1 && g.ring.Node(shards[0]) != "" {
		return g.pollMessages(ctx, shards, after, block)
	}
	args := append(make([]any, 0, 5+2*len(shards)), "COUNT", 1, "BLOCK", block.Milliseconds(), "STREAMS")
	byKey := make(map[string]int, len(shards))
	for _, shard := range shards {
		args = append(args, g.streams.Keys(shard).Messages)
		byKey[g.streams.Keys(shard).Messages] = shard
	}
	for _, shard := range shards {
		args = append(args, after[shard])
	}
	began := time.Now()
	conn, err := g.wire.Lend(ctx, g.streams.Keys(shards[0]).Messages, wire.Blocking)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	streams, err := redis.Values(redis.DoWithTimeout(conn, block+awaitMargin, "XREAD", args...))
	if errors.Is(err, redis.ErrNil) {
		return nil, nil
	}
	g.wire.Note(g.streams.Keys(shards[0]).Messages, began, err)
	if err != nil {
		return nil, fmt.Errorf("await messages: %w", err)
	}
	arrived := make([]arrival, 0, len(streams))
	for _, s := range streams {
		pair, err := redis.Values(s, nil)
		if err != nil || len(pair) != 2 {
			return nil, wire.ErrReply
		}
		key, _ := redis.String(pair[0], nil)
		position, err := firstPosition(pair[1])
		if err != nil {
			return nil, err
		}
		if shard, ok := byKey[key]; ok {
			arrived = append(arrived, arrival{shard, position})
		}
	}
	return arrived, nil
}

// firstPosition returns the position of the first of a stream's entries.
func firstPosition(entries any) (string, error) {
	list, err := redis.Values(entries, nil)
	if err != nil || len(list) == 0 {
		return "", wire.ErrReply
	}
	entry, err := redis.Values(list[0], nil)
	if err != nil || len(entry) != 2 {
		return "", wire.ErrReply
	}
	return redis.String(entry[0], nil)
}
