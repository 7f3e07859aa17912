package group

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Member is one consumer of a group.
type Member struct {
	groups   *Groups
	group    string
	consumer string
	ttl      time.Duration
}

// Member returns a consumer of a group. A consumer that is silent for ttl counts as gone,
// and its leases last as long.
func (g *Groups) Member(group, consumer string, ttl time.Duration) Member {
	return Member{groups: g, group: group, consumer: consumer, ttl: ttl}
}

// Join reports that the consumer is alive, and returns all consumers that joined lately.
// Others find the shards that this one declines to read by Declined, until it joins
// again.
func (m Member) Join(ctx context.Context, declines ...int) (alive []string, err error) {
	if err := errors.Join(wire.CheckGroup("join group", m.group), circulate.ValidateReplica(m.consumer)); err != nil {
		return nil, err
	}
	w := m.groups.wire
	if alive, err = w.Beat(ctx, presenceOf(w.Namespace(), m.group), m.consumer, declining(declines), m.ttl); err != nil {
		return nil, fmt.Errorf("join group: %w", err)
	}
	return alive, nil
}

// Quit forgets the consumer. Its leases must have been returned.
func (m Member) Quit(ctx context.Context) error {
	w := m.groups.wire
	if err := w.Retire(ctx, presenceOf(w.Namespace(), m.group), m.consumer); err != nil {
		return fmt.Errorf("quit group: %w", err)
	}
	return nil
}

// Declined returns the shards that each consumer of a group declined to read when it last
// joined. They are for the others.
func (g *Groups) Declined(ctx context.Context, group string) (map[string][]int, error) {
	if err := wire.CheckGroup("declined", group); err != nil {
		return nil, err
	}
	p := presenceOf(g.wire.Namespace(), group)
	replies, err := g.wire.Pipeline(ctx, p.Beats, wire.Command{"HGETALL", p.Reports})
	if err != nil {
		return nil, fmt.Errorf("declined: %w", err)
	}
	reports, err := redis.StringMap(replies[0], nil)
	if err != nil {
		return nil, fmt.Errorf("declined: %w", err)
	}
	declined := make(map[string][]int)
	for consumer, report := range reports {
		for text := range strings.SplitSeq(report, ",") {
			// Another version may report more.
			if shard, err := strconv.Atoi(text); err == nil {
				declined[consumer] = append(declined[consumer], shard)
			}
		}
	}
	return declined, nil
}

// declining is what a consumer reports of itself.
func declining(shards []int) string {
	texts := make([]string, len(shards))
	for i, shard := range shards {
		texts[i] = strconv.Itoa(shard)
	}
	return strings.Join(texts, ",")
}
