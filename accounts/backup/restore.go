package backup

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/rounds-dev/rounds/circulate"
)

const (
	// loadAtOnce is how many accounts or messages one step writes, and loadBytes about how
	// many bytes.
	loadAtOnce = 256
	loadBytes  = 1 << 20
	// heldBytes is about how many bytes wait for their steps, of all shards together.
	heldBytes = 16 << 20
)

// position returns how far the group was in the shard of the backup.
func (l *groupLine) position() (circulate.GroupPosition, error) {
	at, err := circulate.ParseStreamID(l.After)
	if err == nil {
		err = circulate.ValidateGroup(l.Name)
	}
	if err != nil || l.Shard < 0 {
		return circulate.GroupPosition{}, fmt.Errorf("group %q: shard %d, after %q: %w", l.Name, l.Shard, l.After, err)
	}
	return circulate.GroupPosition{Group: l.Name, Shard: l.Shard, After: at}, nil
}

// Restore writes a backup that Verify accepts into a ring whose namespace has neither
// accounts nor messages. The number of shards need not be that of the backup. Steps of unknown
// outcome are not repeated: if it fails, remove the namespace and restore again.
func Restore(ctx context.Context, ring *circulate.Ring, in io.Reader, progress func(Counts)) (Counts, error) {
	t := &target{ring: ring, shards: make([]held, ring.Shards()), progress: progress}
	r := &reader{in: bufio.NewReaderSize(in, 64<<10)}
	err := r.read(func(l *line) error { return t.take(ctx, l, r.counts) })
	if err == nil {
		err = t.flushAll(ctx)
	}
	if err == nil {
		err = t.restoreGroups(ctx, r.header.Shards)
	}
	if err != nil {
		return r.counts, fmt.Errorf("restore: %w", err)
	}
	if progress != nil {
		progress(r.counts)
	}
	return r.counts, nil
}

// target is the ring to which a backup is written.
type target struct {
	ring     *circulate.Ring
	shards   []held
	bytes    int
	lines    int
	groups   []circulate.GroupPosition
	progress func(Counts)
}

// held is what waits to be written to a shard.
type held struct {
	accounts []circulate.Archived
	messages []circulate.Found
	letters  []circulate.Letter
	bytes    int
	last     circulate.StreamID // the position of the last message
}

func (t *target) take(ctx context.Context, l *line, counts Counts) error {
	if t.lines++; t.lines%4096 == 0 && t.progress != nil {
		t.progress(counts)
	}
	switch {
	case l.Group != nil:
		p, err := l.Group.position()
		t.groups = append(t.groups, p)
		return err
	case l.Account != nil:
		a, err := l.Account.archived()
		if err != nil {
			return err
		}
		shard := t.ring.ShardOf(a.ID)
		t.shards[shard].accounts = append(t.shards[shard].accounts, a)
		return t.held(ctx, shard, len(a.Record)+len(a.Line)+len(a.Cursor)+256)
	case l.Message != nil:
		f, at, err := l.Message.found()
		if err != nil {
			return err
		}
		shard := t.ring.ShardOf(f.Account)
		s := &t.shards[shard]
		// Messages of two shards may have had the same position.
		if !s.last.Before(at) {
			at = s.last.Next()
			f.Position = at.String()
		}
		s.last = at
		s.messages = append(s.messages, f)
		return t.held(ctx, shard, len(f.Message.Data)+256)
	}
	letter := circulate.Letter{Fields: make([]string, len(l.Dead.Fields))}
	size := 256
	for i, f := range l.Dead.Fields {
		letter.Fields[i] = string(f)
		size += len(f)
	}
	shard := t.ring.ShardOf(letter.Account())
	t.shards[shard].letters = append(t.shards[shard].letters, letter)
	return t.held(ctx, shard, size)
}

// held counts what waits, and writes it when it is enough.
func (t *target) held(ctx context.Context, shard, size int) error {
	s := &t.shards[shard]
	s.bytes += size
	t.bytes += size
	if n := max(len(s.accounts), len(s.messages), len(s.letters)); n >= loadAtOnce || s.bytes >= loadBytes {
		t.bytes -= s.bytes
		return s.flush(ctx, t.ring, shard)
	}
	if t.bytes >= heldBytes {
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

// flush writes what waits for a shard: accounts first, as they stand in the backup.
func (s *held) flush(ctx context.Context, ring *circulate.Ring, shard int) error {
	if len(s.accounts) > 0 {
		if _, err := ring.Archive().Load(ctx, shard, s.accounts); err != nil {
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
	*s = held{last: s.last}
	return nil
}

// restoreGroups makes the consumer groups. In a shard a group begins where it was in the
// shard of the backup that had the messages. Where several shards had them, it begins at the
// earliest of these positions: it may get again what it has acknowledged, and misses nothing.
// It never begins behind the shard's last message, because the clock of another server may be
// behind, and what is found then must come after the position.
func (t *target) restoreGroups(ctx context.Context, before int) error {
	type place struct {
		group string
		shard int
	}
	after := make(map[place]circulate.StreamID)
	for _, g := range t.groups {
		for shard := range t.ring.Archive().Heirs(before, g.Shard) {
			p := place{g.Group, shard}
			if known, ok := after[p]; !ok || g.After.Before(known) {
				after[p] = g.After
			}
		}
	}
	for p, at := range after {
		if last := t.shards[p.shard].last; last.Before(at) {
			at = last
		}
		if _, err := t.ring.Streams().EnsureGroup(ctx, p.shard, p.group, at.String()); err != nil {
			return err
		}
	}
	return nil
}
