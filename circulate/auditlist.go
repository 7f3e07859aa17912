package circulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	listChunk    = 1000 // entries read at a time
	listAttempts = 10   // before a list counts as changing too fast
)

// lists reads the shard's lists. Suspects are accounts that should be in a list and are
// not, and accounts that are in a list and in another place too.
func (a *audit) lists(ctx context.Context) error {
	seen, garbage, whole, err := a.readLists(ctx)
	if err != nil {
		return err
	}
	for s := range a.travelling {
		if whole && seen[s] != 1 {
			a.suspects[s] = true
		}
	}
	if !whole {
		a.found.Unjudged += len(a.travelling)
	}
	for s := range seen {
		if !a.travelling[s] {
			a.suspects[s] = true // most such entries are void; judge finds out
		}
	}
	for _, text := range garbage {
		a.report(Garbage, clip(text), false)
	}
	return nil
}

// judge confirms suspects and repairs them.
func (a *audit) judge(ctx context.Context) error {
	var again []suspect
	batch := make([]suspect, 0, auditSuspects)
	flush := func(seen map[suspect]int) error {
		if len(batch) == 0 {
			return nil
		}
		args := []any{"judge", auditShort}
		for _, s := range batch {
			args = append(args, s.id, s.ticket)
		}
		reply, err := redis.Ints(a.look(ctx, args...))
		if err != nil {
			return err
		}
		if len(reply) != len(batch)+1 {
			return wire.ErrReply
		}
		for i, s := range batch {
			n := reply[i+1]
			switch {
			case n < 0:
				continue
			case reply[0] == 0 && seen == nil:
				again = append(again, s)
				continue
			case reply[0] == 0:
				n += seen[s]
			}
			if n != 1 {
				kind := Lost
				if n > 1 {
					kind = Doubled
				}
				if err := a.repair(ctx, kind, "settle", s.id, s.ticket); err != nil {
					return err
				}
			}
		}
		batch = batch[:0]
		return nil
	}
	for s := range a.suspects {
		if batch = append(batch, s); len(batch) == auditSuspects {
			if err := flush(nil); err != nil {
				return err
			}
		}
	}
	if err := flush(nil); err != nil || len(again) == 0 {
		return err
	}
	seen, _, whole, err := a.readLists(ctx)
	if err != nil {
		return err
	}
	if !whole {
		a.found.Unjudged += len(again)
		return nil
	}
	for part := range slices.Chunk(again, auditSuspects) {
		batch = append(batch[:0], part...)
		if err := flush(seen); err != nil {
			return err
		}
	}
	return nil
}

// readLists reads processing_list and then the lanes of message_queue. It returns how
// many entries each account has in them under each ticket. Identical entries of one list
// count once. message_queue:by_kind counts as one more list, because an account stays
// in it while its ticket is current. Whole is false if a list changed too fast.
func (a *audit) readLists(ctx context.Context) (seen map[suspect]int, garbage []string, whole bool, err error) {
	seen = make(map[suspect]int)
	k := a.keys
	for _, key := range []string{k.processing, k.urgent, k.queue, k.low} {
		texts, ok, err := a.readList(ctx, key)
		if err != nil || !ok {
			return nil, nil, false, err
		}
		garbage = append(garbage, count(texts, seen)...)
	}
	texts, err := a.readByKind(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	garbage = append(garbage, count(texts, seen)...)
	return seen, garbage, true, nil
}

// count adds the entries of a list to seen, and returns the other texts.
func count(texts map[string]bool, seen map[suspect]int) (garbage []string) {
	for text := range texts {
		if _, err := ParseEntry(text); err != nil {
			garbage = append(garbage, text)
			continue
		}
		seen[suspect{text[idOffset:], text[:ticketWidth]}]++
	}
	return garbage
}

// readByKind reads the entries of message_queue:by_kind.
func (a *audit) readByKind(ctx context.Context) (map[string]bool, error) {
	texts := make(map[string]bool)
	for cursor := ScanDone; ; {
		replies, err := a.ring.wire.PipelineOn(ctx, wire.Ordinary, a.shard, a.keys.byKind, wire.Command{"ZSCAN", a.keys.byKind, cursor, "COUNT", listChunk})
		if err != nil {
			return nil, err
		}
		var pairs []string
		page, err := redis.Values(replies[0], nil)
		if err == nil {
			_, err = redis.Scan(page, &cursor, &pairs)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", wire.ErrReply, err)
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			texts[waitingEntry(pairs[i])] = true
		}
		if cursor == ScanDone {
			return texts, nil
		}
	}
}

// readList reads a list in chunks, each from where the last one ended. Entries keep their
// order whatever is pushed or removed meanwhile. So if a chunk contains the last entry of
// the chunk before, everything that stayed in the list has been read. If it does not, an
// earlier entry was removed, and the reading starts over.
func (a *audit) readList(ctx context.Context, key string) (texts map[string]bool, whole bool, err error) {
	for range listAttempts {
		texts = make(map[string]bool)
		last, at := "", 0
		for {
			replies, err := a.ring.wire.PipelineOn(ctx, wire.Ordinary, a.shard, key, wire.Command{"LRANGE", key, at, at + listChunk - 1})
			if err != nil {
				return nil, false, err
			}
			chunk, err := redis.Strings(replies[0], nil)
			if err != nil {
				return nil, false, fmt.Errorf("%w: %w", wire.ErrReply, err)
			}
			if last != "" && !slices.Contains(chunk, last) {
				break
			}
			for _, text := range chunk {
				texts[text] = true
			}
			if len(chunk) < listChunk {
				return texts, true, nil
			}
			// No pause here: the longer a reading takes, the more changes during it.
			last, at = chunk[len(chunk)-1], at+len(chunk)-1
		}
	}
	return nil, false, nil
}

// strangers looks at every id that is scheduled, parked or has a record, and finds those
// that are not registered.
func (a *audit) strangers(ctx context.Context) error {
	orphans := make(map[string]bool)
	k := a.keys
	lengths, err := a.ring.wire.Pipeline(ctx, k.tickets, wire.Command{"HLEN", k.tickets}, wire.Command{"HLEN", k.accounts})
	if err != nil {
		return err
	}
	for _, key := range []struct{ number, page int }{{4, auditRecords}, {2, auditPage}, {3, auditPage}} {
		if key.number == 4 && !a.o.Records && lengths[0] == lengths[1] {
			continue
		}
		seen := make(map[string]bool)
		for cursor := ScanDone; ; {
			before := a.repairs
			reply, err := a.ask(ctx, key.number, cursor, key.page)
			if err != nil {
				return err
			}
			var pairs [][]byte
			if _, err := redis.Scan(reply, &cursor, &pairs); err != nil {
				return errors.Join(wire.ErrReply, err)
			}
			var now time.Time
			if key.number == 4 && len(pairs) > 0 {
				if now, err = a.ring.Now(ctx, a.shard); err != nil {
					return err
				}
			}
			for i := 0; i+1 < len(pairs); i += 2 {
				id := string(pairs[i])
				switch {
				case key.number != 4:
					orphans[id] = true
				case !seen[id]:
					seen[id] = true
					if err := a.restore(ctx, id, pairs[i+1], now); err != nil {
						return err
					}
				}
			}
			if a.repairs == before {
				if err := a.pause(ctx); err != nil {
					return err
				}
			}
			if cursor == ScanDone {
				break
			}
		}
		for id := range seen {
			orphans[id] = false // reported by its record
		}
	}
	for id, orphan := range orphans {
		if orphan {
			if err := a.repair(ctx, Orphan, "drop", id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *audit) restore(ctx context.Context, id string, record []byte, now time.Time) error {
	var item Registration
	if a.o.Registration != nil {
		item = a.o.Registration(id, record, now)
	}
	return a.repair(ctx, Lost, "restore", id, max(0, item.Due.UnixMilli()), item.Priority.lane())
}
