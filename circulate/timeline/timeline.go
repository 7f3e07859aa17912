// Package timeline reads what mattered to an account lately: failures with their texts,
// messages that were found, recoveries, and what people and monitors did with it.
//
// # What is written
//
// The steps of the ring write the lines themselves, each in the same atomic script or
// transaction that does what the line says. There are two capped streams for each shard. One
// has what seldom happens to an account. The other has the routine: messages found, checks
// asked for, and failures that an account is not to blame for. Three of four lines that a
// namespace keeps are of the first, so the busy and the merely unlucky do not push out what
// went wrong. A check that succeeded, found nothing and followed no failure writes nothing
// and costs nothing more.
//
// An account that fails for days must not push out the others either. A failure is a line if
// it is the first, the tenth, the hundredth and so on in a row, or if it is of another sort
// than the one before: the text before its colon differs. Failures of limits and outages are
// lines only if they are of another sort than the one before. Once the last eight checks
// changed three times between success and failure, further first failures and recoveries are
// routine. So 20,000 accounts that begin to fail write 20,000 lines, about as many again
// after ten failures, and one each when they are parked. The messages of one check are told
// by their number, and up to eight accounts whose checks were written together share a line.
//
// A record's changes are not lines, unless a third party's move caused them: the trail has
// them already, and who ordered them. Registrations are no lines, because a million accounts
// may be imported at once. A deregistration is one. It ends what is read of an id, so that
// nobody who registers an id again reads of the account that had it before.
//
// # What is kept
//
// The number of lines is a setting of the ring. A line takes 60 to 500 bytes of Redis'
// memory, mostly about 100; one that eight accounts share takes as much as their ids. Redis drops whole blocks of lines, so each of the two streams of
// a shard may keep up to a hundred more. A line never makes a step fail: if Redis refuses it,
// it is lost. On a Redis at its memory limit lines are written by steps that succeed there.
// Texts are bounded, and are those of errors and reasons, which have no secret and no query.
//
// Lines are not carried along when the number of shards changes. Those of the old shards are
// read until the change is complete and the old shards are dropped.
package timeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

const (
	// MaxLines is the most lines that one page may have.
	MaxLines = 200
	// MaxLook is about how many lines of all accounts of a shard are looked at for one page.
	MaxLook = 10_000
	// atOnce is how many lines one command reads.
	atOnce = 500
)

// Event says what a line is about. Readers must expect events that they do not know.
type Event string

// The events.
const (
	Failed       Event = "failed"       // a check failed; N is how many in a row, Text what went wrong
	CursorReset  Event = "cursor_reset" // a check failed and its cursor was dropped; otherwise like Failed
	Hindered     Event = "hindered"     // a check failed, and that does not count against the account
	Recovered    Event = "recovered"    // a check succeeded after N failures in a row
	Found        Event = "found"        // a check found N messages
	Parked       Event = "parked"       // out of circulation; Text is the reason
	Resumed      Event = "resumed"      // back in circulation; Text: "" from its cursor, "now", "backfill", or "changed" with its record
	Probed       Event = "probed"       // back on probation: the next failure parks it again
	Nudged       Event = "nudged"       // a check was asked for, within N ms
	Requeued     Event = "requeued"     // taken from a replica that did not return it; Text is the replica
	Moved        Event = "moved"        // the record follows the third party to another address; Text is the address
	Deregistered Event = "deregistered" // an account of this id was removed; no line before it is shown
)

// Line is something that mattered to an account.
type Line struct {
	ID    circulate.StreamID // its place, with the time by Redis' clock
	Event Event
	N     int
	Text  string // valid UTF-8 of at most 240 bytes

	stream int
}

// Place returns the place of the line.
func (l *Line) Place() Place { return Place{l.ID, l.stream} }

// Place is a place in a timeline, before which a page begins. The zero value is the end.
type Place struct {
	ID     circulate.StreamID
	Stream int // which of the streams it is in
}

// Page is a page of lines.
type Page struct {
	Lines  []Line    // the latest first
	Next   Place     // where the next page begins
	Last   bool      // there are no more lines
	Back   time.Time // when the oldest line was written that was looked at, of any account; zero: none
	Looked int       // how many lines of any accounts were looked at
}

// Timeline reads the timelines of a namespace. It is safe for concurrent use.
type Timeline struct{ ring *circulate.Ring }

// Of returns the timelines of a ring's namespace.
func Of(ring *circulate.Ring) Timeline { return Timeline{ring} }

// Before returns lines about an account that were written before a place, at most so many.
// It looks at about MaxLook lines, so a page may be short or empty and not be the last. A
// line that this version cannot read is passed over.
func (t Timeline) Before(ctx context.Context, id string, place Place, most int) (Page, error) {
	if most < 1 || most > MaxLines {
		return Page{}, fmt.Errorf("%w: read timeline: must be 1 to %d lines at once, not %d", wire.ErrInput, MaxLines, most)
	}
	var streams []*stream
	for _, shard := range t.ring.Account(id).Timelines() {
		for _, key := range t.ring.Streams().Timeline(shard) {
			n := len(streams)
			streams = append(streams, &stream{wire: t.ring.Wire(), key: key, account: id, n: n, end: endOf(place, n)})
		}
	}
	page := Page{Next: place}
	for page.Looked < MaxLook {
		entry, err := newest(ctx, streams)
		if err != nil {
			return Page{}, fmt.Errorf("read timeline: %w", err)
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
		if page.Last = entry.line.Event == Deregistered; page.Last || len(page.Lines) == most {
			break
		}
	}
	return page, nil
}

// Forget removes all lines of the namespace.
func (t Timeline) Forget(ctx context.Context) error {
	err := circulate.EachShard(ctx, t.ring.Shards(), func(ctx context.Context, shard int) error {
		keys := t.ring.Streams().Timeline(shard)
		_, err := t.ring.Wire().Pipeline(ctx, keys[0], wire.Command{"DEL", keys[0], keys[1]})
		return err
	})
	if err != nil {
		return fmt.Errorf("forget timelines: %w", err)
	}
	return nil
}

// endOf returns the XREVRANGE end of a stream for a page before a place. Of lines with the
// same id the one of the first stream is the latest.
func endOf(place Place, stream int) string {
	switch {
	case place == Place{}:
		return "+"
	case stream > place.Stream:
		return place.ID.String()
	}
	return place.ID.Previous().String()
}

// stream reads one stream backwards.
type stream struct {
	wire    *wire.Wire
	key     string
	account string // that is read about
	n       int
	end     string
	ahead   []entry // was read and not yet looked at
	done    bool
}

type entry struct {
	account string
	line    Line
}

// newest takes the latest entry of all streams, or returns nil if there is none.
func newest(ctx context.Context, streams []*stream) (*entry, error) {
	var from *stream
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

// fill reads further if nothing is ahead.
func (s *stream) fill(ctx context.Context) error {
	if len(s.ahead) > 0 || s.done {
		return nil
	}
	replies, err := wire.Mending(ctx, s.wire, []wire.Key{{s.key, "stream"}}, func() ([]any, error) {
		return s.wire.Pipeline(ctx, s.key, wire.Command{"XREVRANGE", s.key, s.end, "-", "COUNT", atOnce})
	})
	if err != nil {
		return err
	}
	entries, err := redis.Values(replies[0], nil)
	if err != nil {
		return errors.Join(wire.ErrReply, err)
	}
	for _, reply := range entries {
		e, err := s.read(reply)
		if err != nil {
			return err
		}
		s.ahead, s.end = append(s.ahead, e), e.line.ID.Previous().String()
	}
	s.done = len(entries) < atOnce
	return nil
}

func (s *stream) read(reply any) (entry, error) {
	pair, err := redis.Values(reply, nil)
	if err != nil || len(pair) != 2 {
		return entry{}, wire.ErrReply
	}
	place, err := redis.String(pair[0], nil)
	if err != nil {
		return entry{}, errors.Join(wire.ErrReply, err)
	}
	e := entry{line: Line{stream: s.n}}
	if e.line.ID, err = circulate.ParseStreamID(place); err != nil {
		return entry{}, err
	}
	fields, err := redis.Strings(pair[1], nil)
	if err != nil {
		return entry{}, errors.Join(wire.ErrReply, err)
	}
	if len(fields) > 2 && fields[0] == "event" && fields[1] == string(Found) {
		// The accounts that found something in the same step, and how many messages each.
		for i := 2; i+1 < len(fields); i += 2 {
			if fields[i] == s.account {
				e.account, e.line.Event = s.account, Found
				e.line.N, _ = strconv.Atoi(fields[i+1])
			}
		}
		return e, nil
	}
	for i := 0; i+1 < len(fields); i += 2 {
		switch value := fields[i+1]; fields[i] {
		case "account":
			e.account = value
		case "event":
			e.line.Event = Event(strings.ToValidUTF8(value, "�"))
		case "n":
			e.line.N, _ = strconv.Atoi(value)
		case "text":
			e.line.Text = strings.ToValidUTF8(value[:min(len(value), wire.MaxTimelineText)], "")
		}
	}
	return e, nil
}
