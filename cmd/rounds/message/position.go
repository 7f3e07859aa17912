package message

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// Position is how far a reader of messages has come: a place in the stream of each shard. Its text
// is opaque to callers, and stays valid when either side restarts.
type Position struct {
	at []circulate.StreamID // of the last message read, by shard

	generation int // of the shards that accounts are in, or move to
	sources    int // the number of shards, the first ones, that accounts leave

	// These fields are set only in a ring's start: the generation of the shards that
	// accounts are in or leave, and the last later generation that was begun and aborted.
	base, abandoned int
}

// Pass moves the position past a message of its shard.
func (p *Position) Pass(f *circulate.Found) error {
	id, err := circulate.ParseStreamID(f.Position)
	if err != nil {
		return err
	}
	p.at[f.Shard] = id
	return nil
}

// retreat moves the position before a message of its shard.
func (p *Position) retreat(f *circulate.Found) error {
	id, err := circulate.ParseStreamID(f.Position)
	if err != nil {
		return err
	}
	p.at[f.Shard] = id.Previous()
	return nil
}

// Clone returns an independent copy.
func (p *Position) Clone() Position {
	return Position{at: slices.Clone(p.at), generation: p.generation, sources: p.sources}
}

// String returns the position as parsePosition reads it: the number of shards, the newest
// time, and for each shard how much older its own time is, and its sequence number. Zero
// stands for the start of a stream.
func (p *Position) String() string {
	var newest uint64
	for _, id := range p.at {
		newest = max(newest, id.Ms)
	}
	content := make([]byte, 0, 24+6*len(p.at))
	if p.generation > 0 {
		content = append(content, 0) // no ring has 0 shards: the number of shards changed, and a generation follows
		content = binary.AppendUvarint(content, uint64(p.generation))
		content = binary.AppendUvarint(content, uint64(p.sources))
	}
	content = binary.AppendUvarint(content, uint64(len(p.at)))
	content = binary.AppendUvarint(content, newest)
	for _, id := range p.at {
		if id == (circulate.StreamID{}) {
			content = append(content, 0)
			continue
		}
		content = binary.AppendUvarint(content, newest-id.Ms+1)
		content = binary.AppendUvarint(content, id.Seq)
	}
	return accounts.SealCursor(accounts.CursorPosition, content)
}

// parsePosition reads exactly the texts that String returns. Its error is accounts.ErrCursor.
func parsePosition(text string) (Position, error) {
	content, err := accounts.UnsealCursor(accounts.CursorPosition, text)
	if err != nil {
		return Position{}, err
	}
	malformed := fmt.Errorf("%w: it is malformed", accounts.ErrCursor)
	number := func() uint64 {
		v, n := binary.Uvarint(content)
		if n <= 0 {
			err = malformed
			return 0
		}
		content = content[n:]
		return v
	}
	shards := number()
	var generation, sources uint64
	if shards == 0 {
		generation, sources, shards = number(), number(), number()
	}
	newest := number()
	if err != nil || shards == 0 || shards > 2*circulate.MaxShards || newest > math.MaxInt64 ||
		generation > math.MaxInt32 || sources >= shards {
		return Position{}, malformed
	}
	p := Position{at: make([]circulate.StreamID, shards), generation: int(generation), sources: int(sources)}
	for i := range p.at {
		older := number()
		if older == 0 {
			continue
		}
		if older-1 > newest {
			return Position{}, malformed
		}
		p.at[i] = circulate.StreamID{Ms: newest - (older - 1), Seq: number()}
		if p.at[i].Seq > math.MaxInt64 {
			return Position{}, malformed
		}
	}
	if err != nil || len(content) > 0 || p.String() != text {
		return Position{}, malformed
	}
	return p, nil
}

// atStart returns the position before all messages of the ring's shards.
func (r *Reader) atStart() Position {
	base, abandoned := r.ring.Base()
	return Position{make([]circulate.StreamID, r.ring.Shards()), r.ring.Generation(), r.ring.Sources(), base, abandoned}
}

// in returns the position in a ring with the given start. The number of shards may have changed
// since the position was made. The reader begins new shards at their start. Old shards that are
// gone had nothing left for it, or were dropped with their messages.
func (p Position) in(start Position) (Position, error) {
	if p.sources > 0 && start.base < p.generation && p.generation <= start.abandoned {
		// The position has shards of an aborted change, which never had a message.
		p = Position{at: p.at[:p.sources], generation: start.base}
	}
	shards, lasting := len(p.at), len(p.at)-p.sources
	switch {
	case p.generation > start.generation:
		// Another process already knows of the change. This one will in a moment.
		return Position{}, circulate.ErrResharding
	case p.generation == start.generation:
		if lasting != len(start.at)-start.sources || p.sources > 0 && start.sources > 0 && p.sources != start.sources {
			return Position{}, fmt.Errorf("%w: it is of %d shards, this ring has %d", accounts.ErrCursor, shards, len(start.at))
		}
		copy(start.at[start.sources:], p.at[p.sources:])
		if p.sources > 0 && start.sources > 0 {
			copy(start.at, p.at[:p.sources])
		}
	case p.generation == start.base && start.sources > 0:
		if lasting != start.sources {
			return Position{}, fmt.Errorf("%w: it is of %d shards, this ring had %d", accounts.ErrCursor, lasting, start.sources)
		}
		copy(start.at, p.at[p.sources:])
	}
	return start, nil
}
