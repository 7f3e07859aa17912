package message

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/accounts/cursor"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

const (
	// tailPage is how many messages a follower is given at a time, and tailBytes
	// after how much data it is fewer.
	tailPage  = 256
	tailBytes = 256 << 10
	// tailAhead is how many messages are read of a shard at a time.
	tailAhead = 2
	// tailReaders is how many followers are read for at once: with the limits above it
	// bounds what they take of memory together, however far behind they are.
	tailReaders = 2
)

// Tail follows the messages of all shards from a position. However many tails a
// process has, they wait for new messages together and each message is read once
// for all that have got so far. One that is slower reads by itself, from its own
// position. Close it.
type Tail struct {
	reader   *Reader
	position Position
	watches  []*group.Watch
	ready    map[int]bool // shards that may have something
}

// Tail begins to follow behind a position.
func (r *Reader) Tail(from Position) (*Tail, error) {
	if len(from.at) != r.ring.Shards() {
		return nil, cursor.ErrInvalid
	}
	t := &Tail{reader: r, position: from.Clone(), ready: make(map[int]bool)}
	for shard := range from.at {
		t.watches = append(t.watches, group.Of(r.ring).Watch(shard))
	}
	t.Doubt()
	return t, nil
}

// Doubt has every shard looked at by the next Page.
func (t *Tail) Doubt() {
	for shard := range t.watches {
		t.ready[shard] = true
	}
}

// Page returns the messages that come next, as Messages does, and whether there may be
// more at once. The caller lets its position pass them.
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
	read := func(ctx context.Context, shard int, after circulate.StreamID) ([]circulate.Found, error) {
		return reads.read(ctx, t.reader.ring, shard, after)
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

// Await waits until there may be something for Page, but no longer than d, and
// reports whether there may be.
func (t *Tail) Await(ctx context.Context, d time.Duration) bool {
	if len(t.ready) > 0 {
		return true
	}
	woken := make(chan int, len(t.watches))
	leave := make([]func(), len(t.watches))
	for shard, w := range t.watches {
		leave[shard] = w.Park(t.position.at[shard].String(), func() { woken <- shard })
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

// Close ends it.
func (t *Tail) Close() {
	for _, w := range t.watches {
		w.Close()
	}
}
