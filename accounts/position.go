package accounts

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/circulate"
)

// Position is how far a reader of messages came: a place in the stream of each
// shard. Its text is opaque to callers and survives restarts on either side.
type Position struct {
	marks []mark

	generation int // of the shards that accounts are in, or go to
	sources    int // how many of the shards, the first ones, accounts leave

	// Of a ring's start alone: the generation of the shards that accounts are in or
	// leave, and the last one after it that was begun and given up.
	base, abandoned int
}

// mark is a place in one stream: that of its last message read, by its id.
type mark struct{ ms, seq uint64 }

func (m mark) before(n mark) bool { return m.ms < n.ms || m.ms == n.ms && m.seq < n.seq }

func (m mark) String() string {
	return strconv.FormatUint(m.ms, 10) + "-" + strconv.FormatUint(m.seq, 10)
}

func parseMark(text string) (mark, error) {
	ms, seq, ok := strings.Cut(text, "-")
	var m mark
	var err error
	if m.ms, err = strconv.ParseUint(ms, 10, 64); err == nil && ok {
		m.seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil || !ok || m.ms > math.MaxInt64 || m.seq > math.MaxInt64 {
		return mark{}, fmt.Errorf("accounts: %q is no position in a stream", text)
	}
	return m, nil
}

// Pass moves the position behind a message of its shard.
func (p *Position) Pass(f *circulate.Found) error {
	m, err := parseMark(f.Position)
	if err != nil {
		return err
	}
	p.marks[f.Shard] = m
	return nil
}

// Clone is a copy that moves on its own.
func (p *Position) Clone() Position {
	return Position{marks: slices.Clone(p.marks), generation: p.generation, sources: p.sources}
}

// String gives the position as ParsePosition reads it: the number of shards, the
// newest of their times, and for each shard how much older its own is, and its
// sequence. Zero stands for the start of a stream.
func (p *Position) String() string {
	var newest uint64
	for _, m := range p.marks {
		newest = max(newest, m.ms)
	}
	content := make([]byte, 0, 24+6*len(p.marks))
	if p.generation > 0 {
		content = append(content, 0) // where their number changed, and no number of shards
		content = binary.AppendUvarint(content, uint64(p.generation))
		content = binary.AppendUvarint(content, uint64(p.sources))
	}
	content = binary.AppendUvarint(content, uint64(len(p.marks)))
	content = binary.AppendUvarint(content, newest)
	for _, m := range p.marks {
		if m == (mark{}) {
			content = append(content, 0)
			continue
		}
		content = binary.AppendUvarint(content, newest-m.ms+1)
		content = binary.AppendUvarint(content, m.seq)
	}
	return seal(sealPosition, content)
}

// ParsePosition reads what String gave, and nothing else: what it accepts,
// String gives back to the letter. An error is ErrCursor.
func ParsePosition(text string) (Position, error) {
	content, err := unseal(sealPosition, text)
	if err != nil {
		return Position{}, err
	}
	malformed := fmt.Errorf("%w: it is malformed", ErrCursor)
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
	p := Position{marks: make([]mark, shards), generation: int(generation), sources: int(sources)}
	for i := range p.marks {
		older := number()
		if older == 0 {
			continue
		}
		if older-1 > newest {
			return Position{}, malformed
		}
		p.marks[i] = mark{newest - (older - 1), number()}
		if p.marks[i].seq > math.MaxInt64 {
			return Position{}, malformed
		}
	}
	if err != nil || len(content) > 0 || p.String() != text {
		return Position{}, malformed
	}
	return p, nil
}
