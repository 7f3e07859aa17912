// Package journal keeps the latest notes of a namespace, such as who changed what, in one
// capped stream. It does not look into notes. They are only for people to read, so a lost
// note has no effect on accounts.
package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// MaxNote is the most bytes of a note.
	MaxNote = 8 << 10
	// MaxKept is the greatest number of notes that Append may be told to keep.
	MaxKept = 100_000_000
	// MaxRead is the most notes that one call of Before may ask for.
	MaxRead = 1000

	field = "note"
)

// Journal is the notes of a namespace. It is safe for concurrent use.
type Journal struct{ wire *wire.Wire }

// Of returns the journal of a ring's namespace.
func Of(ring *circulate.Ring) Journal { return Journal{ring.Wire()} }

// At returns the journal of a namespace in a Redis, for callers without a ring.
func At(server circulate.Server, namespace string) Journal {
	return Journal{wire.New(server, namespace, wire.Options{})}
}

// Note is a note as it was written.
type Note struct {
	ID   circulate.StreamID // its place, with the time by Redis' clock at which it was written
	Text []byte
}

// key returns the Redis key of the STREAM. It needs no hash tag, because no command uses it
// together with another key.
func (j Journal) key() string { return j.wire.Namespace() + ":trail" }

// Append writes a note and trims the journal to about kept notes. Up to a hundred more stay,
// because Redis drops whole blocks. Append returns an error for a note of more than MaxNote
// bytes, and for a kept that is not 1 to MaxKept. It is not safe to repeat: after an unknown
// outcome a second call may write the note twice.
func (j Journal) Append(ctx context.Context, text []byte, kept int) (circulate.StreamID, error) {
	switch {
	case len(text) == 0 || len(text) > MaxNote:
		return circulate.StreamID{}, fmt.Errorf("%w: append note: must have 1 to %d bytes, has %d", wire.ErrInput, MaxNote, len(text))
	case kept < 1 || kept > MaxKept:
		return circulate.StreamID{}, fmt.Errorf("%w: append note: kept: must be 1 to %d, is %d", wire.ErrInput, MaxKept, kept)
	}
	reply, err := redis.String(j.do(ctx, wire.Command{"XADD", j.key(), "MAXLEN", "~", kept, "*", field, text}))
	if err != nil {
		return circulate.StreamID{}, fmt.Errorf("append note: %w", err)
	}
	return circulate.ParseStreamID(reply)
}

// Before returns notes that were written before a place and not before a time, the latest
// first. The zero place stands for the end of the journal, and the zero time for its
// beginning. Most is how many notes it returns at most, and must not exceed MaxRead. A stream
// entry that is not a note is returned without text.
func (j Journal) Before(ctx context.Context, place circulate.StreamID, since time.Time, most int) ([]Note, error) {
	if most < 1 || most > MaxRead {
		return nil, fmt.Errorf("%w: read notes: must be 1 to %d at once, not %d", wire.ErrInput, MaxRead, most)
	}
	end, start := "+", "-"
	if place != (circulate.StreamID{}) {
		end = place.Previous().String()
	}
	if !since.IsZero() {
		start = circulate.StreamIDAt(since).String()
	}
	replies, err := redis.Values(j.do(ctx, wire.Command{"XREVRANGE", j.key(), end, start, "COUNT", most}))
	if err != nil {
		return nil, fmt.Errorf("read notes: %w", err)
	}
	notes := make([]Note, len(replies))
	for i, reply := range replies {
		if notes[i], err = readNote(reply); err != nil {
			return nil, fmt.Errorf("read notes: %w", err)
		}
	}
	return notes, nil
}

// Now returns the time by Redis' clock, which notes are written by.
func (j Journal) Now(ctx context.Context) (time.Time, error) {
	replies, err := j.wire.Pipeline(ctx, j.key(), wire.Command{"TIME"})
	if err != nil {
		return time.Time{}, fmt.Errorf("read notes: %w", err)
	}
	return wire.Time(replies[0])
}

// do sends one command. If the Redis key has a wrong type, it sets the key aside and tries
// again.
func (j Journal) do(ctx context.Context, command wire.Command) (any, error) {
	replies, err := wire.Mending(ctx, j.wire, []wire.Key{{j.key(), "stream"}}, func() ([]any, error) { return j.wire.Pipeline(ctx, j.key(), command) })
	if err != nil {
		return nil, err
	}
	return replies[0], nil
}

func readNote(reply any) (Note, error) {
	pair, err := redis.Values(reply, nil)
	if err != nil || len(pair) != 2 {
		return Note{}, wire.ErrReply
	}
	place, err := redis.String(pair[0], nil)
	if err != nil {
		return Note{}, err
	}
	note := Note{}
	if note.ID, err = circulate.ParseStreamID(place); err != nil {
		return Note{}, err
	}
	fields, err := redis.ByteSlices(pair[1], nil)
	if err != nil {
		return Note{}, err
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if string(fields[i]) == field {
			note.Text = fields[i+1]
		}
	}
	return note, nil
}
