package group

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Consumer is a consumer of a group that beat lately.
type Consumer struct {
	Name   string
	Silent time.Duration // since its last beat
}

// Present returns the consumers of a group that beat within the window, by name.
func (g *Groups) Present(ctx context.Context, group string, window time.Duration) ([]Consumer, error) {
	key := presenceOf(g.wire.Namespace(), group).Beats
	now, err := g.wire.Pipeline(ctx, key, wire.Command{"TIME"})
	if err != nil {
		return nil, fmt.Errorf("consumers: %w", err)
	}
	at, err := wire.Time(now[0])
	if err != nil {
		return nil, err
	}
	replies, err := g.wire.Pipeline(ctx, key, wire.Command{"ZRANGEBYSCORE", key, at.Add(-window).UnixMilli(), at.Add(window).UnixMilli(), "WITHSCORES"})
	if err != nil {
		return nil, fmt.Errorf("consumers: %w", err)
	}
	values, err := redis.Strings(replies[0], nil)
	if err != nil {
		return nil, fmt.Errorf("consumers: %w", err)
	}
	present := make([]Consumer, 0, len(values)/2)
	for i := 0; i+1 < len(values); i += 2 {
		beat, _ := strconv.ParseFloat(values[i+1], 64)
		present = append(present, Consumer{values[i], max(0, at.Sub(time.UnixMilli(int64(beat))))})
	}
	return present, nil
}

// Holders returns who had the last lease of a shard, by group. The lease may have ended. A
// lease that cannot be read is left out.
func (g *Groups) Holders(ctx context.Context, shard int) (map[string]string, error) {
	key := g.streams.Keys(shard).Leases
	replies, err := g.wire.Pipeline(ctx, key, wire.Command{"HGETALL", key})
	if err != nil {
		return nil, fmt.Errorf("holders, shard %d: %w", shard, err)
	}
	leases, err := redis.StringMap(replies[0], nil)
	if err != nil {
		return nil, fmt.Errorf("holders, shard %d: %w", shard, err)
	}
	holders := make(map[string]string, len(leases))
	for group, lease := range leases {
		if parts := strings.SplitN(lease, "|", 3); len(parts) == 3 {
			holders[group] = parts[2]
		}
	}
	return holders, nil
}
