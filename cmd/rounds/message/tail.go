package message

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

const (
	// tailPage is the most messages of a page, and tailBytes the amount of data after
	// which a page ends early.
	tailPage  = 256
	tailBytes = 256 << 10
	// tailAhead is the number of messages that are read from a shard at a time.
	tailAhead = 2
	// tailReaders is the number of tails that read at once. Together with the limits above
	// it bounds the memory of all tails, however far behind they are.
	tailReaders = 2
)

// Tail follows the messages of shards from a position. All tails of a process wait for new messages
// together, and a message is read once for all tails that have come to it. A slower tail reads from
// its own position. The caller must close the tail.
type Tail struct {
	reader   *Reader
	position Position
	watches  map[int]*group.Watch // by shard
	ready    map[int]bool         // shards that may have messages
}

// Tail returns a tail that begins after a position. It follows the shards that may have messages
// which the filter selects, and returns all messages of these shards: the caller must leave out the
// others. It returns accounts.ErrCursor for a position of another number of shards.
func (r *Reader) Tail(from Position, f Filter) (*Tail, error) {
	if len(from.at) != r.ring.Shards() {
		return nil, accounts.ErrCursor
	}
	t := &Tail{reader: r, position: from.Clone(), watches: make(map[int]*group.Watch), ready: make(map[int]bool)}
	for _, shard := range r.shardsOf(f) {
		t.watches[shard] = group.Of(r.ring).Watch(shard)
	}
	t.Doubt()
	return t, nil
}

// Doubt makes the next Page look at every shard that the tail follows.
func (t *Tail) Doubt() {
	for shard := range t.watches {
		t.ready[shard] = true
	}
}

// Page returns the next messages, as Messages does, and reports whether there may already be more.
// The caller's own position must Pass them.
func (t *Tail) Page(ctx context.Context) (found []circulate.Found, more bool, err error) {
	if len(t.ready) == 0 {
		return nil, false, nil
	}
	reads := &t.reader.tails
	if err := reads.enter(ctx); err != nil {
		return nil, false, err
	}
	defer reads.leave()
	shards := make([]int, 0, len(t.ready))
	for shard := range t.ready {
		shards = append(shards, shard)
	}
	read := func(ctx context.Context, all []circulate.Stretch) ([][]circulate.Found, error) {
		found := make([][]circulate.Found, len(all))
		return found, circulate.EachShard(ctx, len(all), func(ctx context.Context, i int) error {
			after, err := circulate.ParseStreamID(all[i].From)
			if err == nil {
				found[i], err = reads.read(ctx, t.reader.ring, all[i].Shard, after)
			}
			return err
		})
	}
	found, more, err = t.reader.page(ctx, t.position, shards, pageLimits{tailPage, tailBytes, tailAhead}, read)
	if err != nil {
		return nil, false, err
	}
	for i := range found {
		if err := t.position.Pass(&found[i]); err != nil {
			return nil, false, err
		}
	}
	if !more {
		clear(t.ready)
	}
	return found, more, nil
}

// Await waits until there may be messages for Page, but at most for d, and reports
// whether there may be.
func (t *Tail) Await(ctx context.Context, d time.Duration) bool {
	if len(t.ready) > 0 {
		return true
	}
	woken := make(chan int, len(t.watches))
	leave := make([]func(), 0, len(t.watches))
	for shard, w := range t.watches {
		leave = append(leave, w.Expect(t.position.at[shard].String(), func() { woken <- shard }))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case shard := <-woken:
		t.ready[shard] = true
	case <-timer.C:
	case <-ctx.Done():
	}
	for _, leave := range leave {
		leave()
	}
	for len(woken) > 0 {
		t.ready[<-woken] = true
	}
	return len(t.ready) > 0
}

// Close ends the tail.
func (t *Tail) Close() {
	for _, w := range t.watches {
		w.Close()
	}
}
