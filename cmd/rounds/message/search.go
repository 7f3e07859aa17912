package message

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// searchAhead is the most messages that a search reads of a shard at a time. It reads fewer of
	// large ones: about searchBytes in all shards together.
	searchAhead = 256
	searchBytes = 8 << 20
	// searchRest is the time of reading after which a search rests until Redis was left alone for as
	// long, so that it takes Redis for at most half of the time. What it does with the messages
	// meanwhile is a part of the rest.
	searchRest = 5 * time.Millisecond
)

// Search is a way through the stored messages of a ring, the newest first, that goes far. Unlike a
// Walk it remembers what it has read ahead, and leaves Redis time for others. It is not safe for
// concurrent use.
type Search struct {
	reader   *Reader
	shards   []int
	since    circulate.StreamID
	position Position
	sources  []source
	order    *merge // nil: nothing was read yet

	held int           // bytes of data that were read ahead
	debt time.Duration // time of reading that Redis was not yet left alone for
	read time.Time     // when the last reading ended
}

// WrittenBefore returns the position behind all messages that were written before a time of Redis' clock.
func (r *Reader) WrittenBefore(t time.Time) Position {
	p := r.atStart()
	for shard := range p.at {
		if id := circulate.StreamIDAt(t); id != (circulate.StreamID{}) {
			p.at[shard] = id.Previous()
		}
	}
	return p
}

// Search returns a search that begins with the last message that is not after the position, and
// ends before messages that were written before since; zero: with the oldest message. It looks at
// the shards that may have messages of the account, or at all if account is empty. It returns
// accounts.ErrCursor for a position of another number of shards.
func (r *Reader) Search(from Position, account string, since time.Time) (*Search, error) {
	if len(from.at) != r.ring.Shards() {
		return nil, accounts.ErrCursor
	}
	s := &Search{reader: r, shards: r.shardsOf(Filter{Account: account}), position: from.Clone()}
	if !since.IsZero() {
		s.since = circulate.StreamIDAt(since)
	}
	return s, nil
}

// Position returns where the search is: before the last message that was passed.
func (s *Search) Position() Position { return s.position.Clone() }

// Pass moves the search past a message that Next returned.
func (s *Search) Pass(f *circulate.Found) error { return s.position.retreat(f) }

// Stored returns how many messages and events are stored in the shards of the search.
func (s *Search) Stored(ctx context.Context) (int, error) {
	return s.reader.ring.Streams().Stored(ctx, s.shards)
}

// Next returns the next messages, at most limit, and none at the end. Events are among them.
func (s *Search) Next(ctx context.Context, limit int) (page []circulate.Found, err error) {
	if s.order == nil {
		if err := s.begin(ctx); err != nil {
			return nil, err
		}
	}
	for len(page) < limit && s.order.Len() > 0 {
		first := s.order.sources[0]
		if first.at.Before(s.since) {
			s.order.sources = nil // all others are older
			break
		}
		page = append(page, first.found[0])
		s.held -= len(first.found[0].Message.Data)
		first.found = first.found[1:]
		if len(first.found) == 0 && first.more {
			err = s.fill(ctx, first)
		} else {
			err = first.place()
		}
		if err != nil {
			return nil, err
		}
		if len(first.found) == 0 {
			heap.Pop(s.order)
		} else {
			heap.Fix(s.order, 0)
		}
	}
	return page, nil
}

// begin reads the first messages of all shards.
func (s *Search) begin(ctx context.Context) error {
	for _, shard := range s.shards {
		if at := s.position.at[shard]; at != (circulate.StreamID{}) {
			s.sources = append(s.sources, source{shard: shard, back: true, at: at.Next(), ahead: s.least()})
		}
	}
	all := make([]*source, len(s.sources))
	for i := range s.sources {
		all[i] = &s.sources[i]
	}
	if err := s.fill(ctx, all...); err != nil {
		return err
	}
	s.order = &merge{less: func(a, b circulate.StreamID) bool { return b.Before(a) }}
	s.order.sources = slices.DeleteFunc(all, func(one *source) bool { return len(one.found) == 0 })
	heap.Init(s.order)
	return nil
}

// least is how many messages are read of a shard whose messages may be large.
func (s *Search) least() int { return max(1, min(8, aheadMessages/len(s.shards))) }

// fill reads on in some shards, and decides by the size of what came how much is read next.
func (s *Search) fill(ctx context.Context, sources ...*source) error {
	s.debt = max(0, s.debt-time.Since(s.read))
	if s.debt >= searchRest {
		rest := time.NewTimer(s.debt)
		defer rest.Stop()
		select {
		case <-rest.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		s.debt = 0
	}
	began := time.Now()
	read := streamReader(s.reader.ring.Streams().Stretches)
	if err := read.fill(ctx, sources...); err != nil {
		return err
	}
	s.read = time.Now()
	s.debt += s.read.Sub(began)
	for _, one := range sources {
		size := 0
		for i := range one.found {
			size += len(one.found[i].Message.Data)
		}
		s.held += size
		one.ahead = s.least()
		if n := len(one.found); n > 0 && s.held < 2*searchBytes {
			fit := searchBytes / len(s.shards) / max(1, size/n)
			one.ahead = max(one.ahead, min(fit, 4*n, searchAhead))
		}
	}
	return nil
}
