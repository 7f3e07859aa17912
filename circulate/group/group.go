// Package group has consumer groups read the streams of all shards: each message once for
// each group, with any number of consumers.
//
// For each shard and group one consumer at a time holds a [Lease]. Only the lease's
// holder reads the shard, takes over what is pending there, and gives up on messages. So
// an account's messages keep one order, whichever consumer has them. A lease has a token
// that no other lease ever had, and each of those steps is a script that checks it first.
// Acknowledging needs no lease: a consumer that has handled a message may say so at any
// time. Giving up on a message by an operator's order, [Groups.Skip], needs none either.
//
// The package runs no consumer: package delivery does. It waits for messages with one
// goroutine for each node of Redis, however many groups a process reads.
package group

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// ErrLeaseLost reports that another consumer may read the shard now.
var ErrLeaseLost = wire.Finding("circulate: lease lost")

// Groups are the consumer groups of a ring. They are safe for concurrent use.
type Groups struct {
	ring    *circulate.Ring
	wire    *wire.Wire
	streams circulate.Streams

	lookouts   lookouts
	beginnings gathering[*beginning]
	renewals   gathering[*renewal]
	surveys    gathering[*survey]
}

// besideRing is the key under which a ring's groups are kept.
type besideRing struct{}

// Of returns the groups of a ring. All callers share them, so that what they ask at about
// the same time is sent to Redis together.
func Of(ring *circulate.Ring) *Groups {
	w := ring.Wire(wire.Insider{})
	return w.Beside(besideRing{}, func() any { return &Groups{ring: ring, wire: w, streams: ring.Streams()} }).(*Groups)
}

// presenceOf returns the keys that hold a group's live consumers.
func presenceOf(namespace, group string) wire.Presence {
	beats := namespace + ":consumers:" + group
	return wire.Presence{Beats: beats, Reports: "{" + beats + "}:reports"}
}

// Acknowledge marks messages as handled. It returns how many of them were pending. It is
// safe to repeat.
func (g *Groups) Acknowledge(ctx context.Context, shard int, group string, positions []string) (int, error) {
	if len(positions) == 0 {
		return 0, nil
	}
	key := g.streams.Keys(shard).Messages
	ack := make(wire.Command, 0, 3+len(positions))
	ack = append(ack, "XACK", key, group)
	for _, p := range positions {
		ack = append(ack, p)
	}
	replies, err := g.wire.PipelineFor(ctx, wire.ForGroups, key, ack)
	if err != nil {
		return 0, fmt.Errorf("acknowledge, shard %d: %w", shard, err)
	}
	return redis.Int(replies[0], nil)
}

// Consumers returns the consumers of a group that beat within the window.
func (g *Groups) Consumers(ctx context.Context, group string, window time.Duration) ([]string, error) {
	present, err := g.Present(ctx, group, window)
	names := make([]string, len(present))
	for i := range present {
		names[i] = present[i].Name
	}
	return names, err
}

// Remove forgets a consumer group in all shards: what it has read, what is pending, and
// what its effects remember. Its dead letters stay. It reports whether any shard had it.
//
// If a consumer of the group still runs, it makes the group again, from where that
// consumer had read.
func (g *Groups) Remove(ctx context.Context, group string) (bool, error) {
	if err := wire.CheckGroup("remove group", group); err != nil {
		return false, err
	}
	removed := false
	for shard := range g.ring.Shards() {
		k := g.streams.Keys(shard)
		replies, err := g.wire.Pipeline(ctx, k.Messages,
			wire.Command{"HDEL", k.Leases, group}, wire.Command{"DEL", k.Applied(group)}, wire.Command{"EXISTS", k.Messages})
		if err == nil && replies[2] == int64(1) {
			replies, err = g.wire.Pipeline(ctx, k.Messages, wire.Command{"XGROUP", "DESTROY", k.Messages, group})
			removed = removed || err == nil && replies[0] == int64(1)
		}
		if err != nil {
			return removed, fmt.Errorf("remove group, shard %d: %w", shard, err)
		}
	}
	p := presenceOf(g.wire.Namespace(), group)
	if _, err := g.wire.Pipeline(ctx, p.Beats, wire.Command{"DEL", p.Beats, p.Reports}); err != nil {
		return removed, fmt.Errorf("remove group: %w", err)
	}
	return removed, nil
}

// noGroup returns ErrNoGroup for Redis' error about a missing group.
func noGroup(err error) error {
	if wire.HasCode(err, "NOGROUP") {
		return fmt.Errorf("%w: %w", circulate.ErrNoGroup, err)
	}
	return err
}
