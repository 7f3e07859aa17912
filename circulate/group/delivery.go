package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Stage is how far a group is with a message.
type Stage string

// The stages.
const (
	// Unread: the group has not come to the message.
	Unread Stage = "unread"
	// Reading: a consumer has read the message and not acknowledged it.
	Reading Stage = "pending"
	// Passed: the message is acknowledged, or was there before the group began.
	Passed Stage = "done"
	// Foreign: the message was replayed for another group, and this one passes over it.
	Foreign Stage = "skipped"
)

// Delivery is how far a group is with a message.
type Delivery struct {
	Group string
	Stage Stage

	// Only of a message that a consumer is reading.
	Consumer   string
	Deliveries int           // how often it was delivered
	Idle       time.Duration // since the last delivery
}

// Deliveries returns the message at a position of a shard, and how far each group of the
// shard is with it. The message is nil if there is none at that position.
func (g *Groups) Deliveries(ctx context.Context, shard int, position circulate.StreamID) (*circulate.Found, []Delivery, error) {
	key, at := g.streams.Keys(shard).Messages, position.String()
	fail := func(err error) (*circulate.Found, []Delivery, error) {
		return nil, nil, fmt.Errorf("deliveries, shard %d: %w", shard, err)
	}
	replies, err := g.wire.Pipeline(ctx, key, wire.Command{"XRANGE", key, at, at})
	if err != nil {
		return fail(err)
	}
	found, err := g.streams.Read(shard, replies[0])
	if err != nil {
		return fail(err)
	}
	if len(found) == 0 {
		return nil, nil, nil
	}
	states, err := g.lastRead(ctx, shard)
	if err != nil {
		return fail(err)
	}
	deliveries := make([]Delivery, 0, len(states))
	var pending []wire.Command
	var asked []int
	for _, s := range states {
		d := Delivery{Group: s.name, Stage: Passed}
		switch {
		case found[0].Only != "" && found[0].Only != s.name:
			d.Stage = Foreign
		case s.last.Before(position):
			d.Stage = Unread
		default:
			pending, asked = append(pending, wire.Command{"XPENDING", key, s.name, at, at, 1}), append(asked, len(deliveries))
		}
		deliveries = append(deliveries, d)
	}
	if len(pending) == 0 {
		return &found[0], deliveries, nil
	}
	replies, err = g.wire.Pipeline(ctx, key, pending...)
	if err != nil && (len(replies) != len(pending) || !wire.HasCode(err, "NOGROUP")) {
		return fail(err)
	}
	for i, reply := range replies {
		if err := deliveries[asked[i]].read(reply); err != nil {
			return fail(err)
		}
	}
	return &found[0], deliveries, nil
}

// read takes Redis' reply about what is pending at a position.
func (d *Delivery) read(reply any) error {
	entries, err := redis.Values(reply, nil)
	if errors.Is(err, redis.ErrNil) || wire.HasCode(err, "NOGROUP") || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	entry, err := redis.Values(entries[0], nil)
	if err != nil || len(entry) != 4 {
		return errors.Join(wire.ErrReply, err)
	}
	var id string
	var idle int64
	if _, err := redis.Scan(entry, &id, &d.Consumer, &idle, &d.Deliveries); err != nil {
		return err
	}
	d.Stage, d.Idle = Reading, time.Duration(idle)*time.Millisecond
	return nil
}

// lastRead is a group, and the last message that it has read.
type lastRead struct {
	name string
	last circulate.StreamID
}

// lastRead returns the groups of a shard, by name.
func (g *Groups) lastRead(ctx context.Context, shard int) ([]lastRead, error) {
	names, err := g.streams.GroupsOf(ctx, shard)
	if err != nil {
		return nil, err
	}
	states, err := g.SurveyAll(ctx, shard, names)
	if err != nil {
		return nil, err
	}
	all := make([]lastRead, 0, len(names))
	for _, name := range names {
		state, ok := states[name]
		if !ok {
			continue // removed meanwhile
		}
		last, err := circulate.ParseStreamID(state.Last)
		if err != nil {
			return nil, err
		}
		all = append(all, lastRead{name, last})
	}
	return all, nil
}
