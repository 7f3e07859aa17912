package circulate

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed reshard_meta.lua
var reshardMetaLua string

var reshardMetaScript = wire.NewScript("change meta", reshardMetaLua)

// ErrReshardingOther reports that another change of the number of shards is not
// over.
var ErrReshardingOther = wire.Finding("circulate: another change of the number of shards is not over")

// Phase is how far a change of the number of shards has come.
type Phase string

const (
	// Steady says that the number does not change.
	Steady Phase = "steady"
	// Moving says that accounts move to the new shards.
	Moving Phase = "moving"
	// Draining says that all accounts have moved, and only messages are left in the old
	// shards.
	Draining Phase = "draining"
)

// Resharding is a change of the number of shards.
type Resharding struct {
	Phase    Phase
	From, To int // numbers of shards; equal if steady

	layout layout
}

// Layout returns what Ring.Layout returns for a ring that knows this change.
func (r Resharding) Layout() string { return r.layout.name() }

func (l layout) resharding() Resharding {
	switch {
	case l.next > 0:
		return Resharding{Moving, l.shards, l.next, l}
	case l.previous > 0:
		return Resharding{Draining, l.previous, l.shards, l}
	}
	return Resharding{Steady, l.shards, l.shards, l}
}

// Mover changes the number of shards. It moves accounts from old shards to new ones while
// they are checked. The package comment describes it under "Changing the number of
// shards".
type Mover struct{ ring *Ring }

// Mover returns that of the ring.
func (r *Ring) Mover() Mover { return Mover{r} }

// State returns how the namespace is divided now. The ring may not know it yet: see
// [Ring.Changed].
func (m Mover) State(ctx context.Context) (Resharding, error) {
	l, err := m.ring.readLayout(ctx)
	return l.resharding(), err
}

// Begin begins to change the number of shards. Repeating it is no error. From then on
// accounts may move, and every ring that is opened has the old shards and the new ones.
// It returns ErrReshardingOther if a change to another number is not over.
func (m Mover) Begin(ctx context.Context, to int) (Resharding, error) {
	if to < 1 || to > MaxShards {
		return Resharding{}, fmt.Errorf("%w: reshard: shards: must be 1 to %d, is %d", wire.ErrInput, MaxShards, to)
	}
	l, err := m.ring.readLayout(ctx)
	if err != nil {
		return Resharding{}, err
	}
	switch now := l.resharding(); {
	case now.Phase == Moving && now.To == to, now.Phase == Draining && now.To == to, now.Phase == Steady && now.To == to:
		return now, nil
	case now.Phase != Steady:
		return now, fmt.Errorf("%w: from %d to %d, %s", ErrReshardingOther, now.From, now.To, now.Phase)
	}
	if l.migrating != "" {
		return Resharding{}, fmt.Errorf("%w: what the namespace keeps is being migrated (%s)", ErrReshardingOther, l.migrating)
	}
	next := l
	next.next = to
	return m.ring.changeLayout(ctx, l, next)
}

// FinishMove ends the moving: the ring then consists of the new shards. It does so once
// nothing but messages is left in the old ones, and reports whether the moving has ended.
func (m Mover) FinishMove(ctx context.Context) (bool, error) {
	l, err := m.ring.readLayout(ctx)
	if err != nil || l.next == 0 || l.view() != m.ring.layout.view() {
		return err == nil && l.next == 0 && l.generation >= m.ring.Generation(), err
	}
	for source := range m.ring.sources {
		left, err := m.Remaining(ctx, source)
		if err != nil || !left.none() {
			return false, err
		}
	}
	m.ring.left.Store(true)
	_, err = m.ring.changeLayout(ctx, l, layout{generation: l.lasting().generation, shards: l.next, previous: l.shards, skipped: l.skipped, era: l.era, migrating: l.migrating})
	return err == nil, err
}

// changeLayout writes meta if it is what it was.
func (r *Ring) changeLayout(ctx context.Context, was, becomes layout) (Resharding, error) {
	before, after := was.values(), becomes.values()
	var args []any
	for i, field := range metaFields {
		args = append(args, field, before[i], after[i])
	}
	args = append(args, "format", was.format(), becomes.format(), migratingField, was.migrating, becomes.migrating)
	done, err := redis.Bool(r.wire.Eval(ctx, reshardMetaScript, []string{metaKey(r.namespace)}, args))
	if err != nil {
		return Resharding{}, fmt.Errorf("reshard: %w", err)
	}
	if !done {
		return Resharding{}, fmt.Errorf("%w: it was changed at the same time", ErrReshardingOther)
	}
	return becomes.resharding(), nil
}

// afterlife is how long a shard's leaving is remembered, so that a process that slept for
// as long makes nothing in it. remainsFor is how long empty keys are kept for processes
// that do not know yet that they are out of use.
const (
	afterlife  = 30 * 24 * time.Hour
	remainsFor = time.Hour
)

// Drained ends the change: the old shards are forgotten, once no messages are in them.
// Dead letters are carried to the new ones. With drop, messages that every consumer group
// has handled are dropped with them. It reports whether the change has ended.
func (m Mover) Drained(ctx context.Context, drop bool) (bool, error) {
	l, err := m.ring.readLayout(ctx)
	if err != nil || l.previous == 0 || l.view() != m.ring.layout.view() {
		return err == nil && l.previous == 0 && l.next == 0, err
	}
	for source := range m.ring.sources {
		left, err := m.Remaining(ctx, source)
		if err != nil || !left.none() {
			return false, err
		}
		if _, err := m.CarryDead(ctx, source); err != nil {
			return false, err
		}
		if drained, err := m.ring.drained(ctx, source, drop); err != nil || !drained {
			return false, err
		}
	}
	for shard := range m.ring.keys {
		if err := m.ring.forget(ctx, shard); err != nil {
			return false, err
		}
	}
	_, err = m.ring.changeLayout(ctx, l, layout{generation: l.generation, shards: l.shards, era: l.era, migrating: l.migrating})
	return err == nil, err
}

// drained reports whether a shard has no messages that are still needed.
func (r *Ring) drained(ctx context.Context, shard int, drop bool) (bool, error) {
	k := &r.keys[shard]
	replies, err := r.wire.Pipeline(ctx, k.messages, wire.Command{"XLEN", k.messages}, wire.Command{"XLEN", k.dead})
	if err != nil {
		return false, fmt.Errorf("drained, shard %d: %w", shard, err)
	}
	if replies[1] != int64(0) || replies[0] != int64(0) && !drop {
		return false, nil
	}
	groups, err := r.groupsOf(ctx, shard)
	if err != nil {
		return false, err
	}
	for _, group := range groups {
		if s, err := r.Streams().GroupState(ctx, shard, group); err != nil || s.Lag > 0 || s.Pending > 0 {
			return false, err
		}
	}
	return true, nil
}

// forget drops what is left of a change: an old shard with all its keys, or what a new
// one remembers of arrivals.
func (r *Ring) forget(ctx context.Context, shard int) error {
	k := &r.keys[shard]
	if shard >= r.sources {
		if _, err := r.wire.Pipeline(ctx, k.arrivals, wire.Command{"DEL", k.arrivals, k.carried}); err != nil {
			return fmt.Errorf("forget arrivals, shard %d: %w", shard, err)
		}
		return nil
	}
	commands := expiry(k)
	groups, err := r.groupsOf(ctx, shard)
	if err != nil {
		return err
	}
	for _, group := range groups {
		commands = append(commands, wire.Command{"PEXPIRE", k.stream().Applied(group), remainsFor.Milliseconds()})
	}
	if _, err := r.wire.Pipeline(ctx, k.leaving, commands...); err != nil {
		return fmt.Errorf("forget, shard %d: %w", shard, err)
	}
	return nil
}

// expiry returns commands that expire the keys of an unused shard. What says that it is
// unused stays for a long time.
func expiry(k *shardKeys) []wire.Command {
	var commands []wire.Command
	for _, key := range k.all() {
		if key[0] != k.leaving && key[0] != k.setAside {
			commands = append(commands, wire.Command{"PEXPIRE", key[0], remainsFor.Milliseconds()})
		}
	}
	return append(commands, wire.Command{"PEXPIRE", k.leaving, afterlife.Milliseconds()},
		wire.Command{"PEXPIRE", k.setAside, afterlife.Milliseconds()})
}

// Leftover is what is left in a shard that accounts leave.
type Leftover struct {
	Accounts int // that have not departed
	Transit  int // batches of accounts on their way
	Kept     int // batches that have arrived, and are not yet confirmed

	Records int  // of accounts; more than Accounts if a ticket was lost, which an audit repairs
	Marked  bool // it is being left: an account that is gone will not come back
}

func (l Leftover) none() bool { return l.Marked && l.Accounts+l.Transit+l.Kept+l.Records == 0 }

// Remaining returns what is left in an old shard.
func (m Mover) Remaining(ctx context.Context, source int) (Leftover, error) {
	k := &m.ring.keys[source]
	// The order matters. What the mark keeps out is counted after the mark was seen, and
	// an account that moves on meanwhile is counted in a later place.
	results, err := m.ring.wire.PipelineOn(ctx, wire.Ordinary, source, k.tickets, wire.Command{"EXISTS", k.leaving}, wire.Command{"HLEN", k.tickets}, wire.Command{"HLEN", k.departures},
		wire.Command{"HLEN", k.departed}, wire.Command{"HLEN", k.accounts})
	if err != nil {
		return Leftover{}, fmt.Errorf("left, shard %d: %w", source, err)
	}
	var l Leftover
	var leaving int
	for i, into := range []*int{&leaving, &l.Accounts, &l.Transit, &l.Kept, &l.Records} {
		if *into, err = redis.Int(results[i], nil); err != nil {
			return Leftover{}, fmt.Errorf("left, shard %d: %w", source, err)
		}
	}
	l.Marked = leaving == 1
	return l, nil
}
