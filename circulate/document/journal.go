package document

import (
	"context"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// MaxNote is the most bytes of a note.
	MaxNote = 8 << 10
	// MaxNotes is the greatest number of notes that Append may be told to retain.
	MaxNotes = 100_000_000
	// MaxNotesRead is the most notes that one call of Before may ask for.
	MaxNotesRead = 1000

	noteField = "note"
)

// Journal has the latest notes of a namespace, such as who changed what. Notes are only for
// people to read. It is safe for concurrent use.
type Journal struct{ stream }

// Journal returns the journal.
func (d Documents) Journal() Journal { return Journal{stream{d.single("trail", "stream")}} }

// Note is a note as it was written.
type Note struct {
	ID   circulate.StreamID // its place, with the time by Redis' clock at which it was written
	Text []byte
}

// Append writes a note and trims the journal to about most notes. Up to a hundred more stay,
// because Redis drops whole blocks. Append returns an error for a note of more than MaxNote
// bytes, and for a most that is not 1 to MaxNotes. It is not safe to repeat: after an unknown
// outcome a second call may write the note twice.
func (j Journal) Append(ctx context.Context, text []byte, most int) (circulate.StreamID, error) {
	if err := refused("append note", wrongSize("note", len(text), 1, MaxNote), wrongNumber("most", most, 1, MaxNotes)); err != nil {
		return circulate.StreamID{}, err
	}
	id, err := j.append(ctx, "append note", most, 0, noteField, text)
	if err != nil {
		return circulate.StreamID{}, err
	}
	return circulate.ParseStreamID(id)
}

// Before returns notes that were written before a place and not before a time, the latest
// first. The zero place stands for the end of the journal, and the zero time for its
// beginning. Most is how many notes it returns at most, and must not exceed MaxNotesRead. A
// stream entry that is not a note is returned without text.
func (j Journal) Before(ctx context.Context, place circulate.StreamID, since time.Time, most int) ([]Note, error) {
	if err := refused("read notes", wrongNumber("at once", most, 1, MaxNotesRead)); err != nil {
		return nil, err
	}
	end, start := "+", "-"
	if place != (circulate.StreamID{}) {
		end = place.Previous().String()
	}
	if !since.IsZero() {
		start = circulate.StreamIDAt(since).String()
	}
	replies, err := j.do(ctx, "read notes", wire.Command{"XREVRANGE", j.key(0), end, start, "COUNT", most})
	if err != nil {
		return nil, err
	}
	found, err := wire.Entries(replies[0])
	if err != nil {
		return nil, fmt.Errorf("read notes: %w", err)
	}
	notes := make([]Note, len(found))
	for i, e := range found {
		if notes[i].ID, err = circulate.ParseStreamID(e.Position); err != nil {
			return nil, fmt.Errorf("read notes: %w", err)
		}
		if text := e.Field(noteField); text != "" {
			notes[i].Text = []byte(text)
		}
	}
	return notes, nil
}
