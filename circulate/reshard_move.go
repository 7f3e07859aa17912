package circulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	reshardReceiveScript   = wire.NewScript("receive", lua("reshard_receive"))
	reshardLeaveScript     = wire.NewScript("leave", lua("reshard_leave"))
	reshardDepartScript    = wire.NewScript("depart", lua("known_move"), lua("sends"), lua("reshard_depart"))
	reshardArriveScript    = wire.NewScript("arrive", lua("known_move"), lua("sends"), lua("reshard_arrive"))
	reshardTransitScript   = wire.NewScript("transit", lua("reshard_transit"))
	reshardConfirmedScript = wire.NewScript("confirmed", lua("reshard_confirmed"))
	reshardSettleScript    = wire.NewScript("settle", lua("reshard_settle"))
)

const (
	// MoveGate is how long a Move stops claims from its shard.
	MoveGate  = 2 * time.Second
	moveBatch = 128
	moveBytes = 1 << 20
)

// errNotReceiving reports that a shard accepts no accounts from others.
var errNotReceiving = wire.Finding("circulate: the shard takes no accounts from others")

// accountFields returns the HASHes with a field for each account, in the order in which
// an account's fields are moved.
func (k *shardKeys) accountFields() []string {
	return []string{k.accounts, k.cursors, k.failures, k.states, k.errors, k.strikes, k.nudges, k.reasons}
}

// Receive prepares the new shards: each accepts accounts from old shards from then on,
// and gets their consumer groups, at the start of its stream, and which of them ask for
// events. Call it before the first Move. It is safe to repeat.
func (m Mover) Receive(ctx context.Context) error {
	groups, told := make(map[string]bool), make(map[string]bool)
	for source := range m.ring.sources {
		names, err := m.ring.Streams().GroupsOf(ctx, source)
		if err != nil {
			return err
		}
		asking, err := m.ring.Streams().Told(ctx, source)
		if err != nil {
			return err
		}
		for _, name := range asking {
			told[name] = true
		}
		for _, name := range names {
			groups[name] = true
		}
	}
	var names []any
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		names = append(names, name)
	}
	for target := m.ring.sources; target < len(m.ring.keys); target++ {
		k := &m.ring.keys[target]
		ready, err := redis.Bool(m.ring.wire.Run(ctx, reshardReceiveScript, target,
			[]string{k.arrivals, k.ticketSeq, k.messages, k.tickets, k.ticketMark}, names...))
		if err != nil {
			return err
		}
		if !ready {
			return fmt.Errorf("receive, shard %d: %w", target, errNotReceiving)
		}
		for name := range told {
			if err := m.ring.Streams().TellEvents(ctx, target, name, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sequence returns the old shards in the best order to leave them. Shards that move to
// the same new shard come one after the other, so that few others delay its messages.
func (m Mover) Sequence() []int {
	common := gcd(max(1, m.ring.sources), len(m.ring.keys)-m.ring.sources)
	order := make([]int, 0, m.ring.sources)
	for class := range common {
		for source := class; source < m.ring.sources; source += common {
			order = append(order, source)
		}
	}
	return order
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// Move moves some accounts of an old shard to the new ones: first waiting accounts, then
// the scheduled ones by due time, then the parked ones. Claimed accounts stay until they
// are returned. Move stops claims from the shard for MoveGate, so that returned accounts
// can move. It returns how many it moved and how many are left.
//
// An account departs, arrives and is settled, each in one atomic step on one shard. If
// the mover stops in between, the account is in one place or on its way, and Complete
// continues.
func (m Mover) Move(ctx context.Context, source int) (moved, left int, err error) {
	if source < 0 || source >= m.ring.sources {
		return 0, 0, fmt.Errorf("%w: move: shard %d is not being left", wire.ErrInput, source)
	}
	k := &m.ring.keys[source]
	left, err = redis.Int(m.ring.wire.Run(ctx, reshardLeaveScript, source, []string{k.leaving, k.tickets, k.stays},
		MoveGate.Milliseconds(), m.ring.layout.lasting().generation))
	if err != nil {
		return 0, 0, err
	}
	if left < 0 {
		return 0, 0, fmt.Errorf("move, shard %d: %w", source, ErrAborted)
	}
	if _, err := m.Complete(ctx, source); err != nil || left == 0 {
		return 0, left, err
	}
	items, byKind, err := m.ring.movable(ctx, source)
	if err == nil && byKind > 0 {
		// Accounts that wait by their kind go back to the lanes and depart from there.
		if _, err = m.ring.Kinds().Recall(ctx, source, "", moveBatch); err == nil {
			items, _, err = m.ring.movable(ctx, source)
		}
	}
	if err != nil || len(items) == 0 {
		return 0, left, err
	}
	keys := append([]string{k.tickets, k.ticketSeq, k.schedule, k.parked, k.departures, k.leaving, k.urgent, k.queue, k.low, k.ticketMark},
		k.outbox.with(k.accountFields()...)...)
	keys = append(keys, k.knownAway)
	for a := 0; a < len(items); a += 4 {
		keys = append(keys, k.knownKeys(items[a].(string))...)
	}
	batches, err := redis.Strings(m.ring.wire.Run(ctx, reshardDepartScript, source, keys, append([]any{moveBytes}, items...)...))
	if err != nil {
		return 0, left, err
	}
	moved, err = m.ring.deliver(ctx, source, batches)
	return moved, max(0, left-moved), err
}

// movable returns accounts of a shard as depart takes them, and how many entries wait by
// kind.
func (r *Ring) movable(ctx context.Context, source int) (items []any, byKind int, err error) {
	k := &r.keys[source]
	replies, err := r.wire.PipelineOn(ctx, wire.Ordinary, source, k.tickets,
		wire.Command{"LRANGE", k.urgent, -moveBatch, -1}, wire.Command{"LRANGE", k.queue, -moveBatch, -1}, wire.Command{"LRANGE", k.low, -moveBatch, -1},
		wire.Command{"ZRANGE", k.schedule, 0, moveBatch - 1}, wire.Command{"ZRANGE", k.parked, 0, moveBatch - 1}, wire.Command{"ZCARD", k.byKind})
	if err != nil {
		return nil, 0, fmt.Errorf("move, shard %d: %w", source, err)
	}
	last := len(replies) - 1
	if byKind, err = redis.Int(replies[last], nil); err != nil {
		return nil, 0, fmt.Errorf("move, shard %d: %w", source, err)
	}
	for i, reply := range replies[:last] {
		texts, err := redis.Strings(reply, nil)
		if err != nil {
			return nil, 0, fmt.Errorf("move, shard %d: %w", source, err)
		}
		lane := i + 1
		if lane > 3 {
			lane = 0
		}
		for j := range texts {
			id, entry := texts[j], ""
			if lane > 0 {
				entry = texts[len(texts)-1-j] // the tail is next in line
				e, err := ParseEntry(entry)
				if err != nil {
					continue // a claim sets it aside
				}
				id = e.ID
			}
			if len(items) == 4*moveBatch {
				return items, byKind, nil
			}
			items = append(items, id, r.shardName(r.target(id)), lane, entry)
		}
	}
	return items, byKind, nil
}

// Complete moves on the accounts of an old shard that are on their way because their
// mover has stopped or is about to. Any process may do it, and several at once. It
// returns how many arrived.
func (m Mover) Complete(ctx context.Context, source int) (int, error) {
	k := &m.ring.keys[source]
	replies, err := m.ring.wire.Pipeline(ctx, k.departures, wire.Command{"HLEN", k.departures})
	if err != nil || replies[0] == int64(0) {
		return 0, err
	}
	batches, err := redis.Strings(m.ring.wire.Run(ctx, reshardTransitScript, source, []string{k.departures, k.knownAway}))
	if err != nil {
		return 0, err
	}
	return m.ring.deliver(ctx, source, batches)
}

// deliver has batches arrive, each a field, its accounts and what they remember, and
// settles them.
func (r *Ring) deliver(ctx context.Context, source int, batches []string) (came int, err error) {
	if len(batches) == 0 {
		return 0, nil
	}
	var settled []any
	for i := 0; i+2 < len(batches); i += 3 {
		n, err := r.arrive(ctx, batches[i], batches[i+1], batches[i+2])
		if err != nil {
			return came, err
		}
		came += n
		settled = append(settled, batches[i])
		r.copies.add(source, len(batches[i])+len(batches[i+1]))
	}
	k := &r.keys[source]
	_, err = r.wire.Run(ctx, reshardSettleScript, source, []string{k.departures, k.departed}, settled...)
	return came, err
}

// targetOf returns the shard that a field of departures names.
func (r *Ring) targetOf(field string) (int, error) {
	name, _, _ := strings.Cut(field, ":")
	target, err := r.shardNamed(name)
	if err != nil || target < r.sources {
		// The field belongs to a change that this ring does not know, or to none.
		return 0, fmt.Errorf("departure %q: %w", field, errors.Join(ErrResharding, err))
	}
	return target, nil
}

// arrive puts a batch into the shard that its field names, with what its accounts
// remember.
func (r *Ring) arrive(ctx context.Context, field, accounts, remembered string) (int, error) {
	target, err := r.targetOf(field)
	if err != nil {
		return 0, fmt.Errorf("arrive: %w", err)
	}
	k := &r.keys[target]
	keys := append([]string{k.tickets, k.ticketSeq, k.schedule, k.parked, k.arrivals, k.ticketMark}, k.outbox.with(k.accountFields()...)...)
	args := append(r.wakeArgs(target), accounts)
	for texts := readTexts(remembered); len(texts) >= 5; texts = texts[5:] {
		keys, args = append(keys, k.knownKeys(texts[0])...), append(args, anyOf(texts[:5])...)
	}
	came, err := redis.Int(r.wire.Run(ctx, reshardArriveScript, target, keys, args...))
	if err == nil && came < 0 {
		err = fmt.Errorf("arrive, shard %d: %w", target, errNotReceiving)
	}
	return max(0, came), err
}

var reshardKeptScript = wire.NewScript("kept", lua("reshard_kept"))

const (
	// keptFor is how long the old shard retains copies of accounts that have arrived in
	// their new shard.
	keptFor = 5 * time.Second

	keptPage = 64 // about how many copies one step looks at
)

// copies counts the bytes of arrived accounts that each old shard still has, as far as
// one ring knows.
type copies struct {
	mu sync.Mutex
	in map[int]int
}

func (c *copies) add(source, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in[source] += bytes
}

func (c *copies) set(source, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in[source] = bytes
	if bytes == 0 {
		delete(c.in, source)
	}
}

// Copies returns how many bytes of arrived accounts the old shards still have: what this
// ring has moved since its last Confirm, and what it saw then. Only Confirm frees them.
func (m Mover) Copies() (bytes int) {
	m.ring.copies.mu.Lock()
	defer m.ring.copies.mu.Unlock()
	for _, n := range m.ring.copies.in {
		bytes += n
	}
	return bytes
}

// ConfirmCopies is Confirm for each old shard in which this ring knows of copies.
func (m Mover) ConfirmCopies(ctx context.Context) error {
	m.ring.copies.mu.Lock()
	sources := slices.Sorted(maps.Keys(m.ring.copies.in))
	m.ring.copies.mu.Unlock()
	for _, source := range sources {
		if err := m.Confirm(ctx, source); err != nil {
			return err
		}
	}
	return nil
}

// Confirm deletes the copies of an old shard's accounts that arrived at least keptFor
// ago, if their new shard still knows them. Other accounts of the shard may move
// meanwhile. If the new shard's Redis lost its last writes and accounts with them, these
// accounts arrive once more.
func (m Mover) Confirm(ctx context.Context, source int) error {
	young := 0
	for cursor := ScanDone; ; {
		reply, err := redis.Values(m.ring.wire.Run(ctx, reshardKeptScript, source, []string{m.ring.keys[source].departed}, cursor, keptPage, keptFor.Milliseconds()))
		if err != nil {
			return err
		}
		var bytes int
		rest, err := redis.Scan(reply, &cursor, &bytes)
		if err != nil {
			return fmt.Errorf("confirm, shard %d: %w: %w", source, wire.ErrReply, err)
		}
		texts, err := redis.Strings(rest, nil)
		if err != nil {
			return fmt.Errorf("confirm, shard %d: %w: %w", source, wire.ErrReply, err)
		}
		young += bytes
		if err := m.ring.confirm(ctx, source, texts); err != nil {
			return err
		}
		if cursor == ScanDone {
			m.ring.copies.set(source, young)
			return nil
		}
	}
}

// confirm deletes copies, given as pairs of field and first account, or has the accounts
// arrive once more. A batch arrives as a whole, so one of its accounts stands for all.
func (r *Ring) confirm(ctx context.Context, source int, copies []string) error {
	k := &r.keys[source]
	asked := make(map[int][]int) // target -> places among the copies
	for i := 0; i+1 < len(copies); i += 2 {
		target, err := r.targetOf(copies[i])
		if err != nil {
			return fmt.Errorf("confirm, shard %d: %w", source, err)
		}
		asked[target] = append(asked[target], i)
	}
	for _, target := range slices.Sorted(maps.Keys(asked)) {
		places, arrivals := asked[target], r.keys[target].arrivals
		var ask []wire.Command
		for _, i := range places {
			ask = append(ask, wire.Command{"SISMEMBER", arrivals, copies[i+1]})
		}
		known, err := r.wire.Pipeline(ctx, arrivals, ask...)
		if err != nil {
			return fmt.Errorf("confirm, shard %d: %w", source, err)
		}
		var forget []any
		for j, i := range places {
			if known[j] == int64(0) {
				if err := r.arriveAgain(ctx, source, target, copies[i]); err != nil {
					return err
				}
				continue
			}
			forget = append(forget, copies[i])
		}
		if len(forget) == 0 {
			continue
		}
		if _, err := r.wire.Run(ctx, reshardConfirmedScript, source, []string{k.departed, k.knownAway}, forget...); err != nil {
			return err
		}
	}
	return nil
}

// arriveAgain makes the accounts of a copy arrive once more in their new shard, which has lost them.
func (r *Ring) arriveAgain(ctx context.Context, source, target int, field string) error {
	departed, away := r.keys[source].departed, r.keys[source].knownAway
	replies, err := r.wire.Pipeline(ctx, departed, wire.Command{"TIME"}, wire.Command{"HGET", departed, field}, wire.Command{"HGET", away, field})
	if err != nil {
		return fmt.Errorf("confirm, shard %d: %w", source, err)
	}
	now, err := wire.Time(replies[0])
	if err != nil || replies[1] == nil { // another process has confirmed it
		return err
	}
	kept, err := redis.String(replies[1], nil)
	if err != nil || len(kept) < 14 {
		return fmt.Errorf("confirm, shard %d: %q: %w", source, field, errors.Join(wire.ErrReply, err))
	}
	remembered, _ := redis.String(replies[2], nil) // nil: none of the accounts remembers anything
	if _, err := r.arrive(ctx, field, kept[14:], remembered); err != nil {
		return err
	}
	r.log.Warn("a shard lost accounts that had moved to it; they have arrived again", "shard", target)
	if _, err := r.wire.Pipeline(ctx, departed, wire.Command{"HSET", departed, field, fmt.Sprintf("%013d|%s", now.UnixMilli(), kept[14:])}); err != nil {
		return fmt.Errorf("confirm, shard %d: %w", source, err)
	}
	return nil
}

var reshardCarryScript = wire.NewScript("carry", lua("reshard_carry"))

// carryPage is how many dead letters are read at once. Each may have 256 KiB.
const carryPage = 16

// CarryDead copies the dead letters of an old shard to the new shards of their accounts,
// in order. Each arrives once, however often this is repeated. Their retention begins
// anew. It returns how many arrived.
func (m Mover) CarryDead(ctx context.Context, source int) (came int, err error) {
	if source < 0 || source >= m.ring.sources {
		return 0, fmt.Errorf("%w: carry: shard %d is not being left", wire.ErrInput, source)
	}
	for {
		letters, err := m.ring.carryPage(ctx, source)
		if err != nil || len(letters) == 0 {
			return came, err
		}
		gone := wire.Command{"XDEL", m.ring.keys[source].dead}
		for _, l := range letters {
			n, err := m.ring.carry(ctx, source, l)
			if err != nil {
				return came, err
			}
			came += n
			gone = append(gone, l.Position)
		}
		if _, err := m.ring.wire.Pipeline(ctx, m.ring.keys[source].dead, gone); err != nil {
			return came, fmt.Errorf("carry, shard %d: %w", source, err)
		}
	}
}

func (r *Ring) carryPage(ctx context.Context, source int) ([]Letter, error) {
	key := r.keys[source].dead
	replies, err := r.wire.PipelineOn(ctx, wire.Ordinary, source, key, wire.Command{"XRANGE", key, "-", "+", "COUNT", carryPage})
	if err != nil {
		return nil, fmt.Errorf("carry, shard %d: %w", source, err)
	}
	letters, err := wire.Entries(replies[0])
	if err != nil {
		return nil, fmt.Errorf("carry, shard %d: %w", source, err)
	}
	return letters, nil
}

func (r *Ring) carry(ctx context.Context, source int, l Letter) (int, error) {
	target := r.target(l.Field("account"))
	k := &r.keys[target]
	came, err := redis.Int(r.wire.Run(ctx, reshardCarryScript, target, []string{k.dead, k.carried, k.arrivals},
		append([]any{r.shardName(source), l.Position}, anyOf(l.Fields)...)...))
	if err == nil && came < 0 {
		err = fmt.Errorf("carry, shard %d: %w", target, errNotReceiving)
	}
	return max(0, came), err
}
