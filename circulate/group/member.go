package group

import (
	"context"
	"errors"
	"fmt"
	"net/url"
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

// Condition is what a consumer tells of itself when it joins.
type Condition struct {
	Declined []int  // shards that it does not read, for the others
	Deferred string // why its handler puts all messages off; empty: it does not
}

// maxDeferred is how much of a reason is kept, in bytes.
const maxDeferred = 300

// Join reports that the consumer is alive and in what condition, and returns all consumers that
// joined lately. Conditions has what each said last.
func (m Member) Join(ctx context.Context, is Condition) (alive []string, err error) {
	if err := errors.Join(wire.CheckGroup("join group", m.group), circulate.ValidateReplica(m.consumer)); err != nil {
		return nil, err
	}
	w := m.groups.wire
	if alive, err = w.Beat(ctx, presenceOf(w.Namespace(), m.group), m.consumer, is.text(), m.ttl); err != nil {
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

// Conditions returns what the consumers of a group said when they last joined, those that have
// gone lately among them.
func (g *Groups) Conditions(ctx context.Context, group string) (map[string]Condition, error) {
	if err := wire.CheckGroup("conditions", group); err != nil {
		return nil, err
	}
	p := presenceOf(g.wire.Namespace(), group)
	replies, err := g.wire.Pipeline(ctx, p.Beats, wire.Command{"HGETALL", p.Reports})
	if err != nil {
		return nil, fmt.Errorf("conditions: %w", err)
	}
	reports, err := redis.StringMap(replies[0], nil)
	if err != nil {
		return nil, fmt.Errorf("conditions: %w", err)
	}
	all := make(map[string]Condition, len(reports))
	for consumer, report := range reports {
		all[consumer] = readCondition(report)
	}
	return all, nil
}

const deferredMark = "later:"

// text is the shards, separated by commas, and the reason, in which nothing looks like one:
// earlier versions skip it.
func (c Condition) text() string {
	var parts []string
	for _, shard := range c.Declined {
		parts = append(parts, strconv.Itoa(shard))
	}
	if c.Deferred != "" {
		parts = append(parts, deferredMark+url.QueryEscape(c.Deferred[:min(len(c.Deferred), maxDeferred)]))
	}
	return strings.Join(parts, ",")
}

func readCondition(report string) (c Condition) {
	for part := range strings.SplitSeq(report, ",") {
		// Another version may report more.
		if shard, err := strconv.Atoi(part); err == nil {
			c.Declined = append(c.Declined, shard)
		} else if why, ok := strings.CutPrefix(part, deferredMark); ok {
			why, _ = url.QueryUnescape(why)
			c.Deferred = strings.ToValidUTF8(why, "�")
		}
	}
	return c
}
