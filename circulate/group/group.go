// Package group reads the streams of all shards for consumer groups. Each group gets each
// message once, with any number of consumers.
//
// For each shard and group one consumer at a time has a [Lease]. Only the lease's owner
// reads the shard, takes over its pending messages, and gives up on messages. So an
// account's messages keep one order, whichever consumer has them. A lease has a token
// that no other lease ever had, and each of those steps is a script that checks it first.
// Acknowledging needs no lease: a consumer that has handled a message may say so at any
// time. [Groups.Skip], by which an operator gives up on a message, needs none either.
//
// The package runs no consumer: package delivery does. It waits for messages with one
// goroutine for each node of Redis, however many groups a process reads.
package group

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
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
	beginnings gathering[Lease, Begun]
	renewals   gathering[*Lease, Renewed]
	surveys    gathering[string, circulate.GroupState]
}

// besideRing is the key under which a ring's groups are found.
type besideRing struct{}

// Of returns the groups of a ring. All callers share them, so that requests made at about
// the same time are sent to Redis together.
func Of(ring *circulate.Ring) *Groups {
	w := ring.Wire(wire.Insider{})
	return w.Beside(besideRing{}, func() any { return &Groups{ring: ring, wire: w, streams: ring.Streams()} }).(*Groups)
}

// presenceOf returns the keys with a group's live consumers.
func presenceOf(namespace, group string) wire.Presence {
	beats := namespace + ":consumers:" + group
	return wire.Presence{Beats: beats, Reports: "{" + beats + "}:reports"}
}

// Acknowledge marks messages as handled. It returns how many were pending. It is safe to
// repeat.
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

// Ensure makes a group in every shard that does not have it, at the position that after
// returns, and returns in how many it did. So a consumer misses no message in a shard
// that it does not read yet. New shards come first: a group must be at least as old there
// as in the shards that accounts leave.
func (g *Groups) Ensure(ctx context.Context, group string, after func(shard int) string) (int, error) {
	var made atomic.Int64
	err := g.eachNewFirst(ctx, func(ctx context.Context, shard int) error {
		created, err := g.streams.EnsureGroup(ctx, shard, group, after(shard))
		if created {
			made.Add(1)
		}
		return err
	})
	return int(made.Load()), err
}

// TellEvents begins or ends that a group gets events beside messages, in all shards: see
// *Events* in the package comment of circulate. Events from before the end stay. Remove
// ends it as well. TellEvents is safe to repeat.
func (g *Groups) TellEvents(ctx context.Context, group string, tell bool) error {
	return g.eachNewFirst(ctx, func(ctx context.Context, shard int) error { return g.streams.TellEvents(ctx, shard, group, tell) })
}

// eachNewFirst calls do for each shard. New shards come first, then those that accounts
// leave.
func (g *Groups) eachNewFirst(ctx context.Context, do func(ctx context.Context, shard int) error) error {
	for _, old := range []bool{false, true} {
		if err := circulate.EachShard(ctx, g.ring.Shards(), func(ctx context.Context, shard int) error {
			if isOld := shard < g.ring.Sources(); isOld != old {
				return nil
			}
			return do(ctx, shard)
		}); err != nil {
			return err
		}
	}
	return nil
}

// Consumers returns the consumers of a group with a heartbeat within the window.
func (g *Groups) Consumers(ctx context.Context, group string, window time.Duration) ([]string, error) {
	present, err := g.Present(ctx, group, window)
	names := make([]string, len(present))
	for i := range present {
		names[i] = present[i].Name
	}
	return names, err
}

// Remove removes a consumer group from all shards: its positions, its pending messages,
// what its effects remember, and whether it gets events. Its dead letters stay. It reports
// whether any shard had the group.
//
// If a consumer of the group still runs, it makes the group again, from the position that
// it had read.
func (g *Groups) Remove(ctx context.Context, group string) (bool, error) {
	if err := wire.CheckGroup("remove group", group); err != nil {
		return false, err
	}
	removed := false
	for shard := range g.ring.Shards() {
		if err := g.streams.TellEvents(ctx, shard, group, false); err != nil {
			return removed, err
		}
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

// Condition is what a consumer reports about itself when it joins.
type Condition struct {
	Declined []int  // shards that it leaves to the others
	Deferred string // why messages wait: its handler puts all off, or fails; empty: they do not
}

// maxDeferred is how many bytes of a reason are stored.
const maxDeferred = 300

// Join reports that the consumer is alive, with its condition, and returns all consumers
// that joined lately. Conditions has the last report of each.
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

// Part returns, for each shard, whether it belongs to this consumer among the live ones.
// A consumer whose handler hangs has declined the shard, and another consumer gets it. A
// shard that all have declined is assigned as if none had: otherwise no consumer would
// read it, and its message would never become a dead letter.
func (m Member) Part(alive []string, conditions map[string]Condition) []bool {
	declined := make(map[int][]string) // shard -> consumers
	for _, name := range alive {
		for _, shard := range conditions[name].Declined {
			declined[shard] = append(declined[shard], name)
		}
	}
	part := make([]bool, m.groups.ring.Shards())
	for shard := range part {
		willing := alive
		if by := declined[shard]; len(by) > 0 && len(by) < len(alive) {
			willing = slices.DeleteFunc(slices.Clone(alive), func(name string) bool { return slices.Contains(by, name) })
		}
		part[shard] = circulate.Preferred(shard, willing) == m.consumer
	}
	return part
}

// Quit removes the consumer. Release its leases first.
func (m Member) Quit(ctx context.Context) error {
	w := m.groups.wire
	if err := w.Retire(ctx, presenceOf(w.Namespace(), m.group), m.consumer); err != nil {
		return fmt.Errorf("quit group: %w", err)
	}
	return nil
}

// Conditions returns the last reports of a group's consumers, including consumers that
// have gone lately.
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

// text returns the shards, separated by commas, and the reason in a form that is no
// shard: earlier versions skip it.
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

// Consumer is a consumer of a group with a recent heartbeat.
type Consumer struct {
	Name   string
	Silent time.Duration // since its last heartbeat
	Condition
}

// Present returns the consumers of a group with a heartbeat within the window, by name.
func (g *Groups) Present(ctx context.Context, group string, window time.Duration) ([]Consumer, error) {
	present, err := g.PresentIn(ctx, []string{group}, window)
	if err != nil {
		return nil, err
	}
	return present[group], nil
}

// PresentIn is Present for many groups.
func (g *Groups) PresentIn(ctx context.Context, groups []string, window time.Duration) (map[string][]Consumer, error) {
	batches := make([]wire.Batch, len(groups))
	for i, group := range groups {
		p := presenceOf(g.wire.Namespace(), group)
		key := p.Beats
		// A consumer that has been silent for ten minutes is forgotten, so there are few.
		batches[i] = wire.Batch{Key: key, Commands: []wire.Command{{"TIME"}, {"ZRANGE", key, 0, -1, "WITHSCORES"}, {"HGETALL", p.Reports}}}
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
	reports, err := redis.StringMap(replies.Values[2], nil)
	if err != nil {
		return nil, err
	}
	present := make([]Consumer, 0, len(values)/2)
	for i := 0; i+1 < len(values); i += 2 {
		beat, _ := strconv.ParseFloat(values[i+1], 64)
		if silent := at.Sub(time.UnixMilli(int64(beat))); silent >= -window && silent <= window {
			present = append(present, Consumer{values[i], max(0, silent), readCondition(reports[values[i]])})
		}
	}
	return present, nil
}

// holders returns the consumer with the last lease of a shard, by group. The lease may
// have ended. An unreadable lease is left out.
func (g *Groups) holders(ctx context.Context, shard int) (map[string]string, error) {
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
