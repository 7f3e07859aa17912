package backup

import (
	"context"
	"fmt"
	"io"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// loadAtOnce is how many accounts or messages one step writes, and loadBytes roughly
	// how many bytes.
	loadAtOnce = 256
	loadBytes  = 1 << 20
	// waitingBytes is roughly how many bytes wait for their steps, in all shards together.
	waitingBytes = 16 << 20
)

// Restoring says how a backup is restored.
type Restoring struct {
	Progress func(Counts) // called now and then with the counts so far; nil: not called
	// Open opens a box that was sealed with the given about; nil: credentials are left out.
	Open func(about string, box *secret.Box) ([]byte, error)
	// Object returns the name under which the store has the bytes of a kept file; nil: the name in the
	// backup.
	Object func(context.Context, *circulate.File) (string, error)
	// WithoutKeys leaves out the API's keys.
	WithoutKeys bool
}

// Restored is what Restore has read, and which part of it was not restored.
type Restored struct {
	Counts
	WithoutKeys int // keys that were left out as asked
	Unopened    int // credentials whose boxes did not open
	Expired     int // credentials that are no longer valid
}

// Restore writes a backup that Verify accepts into a ring whose namespace has neither accounts nor
// messages. The ring may have another number of shards than the backup. Steps of unknown outcome
// are not repeated: if Restore fails, remove the namespace and restore again.
func Restore(ctx context.Context, ring *circulate.Ring, in io.Reader, o Restoring) (Restored, error) {
	t := &target{ring: ring, shards: make([]waiting, ring.Shards()), options: o}
	r := newReader(in)
	err := r.read(func(l *line) error { return t.take(ctx, l, r) })
	if err == nil {
		err = t.flushAll(ctx)
	}
	if err == nil && t.groups != nil {
		err = t.groups.restore(ctx)
	}
	t.done.Counts = r.counts
	if err != nil {
		return t.done, fmt.Errorf("restore: %w", err)
	}
	if o.Progress != nil {
		o.Progress(r.counts)
	}
	return t.done, nil
}

// target is the ring to which a backup is written.
type target struct {
	ring    *circulate.Ring
	options Restoring
	shards  []waiting
	bytes   int
	groups  *groups // nil: there are none
	done    Restored
}

// waiting is what waits to be written to a shard.
type waiting struct {
	accounts []circulate.Archived
	messages []circulate.Found
	letters  []circulate.Letter
	bytes    int
	last     circulate.StreamID // the position of the last message
}

// take adds a line to what waits for its shard, and writes that once there is enough.
func (t *target) take(ctx context.Context, l *line, r *reader) error {
	if r.line%reportEvery == 0 && t.options.Progress != nil {
		t.options.Progress(r.counts)
	}
	switch {
	case l.Group != nil:
		p, err := l.Group.position()
		if err != nil {
			return err
		}
		if t.groups == nil {
			t.groups = &groups{archive: t.ring.Archive(), before: r.header.Shards, of: make(map[string]*groupReading)}
		}
		t.groups.add(p)
		return nil
	case l.Account != nil:
		a, err := l.Account.archived()
		if err != nil {
			return err
		}
		shard := t.ring.ShardOf(a.ID)
		t.shards[shard].accounts = append(t.shards[shard].accounts, a)
		return t.added(ctx, shard, len(a.Record)+len(a.Line)+len(a.Cursor)+len(a.Sends)+256)
	case l.Message != nil:
		f, at, err := l.Message.found()
		if err != nil {
			return err
		}
		shard := t.ring.ShardOf(f.Account)
		s := &t.shards[shard]
		was := at
		// Messages of two shards may have had the same position.
		if !s.last.Before(at) {
			at = s.last.Next()
			f.Position = at.String()
		}
		s.last = at
		s.messages = append(s.messages, f)
		if t.groups != nil {
			t.groups.message(f.Account, was, shard, at)
		}
		return t.added(ctx, shard, len(f.Message.Data)+256)
	case l.Dead == nil:
		return t.extra(ctx, l)
	}
	letter := circulate.Letter{Fields: make([]string, len(l.Dead.Fields))}
	size := 256
	for i, f := range l.Dead.Fields {
		letter.Fields[i] = string(f)
		size += len(f)
	}
	shard := t.ring.ShardOf(letter.Field("account"))
	t.shards[shard].letters = append(t.shards[shard].letters, letter)
	return t.added(ctx, shard, size)
}

// added counts an item that now waits for its shard, and writes waiting items once there are enough.
func (t *target) added(ctx context.Context, shard, size int) error {
	s := &t.shards[shard]
	s.bytes += size
	t.bytes += size
	if n := max(len(s.accounts), len(s.messages), len(s.letters)); n >= loadAtOnce || s.bytes >= loadBytes {
		t.bytes -= s.bytes
		return s.flush(ctx, t.ring, shard)
	}
	if t.bytes >= waitingBytes {
		return t.flushAll(ctx)
	}
	return nil
}

func (t *target) flushAll(ctx context.Context) error {
	t.bytes = 0
	return circulate.EachShard(ctx, len(t.shards), func(ctx context.Context, shard int) error {
		return t.shards[shard].flush(ctx, t.ring, shard)
	})
}

// flush writes what waits for a shard: accounts first, as in the backup.
func (s *waiting) flush(ctx context.Context, ring *circulate.Ring, shard int) error {
	if len(s.accounts) > 0 {
		if _, err := ring.Archive().Load(ctx, shard, s.accounts); err != nil {
			return err
		}
		if err := ring.Archive().LoadSends(ctx, shard, s.accounts); err != nil {
			return err
		}
	}
	if len(s.messages) > 0 {
		if err := ring.Archive().LoadMessages(ctx, shard, s.messages); err != nil {
			return err
		}
	}
	if len(s.letters) > 0 {
		if err := ring.Archive().LoadLetters(ctx, shard, s.letters); err != nil {
			return err
		}
	}
	*s = waiting{last: s.last}
	return nil
}
