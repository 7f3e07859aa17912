package circulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var reshardMetaScript = wire.NewScript("change meta", lua("reshard_meta"))

// ErrReshardingOther reports that another change of the number of shards is still under
// way.
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

// Mover returns the ring's mover.
func (r *Ring) Mover() Mover { return Mover{r} }

// State returns how the namespace is divided now. The ring may not know that division
// yet: see [Ring.Changed].
func (m Mover) State(ctx context.Context) (Resharding, error) {
	l, err := m.ring.readLayout(ctx)
	return l.resharding(), err
}

// Begin begins to change the number of shards. Repeating it is no error. From then on
// accounts may move, and every newly opened ring has the old shards and the new ones. It
// returns ErrReshardingOther if a change to another number is under way.
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
		return Resharding{}, fmt.Errorf("%w: the namespace's data is being migrated (%s)", ErrReshardingOther, l.migrating)
	}
	next := l
	next.next = to
	return m.ring.changeLayout(ctx, l, next)
}

// FinishMove ends the moving once only messages are left in the old shards: the new
// shards are then the ring's. It reports whether the moving has ended.
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
	_, err = m.ring.changeLayout(ctx, l, layout{generation: l.lasting().generation, shards: l.next, previous: l.shards, skipped: l.skipped, era: l.era, migrating: l.migrating, sends: l.sends})
	return err == nil, err
}

// changeLayout writes meta if meta has not changed.
func (r *Ring) changeLayout(ctx context.Context, was, becomes layout) (Resharding, error) {
	done, err := r.changeMeta(ctx, "reshard", was, becomes)
	if err != nil {
		return Resharding{}, err
	}
	if !done {
		return Resharding{}, fmt.Errorf("%w: it was changed at the same time", ErrReshardingOther)
	}
	return becomes.resharding(), nil
}

// changeMeta replaces a layout in meta, and more fields: each with its name, the value that
// it must have, and its new one. It reports whether meta was as expected.
func (r *Ring) changeMeta(ctx context.Context, doing string, was, becomes layout, more ...any) (bool, error) {
	args := append([]any{"format", was.format(), becomes.format(), migratingField, was.migrating, becomes.migrating}, more...)
	before, after := was.values(), becomes.values()
	for i, field := range metaFields {
		args = append(args, field, before[i], after[i])
	}
	done, err := redis.Bool(r.wire.Eval(ctx, reshardMetaScript, []string{metaKey(r.namespace)}, args))
	if err != nil {
		return false, fmt.Errorf("%s: %w", doing, err)
	}
	return done, nil
}

// afterlife is how long a shard's leaving key lives, so that a process that slept for as
// long makes nothing in the shard. remainsFor is how long empty keys live, for processes
// that do not know yet that the keys are out of use.
const (
	afterlife  = 30 * 24 * time.Hour
	remainsFor = time.Hour
)

// Drained ends the change: it drops the old shards once no messages are in them, after it
// has carried their dead letters to the new shards. With drop, messages that every
// consumer group has handled do not count and are dropped too. It reports whether the
// change has ended.
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
	_, err = m.ring.changeLayout(ctx, l, layout{generation: l.generation, shards: l.shards, era: l.era, migrating: l.migrating, sends: l.sends})
	return err == nil, err
}

// drained reports whether no consumer group needs a shard's messages any more.
func (r *Ring) drained(ctx context.Context, shard int, drop bool) (bool, error) {
	k := &r.keys[shard]
	replies, err := r.wire.Pipeline(ctx, k.messages, wire.Command{"XLEN", k.messages}, wire.Command{"XLEN", k.dead})
	if err != nil {
		return false, fmt.Errorf("drained, shard %d: %w", shard, err)
	}
	if replies[1] != int64(0) || replies[0] != int64(0) && !drop {
		return false, nil
	}
	groups, err := r.Streams().GroupsOf(ctx, shard)
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

// forget drops what is left of a change: an old shard with all its keys, or a new shard's
// memory of arrivals.
func (r *Ring) forget(ctx context.Context, shard int) error {
	k := &r.keys[shard]
	if shard >= r.sources {
		if _, err := r.wire.Pipeline(ctx, k.arrivals, wire.Command{"DEL", k.arrivals, k.carried}); err != nil {
			return fmt.Errorf("forget arrivals, shard %d: %w", shard, err)
		}
		return nil
	}
	commands := expiry(k)
	groups, err := r.Streams().GroupsOf(ctx, shard)
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

// expiry returns commands that expire the keys of an unused shard. The key that marks the
// shard as unused lives for a long time.
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

// Leftover counts what is left in a shard that accounts leave.
type Leftover struct {
	Accounts int // that have not departed
	Transit  int // batches of accounts on their way
	Kept     int // batches that have arrived but are not confirmed yet

	Records int  // of accounts; more than Accounts if a ticket was lost; an audit repairs that
	Marked  bool // accounts are leaving: one that is gone will not come back
}

func (l Leftover) none() bool { return l.Marked && l.Accounts+l.Transit+l.Kept+l.Records == 0 }

// Remaining counts what is left in an old shard.
func (m Mover) Remaining(ctx context.Context, source int) (Leftover, error) {
	k := &m.ring.keys[source]
	// The order matters. The mark is read before the accounts that it keeps out are
	// counted, and an account that moves on meanwhile is counted in a later place.
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

var (
	reshardStayScript   = wire.NewScript("stay", lua("reshard_stay"))
	reshardUnstayScript = wire.NewScript("unstay", lua("reshard_unstay"))
)

var (
	// ErrNoReturn reports that a change of the number of shards cannot be aborted any
	// more, because accounts have begun to move.
	ErrNoReturn = wire.Finding("circulate: accounts have begun to move to other shards")
	// ErrAborted reports that a shard's accounts stay, because the change was or is being
	// aborted.
	ErrAborted = fmt.Errorf("%w: the change of the number of shards is aborted", ErrResharding)
)

// Abort ends a change of the number of shards before any account has begun to move. The
// number is then what it was. It returns ErrNoReturn if an account has moved, and does
// nothing if no change is under way. It is safe to repeat, and any number of processes
// may do it. If one stops half way, the monitors continue.
//
// The abort is decided when every old shard has recorded that its accounts stay. From
// then on no mover, however late, takes accounts out. Then the new shards are closed to
// registrations, and meta forgets them. Their names are never used again.
func (m Mover) Abort(ctx context.Context) (Resharding, error) {
	l, err := m.ring.readLayout(ctx)
	if err != nil || l.next == 0 {
		now := l.resharding()
		if err == nil && now.Phase == Draining {
			err = ErrNoReturn
		}
		return now, err
	}
	to := l.lasting()
	var old, new []shardKeys
	for shard := range l.shards {
		old = append(old, generationKeys(m.ring.namespace, l.generation, l.shards, shard))
	}
	for shard := range to.shards {
		new = append(new, generationKeys(m.ring.namespace, to.generation, to.shards, shard))
	}
	for i := range old {
		k := &old[i]
		stays, err := redis.Bool(m.ring.wire.Eval(ctx, reshardStayScript, []string{k.stays, k.leaving, k.tickets}, []any{to.generation}))
		if err != nil {
			return Resharding{}, fmt.Errorf("abort: %w", err)
		}
		if !stays {
			return l.resharding(), errors.Join(ErrNoReturn, m.ring.unstay(ctx, old[:i], to.generation))
		}
	}
	for i := range new {
		k := &new[i]
		if _, err := m.ring.wire.Eval(ctx, reshardLeaveScript, []string{k.leaving, k.tickets, k.stays}, []any{0, to.generation + 1}); err != nil {
			return Resharding{}, fmt.Errorf("abort: %w", err)
		}
	}
	back := l
	back.next, back.skipped = 0, l.skipped+1
	done, err := m.ring.changeLayout(ctx, l, back)
	if err != nil {
		return done, err
	}
	for i := range new {
		// If this fails, a few keys remain.
		if _, err := m.ring.wire.Pipeline(ctx, new[i].leaving, expiry(&new[i])...); err != nil {
			m.ring.log.Debug("keys of shards that are not used stay", "error", err)
		}
	}
	return done, nil
}

// unstay lets the accounts of shards leave after all.
func (r *Ring) unstay(ctx context.Context, shards []shardKeys, generation int) error {
	for i := range shards {
		if _, err := r.wire.Eval(ctx, reshardUnstayScript, []string{shards[i].stays}, []any{generation}); err != nil {
			return fmt.Errorf("abort: %w", err)
		}
	}
	return nil
}

const (
	// The share of the accounts' memory that moving takes on top: for their ids in
	// arrivals, for the tables of growing HASHes and of others that have not shrunk, and
	// for memory that the allocator cannot use.
	roomForIDs = 0.35
	// CopiesLeast is the least room for copies, in bytes.
	CopiesLeast = 1 << 20
)

// Room is how many bytes of a Redis server's memory a change of the number of shards
// needs, and how many are free.
type Room struct {
	Node       string // its address; empty if there is one server
	Need, Free int64
}

// Room estimates the memory that a change to another number of shards needs. It returns
// one Room for each server that has a memory limit and reports it. Sends, windows and what
// accounts remember count. A server that receives accounts from others needs room for them
// before its own have left. Moving itself takes a share of the accounts' memory on top.
func (m Mover) Room(ctx context.Context, to int) ([]Room, error) {
	l, err := m.ring.readLayout(ctx)
	if err != nil {
		return nil, err
	}
	type server struct {
		key    string
		memory int64 // of its accounts now
		shards int64 // new shards that it will have
	}
	var total int64
	servers := make(map[string]*server)
	at := func(key string) *server {
		node := m.ring.wire.NodeOf(key)
		if servers[node] == nil {
			servers[node] = &server{key: key}
		}
		return servers[node]
	}
	for shard := range m.ring.keys {
		bytes, err := m.ring.accountsMemory(ctx, shard)
		if err != nil {
			return nil, err
		}
		if bytes < 0 {
			return nil, nil // this Redis does not report memory
		}
		total += bytes
		at(m.ring.keys[shard].tickets).memory += bytes
	}
	l.next = to
	becomes := l.lasting()
	for shard := range to {
		at(generationKeys(m.ring.namespace, becomes.generation, to, shard).tickets).shards++
	}
	var rooms []Room
	for node, s := range servers {
		free, limited, err := m.ring.freeMemory(ctx, s.key)
		if err != nil {
			return nil, err
		}
		if !limited {
			continue
		}
		share := float64(s.shards) / float64(to)
		need := float64(total-s.memory)*share + float64(total)*share*roomForIDs
		rooms = append(rooms, Room{Node: node, Need: int64(need) + CopiesLeast, Free: free})
	}
	return rooms, nil
}

// accountsMemory returns how much memory a shard's accounts take by Redis' estimate, with
// their sends and what they remember, or -1 if Redis gives none.
func (r *Ring) accountsMemory(ctx context.Context, shard int) (bytes int64, err error) {
	k := &r.keys[shard]
	o := &k.outbox
	replies, err := r.wire.Pipeline(ctx, k.tickets, usageOf(append(k.accountFields(),
		k.tickets, k.schedule, k.parked, k.urgent, k.queue, k.low, k.byKind, k.kinds, o.sends, o.line, o.due, o.index, o.ends, o.names, o.windows))...)
	if wire.Replied(err) && !Unavailable(err) {
		return -1, nil
	}
	known := int64(0)
	if err == nil {
		known, err = r.knownMemory(ctx, shard)
	}
	if err != nil {
		return 0, fmt.Errorf("memory, shard %d: %w", shard, err)
	}
	return bytesIn(replies) + known, nil
}

// knownMemory estimates how much memory a shard's accounts take for what they remember, from
// some of them.
func (r *Ring) knownMemory(ctx context.Context, shard int) (bytes int64, err error) {
	const asked = 64
	k := &r.keys[shard]
	replies, err := r.wire.Pipeline(ctx, k.tickets, wire.Command{"HLEN", k.tickets}, wire.Command{"HSCAN", k.tickets, 0, "COUNT", asked})
	if err != nil {
		return 0, err
	}
	var all int64
	var page []any
	var cursor string
	var tickets []string
	if _, err = redis.Scan(replies, &all, &page); err == nil {
		_, err = redis.Scan(page, &cursor, &tickets)
	}
	if err != nil {
		return 0, errors.Join(wire.ErrReply, err)
	}
	n := min(len(tickets)/2, asked)
	if n == 0 {
		return 0, nil
	}
	var keys []string
	for i := range n {
		keys = append(keys, k.knownKeys(tickets[2*i])...)
	}
	if replies, err = r.wire.Pipeline(ctx, k.tickets, usageOf(keys)...); err != nil {
		return 0, err
	}
	return bytesIn(replies) * all / int64(n), nil
}

// usageOf returns commands that ask how much memory keys take.
func usageOf(keys []string) (commands []wire.Command) {
	for _, key := range keys {
		commands = append(commands, wire.Command{"MEMORY", "USAGE", key})
	}
	return commands
}

// bytesIn adds up replies of MEMORY USAGE, of which those of keys that do not exist are nil.
func bytesIn(replies []any) (bytes int64) {
	for _, reply := range replies {
		if n, ok := reply.(int64); ok {
			bytes += n
		}
	}
	return bytes
}

// FreeMemory returns how many bytes the server of a shard has left before its limit.
// limited is false if the server has no limit or does not report it.
func (m Mover) FreeMemory(ctx context.Context, shard int) (bytes int64, limited bool, err error) {
	return m.ring.freeMemory(ctx, m.ring.keys[shard].tickets)
}

func (r *Ring) freeMemory(ctx context.Context, key string) (bytes int64, limited bool, err error) {
	replies, err := r.wire.Pipeline(ctx, key, wire.Command{"INFO", "memory"})
	if wire.Replied(err) && !Unavailable(err) {
		return math.MaxInt64, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("memory: %w", err)
	}
	text, err := redis.String(replies[0], nil)
	if err != nil {
		return 0, false, fmt.Errorf("memory: %w: %w", wire.ErrReply, err)
	}
	fields := infoFields(text)
	used, _ := strconv.ParseInt(fields["used_memory"], 10, 64)
	most, _ := strconv.ParseInt(fields["maxmemory"], 10, 64)
	if most == 0 {
		return math.MaxInt64, false, nil
	}
	return most - used, true, nil
}
