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
	present, err := g.PresentIn(ctx, []string{group}, window)
	if err != nil {
		return nil, err
	}
	return present[group], nil
}

// PresentIn is Present of many groups.
func (g *Groups) PresentIn(ctx context.Context, groups []string, window time.Duration) (map[string][]Consumer, error) {
	batches := make([]wire.Batch, len(groups))
	for i, group := range groups {
		key := presenceOf(g.wire.Namespace(), group).Beats
		// A consumer that has been silent for ten minutes is forgotten, so there are few.
		batches[i] = wire.Batch{Key: key, Commands: []wire.Command{{"TIME"}, {"ZRANGE", key, 0, -1, "WITHSCORES"}}}
	}
	all := make(map[string][]Consumer, len(groups))
	for i, replies := range g.wire.PipelineEach(ctx, wire.Ordinary, batches) {
		present, err := readPresent(replies, window)
		if err != nil {
			return nil, fmt.Errorf("consumers: %w", err)
		}
		all[groups[i]] = present
	}
	return all, nil
}

func readPresent(replies wire.Replies, window time.Duration) ([]Consumer, error) {
	if replies.Err != nil {
		return nil, replies.Err
	}
	at, err := wire.Time(replies.Values[0])
	if err != nil {
		return nil, err
	}
	values, err := redis.Strings(replies.Values[1], nil)
	if err != nil {
		return nil, err
	}
	present := make([]Consumer, 0, len(values)/2)
	for i := 0; i+1 < len(values); i += 2 {
		beat, _ := strconv.ParseFloat(values[i+1], 64)
		if silent := at.Sub(time.UnixMilli(int64(beat))); silent >= -window && silent <= window {
			present = append(present, Consumer{values[i], max(0, silent)})
		}
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
	holders, err := readHolders(replies[0])
	if err != nil {
		return nil, fmt.Errorf("holders, shard %d: %w", shard, err)
	}
	return holders, nil
}

func readHolders(reply any) (map[string]string, error) {
	leases, err := redis.StringMap(reply, nil)
	if err != nil {
		return nil, err
	}
	holders := make(map[string]string, len(leases))
	for group, lease := range leases {
		if parts := strings.SplitN(lease, "|", 3); len(parts) == 3 {
			holders[group] = parts[2]
		}
	}
	return holders, nil
}
