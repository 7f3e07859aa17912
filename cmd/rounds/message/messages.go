package message

import (
	"container/heap"
	"context"
	"math"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// aheadMessages is roughly the number of messages, each of up to 256 KiB, that are read ahead of a
// page in all shards together.
const aheadMessages = 512

// These are the places where a reader of messages may begin, besides an earlier position.
const (
	FromStart = "start" // with the oldest stored message
	FromNow   = "now"   // with the next message
)

// Position reads where a reader of messages begins: FromStart or an empty text, FromNow, or
// the text of an earlier Position. It returns accounts.ErrCursor for any other text.
func (r *Reader) Position(ctx context.Context, from string) (Position, error) {
	p := r.atStart()
	switch from {
	case "", FromStart:
		return p, nil
	case FromNow:
		return p, r.toNow(ctx, p)
	}
	p, err := parsePosition(from)
	if err != nil {
		return p, err
	}
	return p.in(r.atStart())
}

// toNow moves a position past the newest message of each shard.
func (r *Reader) toNow(ctx context.Context, p Position) error {
	newest := make([]circulate.Stretch, r.ring.Shards())
	for shard := range newest {
		newest[shard] = circulate.Stretch{Shard: shard, From: circulate.StreamID{Ms: math.MaxUint64, Seq: math.MaxUint64}.String(), Back: true, N: 1}
	}
	found, err := r.ring.Streams().Stretches(ctx, newest)
	if err != nil {
		return err
	}
	for shard, last := range found {
		if len(last) > 0 {
			if p.at[shard], err = circulate.ParseStreamID(last[0].Position); err != nil {
				return err
			}
		}
	}
	return nil
}

// Messages returns up to limit found messages after a position, roughly in the order in which they
// were written. The messages of one shard are exactly in that order. There may be more messages
// even if it returns fewer than limit. To go on, Pass the messages with the position. Messages
// returns accounts.ErrCursor for a position of another number of shards.
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
		return nil, accounts.ErrCursor
	}
	limits := limitsOf(limit, len(shards))
	found, _, err := r.page(ctx, from, shards, limits, r.ring.Streams().Stretches)
	return found, err
}

// limitsOf returns the limits of a page of up to limit messages of the given number of shards.
func limitsOf(limit, shards int) pageLimits {
	limit = max(1, min(limit, MaxLimit))
	ahead := limit/shards + 1
	if shards > 1 {
		ahead += spareMessages // shards differ, and a shard that runs out is read again on its own
	}
	return pageLimits{limit, pageBytes, min(ahead, max(8, aheadMessages/shards))}
}

// spareMessages is how many more messages than its share are read ahead from a shard.
const spareMessages = 3

// pageLimits are the most messages of a page, the bytes of data after which it ends early,
// and the number of messages that are read from a shard at a time.
type pageLimits struct{ messages, bytes, ahead int }

// streamReader reads parts of shards' streams.
type streamReader func(ctx context.Context, all []circulate.Stretch) ([][]circulate.Found, error)

// page returns the messages of some shards after a position, and whether there may be
// more.
func (r *Reader) page(ctx context.Context, from Position, shards []int, limits pageLimits, read streamReader) ([]circulate.Found, bool, error) {
	sources := make([]source, len(shards))
	for i, shard := range shards {
		sources[i] = source{shard: shard, at: from.at[shard], ahead: limits.ahead}
	}
	return merged(ctx, read, sources, limits, circulate.StreamID.Before)
}

// merged returns the messages of some sources in an order of their ids, and whether there
// may be more.
func merged(ctx context.Context, read streamReader, sources []source, limits pageLimits, less func(a, b circulate.StreamID) bool) (page []circulate.Found, more bool, err error) {
	all := make([]*source, len(sources))
	for i := range sources {
		all[i] = &sources[i]
	}
	if err := read.fill(ctx, all...); err != nil {
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
		s.found = s.found[1:]
		if len(s.found) == 0 && s.more {
			err = read.fill(ctx, s)
		} else {
			err = s.place()
		}
		if err != nil {
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
	shard int
	back  bool               // it reads older messages, the newest first
	at    circulate.StreamID // of found[0], or of the last message before if found is empty
	ahead int
	found []circulate.Found
	more  bool
}

// fill reads the next messages of some sources.
func (read streamReader) fill(ctx context.Context, sources ...*source) error {
	next := make([]circulate.Stretch, len(sources))
	for i, s := range sources {
		next[i] = circulate.Stretch{Shard: s.shard, From: s.at.String(), Back: s.back, N: s.ahead}
	}
	found, err := read(ctx, next)
	if err != nil {
		return err
	}
	for i, s := range sources {
		s.found, s.more = found[i], len(found[i]) == s.ahead
		if err := s.place(); err != nil {
			return err
		}
	}
	return nil
}

// place sets at to the place of the first message.
func (s *source) place() (err error) {
	if len(s.found) > 0 {
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
