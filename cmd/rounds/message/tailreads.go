package message

import (
	"context"
	"sync"

	"github.com/rounds-dev/rounds/circulate"
)

// sharedBytes is the most data that tails store for each other.
const sharedBytes = 4 << 20

// tailReads stores what tails have read from the streams, so that another tail at the same place
// need not read it again. A stream only grows at its end, so what follows a message never changes.
type tailReads struct {
	once  sync.Once
	slots chan struct{}

	mu       sync.Mutex
	reads    map[tailPlace]*tailRead
	finished []tailPlace // the oldest first
	bytes    int         // of finished reads
}

// tailPlace is where a read begins.
type tailPlace struct {
	shard int
	after circulate.StreamID
}

type tailRead struct {
	done  chan struct{}
	found []circulate.Found
	err   error
}

// enter waits for a slot to read.
func (t *tailReads) enter(ctx context.Context) error {
	t.once.Do(func() { t.slots, t.reads = make(chan struct{}, tailReaders), make(map[tailPlace]*tailRead) })
	select {
	case t.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *tailReads) leave() { <-t.slots }

// read returns the messages that follow a place, from an earlier read if there was one.
func (t *tailReads) read(ctx context.Context, ring *circulate.Ring, shard int, after circulate.StreamID) ([]circulate.Found, error) {
	place := tailPlace{shard, after}
	t.mu.Lock()
	r := t.reads[place]
	if r != nil {
		t.mu.Unlock()
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if r.err == nil {
			return r.found, nil
		}
		return ring.Streams().Messages(ctx, shard, after.String(), tailAhead) // the other reader may have gone away
	}
	r = &tailRead{done: make(chan struct{})}
	t.reads[place] = r
	t.mu.Unlock()
	r.found, r.err = ring.Streams().Messages(ctx, shard, after.String(), tailAhead)
	close(r.done)
	t.retain(place, r)
	return r.found, r.err
}

// retain stores a read that found messages, and drops the oldest reads beyond sharedBytes.
func (t *tailReads) retain(place tailPlace, r *tailRead) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.err != nil || len(r.found) == 0 {
		delete(t.reads, place)
		return
	}
	t.finished = append(t.finished, place)
	t.bytes += r.size()
	for t.bytes > sharedBytes {
		oldest := t.finished[0]
		t.finished = t.finished[1:]
		t.bytes -= t.reads[oldest].size()
		delete(t.reads, oldest)
	}
}

// size returns roughly how many bytes of memory a read takes.
func (r *tailRead) size() (bytes int) {
	const overhead = 256 // of a message: its account, ids and times
	for i := range r.found {
		bytes += overhead + len(r.found[i].Message.Data)
	}
	return bytes
}
