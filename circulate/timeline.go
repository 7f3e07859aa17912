package circulate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// MaxLines is the most lines of a timeline that one page may have.
	MaxLines = 200
	// maxLinesLooked is about how many lines of a shard, of all its accounts, one page
	// looks at.
	maxLinesLooked = 10_000
	// linesAtOnce is how many lines one command reads.
	linesAtOnce = 500
)

// Event says what happened. Readers must expect events that they do not know.
type Event string

// The events.
const (
	EventFailed       Event = "failed"       // a check failed; N is how many in a row, Text is why
	EventCursorReset  Event = "cursor_reset" // a check failed and its cursor was dropped, as in EventFailed; N is 0: a check succeeded, and began anew
	EventHindered     Event = "hindered"     // a check failed, which does not count against the account
	EventRecovered    Event = "recovered"    // a check succeeded after N failures in a row
	EventFound        Event = "found"        // a check found N messages
	EventRepeated     Event = "repeated"     // a check found N messages that the account remembers; they were not written again
	EventParked       Event = "parked"       // taken out of circulation; Text is the reason
	EventResumed      Event = "resumed"      // back in circulation; Text is "" (from its cursor), "now", "backfill", or "changed" (by a new record)
	EventProbed       Event = "probed"       // back on probation: the next failure parks it again
	EventNudged       Event = "nudged"       // a check was asked for, within N ms
	EventRequeued     Event = "requeued"     // taken from the replica in Text, which did not return it
	EventMoved        Event = "moved"        // the record follows the third party to another address; Text is the address
	EventDeregistered Event = "deregistered" // an account with this id was removed; earlier lines are not shown
)

// Line is one event of an account.
type Line struct {
	ID    StreamID // its place, with the time by Redis' clock
	Event Event
	N     int
	Text  string // valid UTF-8 of at most 240 bytes

	stream int
}

// Place returns the place of the line.
func (l *Line) Place() LinePlace { return LinePlace{l.ID, l.stream} }

// LinePlace is a place in a timeline. A page ends before it. The zero value is the end.
type LinePlace struct {
	ID     StreamID
	Stream int // the stream that it is in
}

// LinePage is a page of lines.
type LinePage struct {
	Lines  []Line    // the latest first
	Next   LinePlace // where the next page begins
	Last   bool      // there are no more lines
	Back   time.Time // the time of the oldest line looked at, of any account; zero: none
	Looked int       // how many lines were looked at, of any account
}

// Timeline reads the latest events of accounts: failures with their texts, messages
// found, recoveries, and what people and monitors did with the accounts. It is safe for
// concurrent use.
type Timeline struct{ ring *Ring }

// Timeline returns the timelines of the ring's namespace.
func (r *Ring) Timeline() Timeline { return Timeline{r} }

// Before returns up to most lines about an account that were written before a place. It
// looks at about maxLinesLooked lines, so a page may be short or empty without being the
// last. It skips lines that this version cannot read.
func (t Timeline) Before(ctx context.Context, id string, place LinePlace, most int) (LinePage, error) {
	if most < 1 || most > MaxLines {
		return LinePage{}, fmt.Errorf("%w: read timeline: must be 1 to %d lines at once, not %d", wire.ErrInput, MaxLines, most)
	}
	shards := []int{t.ring.target(id)}
	if t.ring.sources > 0 { // the shard that the account leaves has lines about it too
		shards = append(shards, shardOf(id, t.ring.sources))
	}
	var streams []*lineStream
	for _, shard := range shards {
		for _, key := range t.ring.keys[shard].timeline.Keys() {
			n := len(streams)
			streams = append(streams, &lineStream{wire: t.ring.wire, key: key, account: id, n: n, end: endOfLines(place, n)})
		}
	}
	page := LinePage{Next: place}
	for page.Looked < maxLinesLooked {
		entry, err := newestLine(ctx, streams)
		if err != nil {
			return LinePage{}, fmt.Errorf("read timeline: %w", err)
		}
		if entry == nil {
			page.Last = true
			break
		}
		page.Looked++
		page.Next, page.Back = entry.line.Place(), entry.line.ID.Time()
		if entry.account != id {
			continue
		}
		page.Lines = append(page.Lines, entry.line)
		if page.Last = entry.line.Event == EventDeregistered; page.Last || len(page.Lines) == most {
			break
		}
	}
	return page, nil
}

// Forget removes all lines of the namespace.
func (t Timeline) Forget(ctx context.Context) error {
	err := EachShard(ctx, t.ring.Shards(), func(ctx context.Context, shard int) error {
		keys := t.ring.keys[shard].timeline.Keys()
		_, err := t.ring.wire.Pipeline(ctx, keys[0], wire.Command{"DEL", keys[0], keys[1]})
		return err
	})
	if err != nil {
		return fmt.Errorf("forget timelines: %w", err)
	}
	return nil
}

// endOfLines returns the XREVRANGE end of a stream for a page before a place. Among lines
// with the same id, the line of the first stream is the latest.
func endOfLines(place LinePlace, stream int) string {
	switch {
	case place == LinePlace{}:
		return "+"
	case stream > place.Stream:
		return place.ID.String()
	}
	return place.ID.Previous().String()
}

// lineStream reads one stream backwards.
type lineStream struct {
	wire    *wire.Wire
	key     string
	account string // the account whose lines are wanted
	n       int
	end     string
	ahead   []lineEntry // read but not looked at yet
	done    bool
}

// lineEntry is an entry of a stream: a line and the account that it is about.
type lineEntry struct {
	account string
	line    Line
}

// newestLine takes the latest entry of all streams, or returns nil if there is none.
func newestLine(ctx context.Context, streams []*lineStream) (*lineEntry, error) {
	var from *lineStream
	for _, s := range streams {
		if err := s.fill(ctx); err != nil {
			return nil, err
		}
		if len(s.ahead) > 0 && (from == nil || from.ahead[0].line.ID.Before(s.ahead[0].line.ID)) {
			from = s
		}
	}
	if from == nil {
		return nil, nil
	}
	taken := &from.ahead[0]
	from.ahead = from.ahead[1:]
	return taken, nil
}

// fill reads on if nothing is ahead.
func (s *lineStream) fill(ctx context.Context) error {
	if len(s.ahead) > 0 || s.done {
		return nil
	}
	replies, err := wire.Mending(ctx, s.wire, []wire.Key{{s.key, "stream"}}, func() ([]any, error) {
		return s.wire.Pipeline(ctx, s.key, wire.Command{"XREVRANGE", s.key, s.end, "-", "COUNT", linesAtOnce})
	})
	if err != nil {
		return err
	}
	entries, err := wire.Entries(replies[0])
	if err != nil {
		return err
	}
	for i := range entries {
		e, err := s.read(&entries[i])
		if err != nil {
			return err
		}
		s.ahead, s.end = append(s.ahead, e), e.line.ID.Previous().String()
	}
	s.done = len(entries) < linesAtOnce
	return nil
}

// read reads an entry of the stream. The result has no account if the entry is about others only.
func (s *lineStream) read(entry *wire.Entry) (lineEntry, error) {
	id, err := ParseStreamID(entry.Position)
	if err != nil {
		return lineEntry{}, err
	}
	e, fields := lineEntry{line: Line{ID: id, stream: s.n}}, entry.Fields
	if len(fields) > 2 && fields[0] == "event" && fields[1] == string(EventFound) {
		// One entry names all accounts that found something in the same step, and how many
		// messages each found.
		for i := 2; i+1 < len(fields); i += 2 {
			if fields[i] == s.account {
				e.account, e.line.Event = s.account, EventFound
				e.line.N, _ = strconv.Atoi(fields[i+1])
			}
		}
		return e, nil
	}
	e.account = entry.Field("account")
	e.line.Event = Event(strings.ToValidUTF8(entry.Field("event"), "�"))
	e.line.N, _ = strconv.Atoi(entry.Field("n"))
	text := entry.Field("text")
	e.line.Text = strings.ToValidUTF8(text[:min(len(text), wire.MaxTimelineText)], "")
	return e, nil
}
