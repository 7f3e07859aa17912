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
	return r.forward(ctx, from, r.allShards(), limit)
}

// allShards returns the numbers of the ring's shards.
func (r *Reader) allShards() []int {
	all := make([]int, r.ring.Shards())
	for shard := range all {
		all[shard] = shard
	}
	return all
}

// forward is Messages of some shards.
func (r *Reader) forward(ctx context.Context, from Position, shards []int, limit int) ([]circulate.Found, error) {
	if len(from.at) != r.ring.Shards() {
		return nil, cursor.ErrInvalid
	}
	limits := limitsOf(limit, len(shards))
	found, _, err := r.page(ctx, from, shards, limits, func(ctx context.Context, shard int, after circulate.StreamID) ([]circulate.Found, error) {
		return r.ring.Streams().Messages(ctx, shard, after.String(), limits.ahead)
	})
	return found, err
}

// limitsOf returns the limits of a page of up to limit messages of so many shards.
func limitsOf(limit, shards int) pageLimits {
	limit = max(1, min(limit, MaxLimit))
	return pageLimits{limit, pageBytes, min(limit/shards+1, max(8, aheadMessages/shards))}
}

// pageLimits are the most messages of a page, the bytes of data after which it ends early,
// and the number of messages that are read from a shard at a time.
type pageLimits struct{ messages, bytes, ahead int }

// streamReader returns the next messages of a shard behind a place.
type streamReader func(ctx context.Context, shard int, after circulate.StreamID) ([]circulate.Found, error)

// page returns the messages of some shards behind a position, and whether there may be
// more.
func (r *Reader) page(ctx context.Context, from Position, shards []int, limits pageLimits, read streamReader) ([]circulate.Found, bool, error) {
	sources := make([]source, len(shards))
	for i, shard := range shards {
		sources[i] = source{read: read, shard: shard, at: from.at[shard], ahead: limits.ahead}
	}
	return merged(ctx, sources, limits, circulate.StreamID.Before)
}

// merged returns the messages of some sources in an order of their ids, and whether there
// may be more.
func merged(ctx context.Context, sources []source, limits pageLimits, less func(a, b circulate.StreamID) bool) (page []circulate.Found, more bool, err error) {
	err = circulate.EachShard(ctx, len(sources), func(ctx context.Context, i int) error { return sources[i].fill(ctx) })
	if err != nil {
		return nil, false, err
	}
	order := merge{less: less}
	for i := range sources {
		if len(sources[i].found) > 0 {
			order.sources = append(order.sources, &sources[i])
		}
	}
	heap.Init(&order)
	for size := 0; len(page) < limits.messages && size < limits.bytes && order.Len() > 0; {
		s := order.sources[0]
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
	return page, order.Len() > 0, nil
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

// merge is a heap of sources, the one whose next message is the least first.
type merge struct {
	sources []*source
	less    func(a, b circulate.StreamID) bool
}

func (m *merge) Len() int           { return len(m.sources) }
func (m *merge) Less(i, j int) bool { return m.less(m.sources[i].at, m.sources[j].at) }
func (m *merge) Swap(i, j int)      { m.sources[i], m.sources[j] = m.sources[j], m.sources[i] }
func (m *merge) Push(x any)         { m.sources = append(m.sources, x.(*source)) }
func (m *merge) Pop() any {
	last := m.sources[len(m.sources)-1]
	m.sources = m.sources[:len(m.sources)-1]
	return last
}
