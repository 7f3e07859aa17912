package main

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
)

const (
	fillAccounts = 6400 // about a hundred a shard
	perReturn    = 5    // messages that a check found
)

// fillStreams has accounts return so many messages, or a few more, into the streams of a
// namespace. It returns how many there are.
func fillStreams(ctx context.Context, server *connect.Single, namespace string, messages int) (*load, int64, error) {
	l, err := newLoad(ctx, server, namespace, fillAccounts)
	if err != nil {
		return nil, 0, err
	}
	if err := l.queueAll(ctx); err != nil {
		return nil, 0, err
	}
	var written, number atomic.Int64
	perShard := (messages + l.ring.Shards() - 1) / l.ring.Shards()
	err = eachShard(l.ring, func(shard int) error {
		for left := perShard; left > 0; {
			b, err := l.ring.Claim(ctx, shard, "benchmark0", 100, l.records.Known(shard))
			if err != nil {
				return err
			}
			items := make([]circulate.Return, len(b.Claims))
			for i := range b.Claims {
				items[i] = circulate.Return{Claim: &b.Claims[i], Kind: "bench"}
				for range min(left, perReturn) {
					items[i].Messages = append(items[i].Messages, circulate.Message{
						ID: strconv.FormatInt(number.Add(1), 10), Type: "text", Data: []byte(`{"text":"hello"}`),
					})
					left--
				}
				written.Add(int64(len(items[i].Messages)))
			}
			if _, err := l.ring.Return(ctx, shard, items); err != nil {
				return err
			}
		}
		return nil
	})
	return l, written.Load(), err
}
