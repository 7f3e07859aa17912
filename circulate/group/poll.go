package group

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	pollPauseMin = 5 * time.Millisecond
	pollPauseMax = 100 * time.Millisecond
)

// pollMessages is await on a node of a cluster. There one command concerns one slot and
// so one shard, and a waiting connection for each shard would be too many. So it looks at
// all of them at once, again and again.
func (g *Groups) pollMessages(ctx context.Context, shards []int, after map[int]string, block time.Duration) ([]arrival, error) {
	deadline := time.Now().Add(block)
	for pause := pollPauseMin; ; pause = min(2*pause, pollPauseMax) {
		ready, err := g.readyShards(ctx, shards, after)
		if err != nil {
			return nil, fmt.Errorf("await messages: %w", err)
		}
		left := time.Until(deadline)
		if len(ready) > 0 || left <= 0 {
			return ready, nil
		}
		timer := time.NewTimer(min(pause, left))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
}

// readyShards returns the first messages of the shards that have some. A shard that
// another node serves now counts as one that has, so that the caller goes there.
func (g *Groups) readyShards(ctx context.Context, shards []int, after map[int]string) ([]arrival, error) {
	key, began := g.streams.Keys(shards[0]).Messages, time.Now()
	conn, err := g.wire.Lend(ctx, key, wire.Blocking)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	timeout, err := wire.Remaining(ctx)
	if err != nil {
		return nil, err
	}
	for _, shard := range shards {
		if err := conn.Send("XREAD", "COUNT", 1, "STREAMS", g.streams.Keys(shard).Messages, after[shard]); err != nil {
			return nil, err
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(timeout)
	var ready []arrival
	var failed error
	for _, shard := range shards {
		reply, err := redis.ReceiveWithTimeout(conn, max(time.Nanosecond, time.Until(deadline)))
		switch {
		case err != nil && !wire.Replied(err):
			g.wire.Note(key, began, err)
			return nil, err
		case wire.HasMoved(err):
			ready = append(ready, arrival{shard: shard})
		case err == nil && reply != nil:
			position, err := onlyArrival(reply)
			if err != nil {
				return nil, err
			}
			ready = append(ready, arrival{shard, position})
		case err != nil && !wire.Redirected(err):
			failed = err
		}
	}
	g.wire.Note(key, began, failed)
	if len(ready) > 0 {
		return ready, nil
	}
	return nil, failed
}

// onlyArrival returns the position in XREAD's reply for one stream.
func onlyArrival(reply any) (string, error) {
	streams, err := redis.Values(reply, nil)
	if err != nil || len(streams) != 1 {
		return "", wire.ErrReply
	}
	pair, err := redis.Values(streams[0], nil)
	if err != nil || len(pair) != 2 {
		return "", wire.ErrReply
	}
	return firstPosition(pair[1])
}
