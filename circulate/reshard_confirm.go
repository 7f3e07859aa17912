package circulate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed reshard_kept.lua
var reshardKeptLua string

var reshardKeptScript = wire.NewScript("kept", reshardKeptLua)

const (
	// KeptFor is how long copies of accounts that have arrived are kept in the shard that
	// they left.
	KeptFor = 5 * time.Second

	keptPage = 64 // copies that one step looks at, about
)

// copies is how many bytes of accounts each old shard keeps after they have arrived, as
// far as one ring knows.
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

// Copies returns how many bytes the old shards keep of accounts that have arrived
// elsewhere: what this ring has moved since its last Confirm, and what it saw then. Only
// Confirm frees them.
func (m Mover) Copies() (bytes int) {
	m.ring.copies.mu.Lock()
	defer m.ring.copies.mu.Unlock()
	for _, n := range m.ring.copies.in {
		bytes += n
	}
	return bytes
}

// ConfirmCopies is Confirm for each old shard in which this ring knows copies.
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

// Confirm deletes the copies of accounts of an old shard that arrived at least KeptFor
// ago, if their new shard still knows them. Other accounts of the shard may move
// meanwhile. If the new shard has lost accounts, because its Redis lost its last writes,
// they arrive once more.
func (m Mover) Confirm(ctx context.Context, source int) error {
	young := 0
	for cursor := ScanDone; ; {
		reply, err := redis.Values(m.ring.wire.Run(ctx, reshardKeptScript, source, []string{m.ring.keys[source].departed}, cursor, keptPage, KeptFor.Milliseconds()))
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

// confirm deletes copies, pairs of field and first account, or has the accounts arrive
// once more. A batch arrives as a whole, so one of its accounts stands for all.
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
		forget := wire.Command{"HDEL", k.departed}
		for j, i := range places {
			if known[j] == int64(0) {
				if err := r.again(ctx, source, target, copies[i]); err != nil {
					return err
				}
				continue
			}
			forget = append(forget, copies[i])
		}
		if len(forget) == 2 {
			continue
		}
		if _, err := r.wire.Pipeline(ctx, k.departed, forget); err != nil {
			return fmt.Errorf("confirm, shard %d: %w", source, err)
		}
	}
	return nil
}

// again has the accounts of a copy arrive that their new shard has lost.
func (r *Ring) again(ctx context.Context, source, target int, field string) error {
	departed := r.keys[source].departed
	replies, err := r.wire.Pipeline(ctx, departed, wire.Command{"TIME"}, wire.Command{"HGET", departed, field})
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
	if _, err := r.arrive(ctx, field, kept[14:]); err != nil {
		return err
	}
	r.log.Warn("accounts were lost by the shard that they had moved to, and are there again", "shard", target)
	if _, err := r.wire.Pipeline(ctx, departed, wire.Command{"HSET", departed, field, fmt.Sprintf("%013d|%s", now.UnixMilli(), kept[14:])}); err != nil {
		return fmt.Errorf("confirm, shard %d: %w", source, err)
	}
	return nil
}
