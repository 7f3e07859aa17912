package message

import (
	"container/heap"
	"context"

	"github.com/rounds-dev/rounds/accounts/cursor"
	"github.com/rounds-dev/rounds/circulate"
)

// aheadMessages is about the number of messages, each of up to 256 KiB, that are read ahead
// of a page over all shards.
const aheadMessages = 512

// Where a reader of messages may begin, besides an earlier position.
const (
	FromStart = "start" // with the oldest message that is kept
	FromNow   = "now"   // with the next message
)

// Position reads where a reader of messages begins: FromStart or an empty text, FromNow, or
// the text of an earlier Position. It returns cursor.ErrInvalid for any other text.
func (r *Reader) Position(ctx context.Context, from string) (Position, error) {
	p := r.atStart()
	switch from {
	case "", FromStart:
		return p, nil
	case FromNow:
		return p, circulate.EachShard(ctx, r.ring.Shards(), func(ctx context.Context, shard int) error {
			last, err := r.ring.Streams().Last(ctx, shard)
			if err == nil {
				p.at[shard], err = circulate.ParseStreamID(last)
			}
			return err
		})
	}
	p, err := ParsePosition(from)
	if err != nil {
		return p, err
	}
	return p.in(r.atStart())
}

// Messages returns up to limit found messages behind a position, about in the order in which
// they were written. The messages of one shard are exactly in that order. There may be more
// messages even if it returns fewer than limit. To go on, Pass the messages with the
// position. Messages returns cursor.ErrInvalid for a position of another number of shards.
func (r *Reader) Messages(ctx context.Context, from Position, limit int) ([]circulate.Found, error) {
	shards := r.ring.Shards()
	if len(from.at) != shards {
		return nil, cursor.ErrInvalid
	}
	limit = max(1, min(limit, MaxLimit))
	all := make([]int, shards)
	for shard := range all {
		all[shard] = shard
	}
	ahead := min(limit/shards+1, max(8, aheadMessages/shards))
	found, _, err := r.page(ctx, from, all, pageLimits{limit, pageBytes, ahead}, func(ctx context.Context, shard int, after circulate.StreamID) ([]circulate.Found, error) {
		return r.ring.Streams().Messages(ctx, shard, after.String(), ahead)
	})
	return found, err
}

// pageLimits are the most messages of a page, the bytes of data after which it ends early,
// and the number of messages that are read from a shard at a time.
type pageLimits struct{ messages, bytes, ahead int }

// streamReader returns the next messages of a shard behind a place.
type streamReader func(ctx context.Context, shard int, after circulate.StreamID) ([]circulate.Found, error)

// page returns the messages of some shards behind a position, and whether there may be
// more.
func (r *Reader) page(ctx context.Context, from Position, shards []int, limits pageLimits, read streamReader) (page []circulate.Found, more bool, err error) {
	sources := make([]source, len(shards))
	err = circulate.EachShard(ctx, len(shards), func(ctx context.Context, i int) error {
		sources[i] = source{read: read, shard: shards[i], at: from.at[shards[i]], ahead: limits.ahead}
		return sources[i].fill(ctx)
	})
	if err != nil {
		return nil, false, err
	}
	var order merge
	for i := range sources {
		if len(sources[i].found) > 0 {
			order = append(order, &sources[i])
		}
	}
	heap.Init(&order)
	for size := 0; len(page) < limits.messages && size < limits.bytes && len(order) > 0; {
		s := order[0]
		page = append(page, s.found[0])
		size += len(s.found[0].Message.Data)
		if err := s.advance(ctx); err != nil {
			return nil, false, err
		}
		if len(s.found) == 0 {
			heap.Pop(&order)
		} else {
			heap.Fix(&order, 0)
		}
	}
	return page, len(order) > 0, nil
}

// source reads the messages of one shard, a few at a time.
type source struct {
	read  streamReader
	shard int
	at    circulate.StreamID // of found[0], or of the last message before if found is empty
	ahead int
	found []circulate.Found
	more  bool
}

func (s *source) fill(ctx context.Context) error {
	var err error
	s.found, err = s.read(ctx, s.shard, s.at)
	s.more = len(s.found) == s.ahead
	return s.place(err)
}

func (s *source) advance(ctx context.Context) error {
	s.found = s.found[1:]
	if len(s.found) == 0 && s.more {
		return s.fill(ctx)
	}
	return s.place(nil)
}

// place sets at to the place of the first message.
func (s *source) place(err error) error {
	if err == nil && len(s.found) > 0 {
		s.at, err = circulate.ParseStreamID(s.found[0].Position)
	}
	return err
}

// merge is a heap of sources, the one with the oldest message first.
type merge []*source

func (m merge) Len() int           { return len(m) }
func (m merge) Less(i, j int) bool { return m[i].at.Before(m[j].at) }
func (m merge) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *merge) Push(x any)        { *m = append(*m, x.(*source)) }
func (m *merge) Pop() any {
	old := *m
	last := old[len(old)-1]
	*m = old[:len(old)-1]
	return last
}
