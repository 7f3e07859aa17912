package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// The timeline shows what mattered to one account, the latest first. It joins the lines that the
// ring wrote with the orders of people in the trail. An order that the ring wrote down too, such as
// a pause, is one event with the name of the person who ordered it.

const (
	// MaxLimit is how many events a page may have.
	MaxLimit = circulate.MaxLines
	// MaxOrders is how many entries of the trail are read for one page.
	MaxOrders = 3000
	// apart is the longest time between a line and the trail's entry of the order that caused it. An
	// entry is stored once the order was carried out.
	apart = 10 * time.Second
	// ahead is how many more lines are read than a page has, so that most lines meet their orders.
	ahead = 20
)

// These words name the events that the ring does not have.
const (
	changed    = "changed"    // somebody changed the record
	registered = "registered" // somebody registered the account
)

// TimelineMoment is something that mattered to an account.
type TimelineMoment struct {
	At   time.Time // by Redis' clock
	ID   string    // unique within the account's timeline
	What string    // one of the ring's events, or of those above
	N    int
	Text string

	By     string     // who ordered it; empty: nobody, or it is unknown
	Via    access.Via // how they were authenticated
	Fields []string   // the fields of the record that were changed

	place circulate.LinePlace
	entry circulate.StreamID
}

// TimelineQuery selects events.
type TimelineQuery struct {
	Account string
	Limit   int    // of a page, 1 to MaxLimit
	Cursor  string // the Next of the page before; empty: begin with the latest
}

// MomentPage is a page of events, the latest first.
type MomentPage struct {
	Events []TimelineMoment
	Next   string    // the cursor of the next page; empty: there is none
	Back   time.Time // how far back the page looked; zero: at everything
	Looked int       // how many lines and entries of any accounts were looked at
}

// Timeline shows the timelines of a namespace. It is safe for concurrent use.
type Timeline struct {
	lines circulate.Timeline
	trail *trail.Trail
}

// NewTimeline returns the timelines of a ring's namespace, joined with a trail.
func NewTimeline(ring *circulate.Ring, t *trail.Trail) Timeline { return Timeline{ring.Timeline(), t} }

// Look returns a page of events. It reads a bounded amount, so a page may be short or empty and not
// be the last. The error for a cursor that it never returned is cursor.ErrInvalid.
func (t Timeline) Look(ctx context.Context, q TimelineQuery) (MomentPage, error) {
	if q.Limit < 1 || q.Limit > MaxLimit {
		return MomentPage{}, fmt.Errorf("timeline: limit: must be 1 to %d, is %d", MaxLimit, q.Limit)
	}
	from, err := unsealed(q.Cursor)
	if err != nil {
		return MomentPage{}, err
	}
	var page MomentPage
	var events []TimelineMoment
	next := from
	if !from.linesEnd {
		found, err := t.lines.Before(ctx, q.Account, from.line, min(q.Limit+ahead, circulate.MaxLines))
		if err != nil {
			return MomentPage{}, err
		}
		for i := range found.Lines {
			events = append(events, ofLine(&found.Lines[i]))
		}
		page.Looked += found.Looked
		next.line, next.linesEnd = found.Next, found.Last
		if n := len(found.Lines); n > 0 && found.Lines[n-1].Event == circulate.EventDeregistered {
			next.ends = found.Lines[n-1].ID.Time()
		}
	}
	if !from.ordersEnd {
		orders, err := t.trail.Look(ctx, trail.Query{Account: q.Account, Limit: q.Limit + ahead, Before: from.order, Scan: MaxOrders})
		if err != nil {
			return MomentPage{}, err
		}
		for i := range orders.Entries {
			events = join(events, &orders.Entries[i])
		}
		page.Looked += orders.Looked
		next.ordersEnd = orders.Next == ""
		if orders.Looked > 0 {
			next.order = orders.Place
		}
	}
	page.cut(events, from, next, q.Limit)
	return page, nil
}

// cut takes, of the events that were found between two places, at most limit that no unread event
// can precede.
func (p *MomentPage) cut(events []TimelineMoment, from, next places, limit int) {
	slices.SortStableFunc(events, func(a, b TimelineMoment) int { return b.At.Compare(a.At) })
	horizon := next.ends // events of an earlier account with the same id are not shown
	if !next.linesEnd {
		horizon = later(horizon, next.line.ID.Time())
	}
	if !next.ordersEnd {
		horizon = later(horizon, next.order.Time())
	}
	shown := 0
	for shown < min(len(events), limit) && !events[shown].At.Before(horizon) {
		shown++
	}
	ended := !next.ends.IsZero() && !slices.ContainsFunc(events[shown:], func(e TimelineMoment) bool { return !e.At.Before(next.ends) })
	became := next.goneBack(from, events, shown)
	if became == from && shown == 0 && len(events) > 0 && !ended {
		// A line and its order may both be older than the rest of what was read. They are
		// shown all the same, so that the walk comes to an end.
		shown = 1
		became = next.goneBack(from, events, shown)
	}
	p.Events = events[:shown:shown]
	left := len(events) - shown
	passed := !next.ends.IsZero() && next.order.Time().Before(next.ends)
	if ended && left > 0 || became.linesEnd && (became.ordersEnd || passed && left == 0) {
		return
	}
	p.Back, p.Next = horizon, became.sealed()
}

// goneBack returns the places where the next page begins if only some of the events are shown.
// Events that were found and not shown are found again: each place goes back to its own last event
// that is shown.
func (p places) goneBack(from places, events []TimelineMoment, shown int) places {
	back := from
	for _, e := range events[:shown] {
		if e.place != (circulate.LinePlace{}) {
			back.line = e.place
		}
		if e.entry != (circulate.StreamID{}) {
			back.order = e.entry
		}
	}
	for _, e := range events[shown:] {
		if e.place != (circulate.LinePlace{}) {
			p.line, p.linesEnd, p.ends = back.line, from.linesEnd, from.ends
		}
		if e.entry != (circulate.StreamID{}) {
			p.order, p.ordersEnd = back.order, from.ordersEnd
		}
	}
	return p
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func ofLine(l *circulate.Line) TimelineMoment {
	return TimelineMoment{At: l.ID.Time(), ID: fmt.Sprintf("%s.%d", l.ID, l.Place().Stream), What: string(l.Event), N: l.N, Text: l.Text, place: l.Place()}
}

// join adds an entry of the trail to the events. The entry says who ordered what a line reports, or
// it becomes an event of its own. Orders that were refused or failed changed nothing.
func join(events []TimelineMoment, e *trail.Entry) []TimelineMoment {
	if e.Outcome != trail.Done && e.Outcome != trail.Unknown {
		return events
	}
	id, err := circulate.ParseStreamID(e.ID)
	if err != nil {
		return events
	}
	what, caused := whatOf(e)
	if what == "" {
		return events
	}
	nearest := -1
	for i := range events {
		line := &events[i]
		if line.By != "" || line.entry != (circulate.StreamID{}) || !slices.Contains(caused, circulate.Event(line.What)) || line.What == string(circulate.EventParked) && line.Text != circulate.ReasonPaused {
			continue
		}
		if away := e.At.Sub(line.At).Abs(); away < apart && (nearest < 0 || away < e.At.Sub(events[nearest].At).Abs()) {
			nearest = i
		}
	}
	if nearest >= 0 {
		events[nearest].By, events[nearest].Via, events[nearest].entry = e.By, e.Via, id
		return events
	}
	event := TimelineMoment{At: e.At, ID: "t" + e.ID, What: what, By: e.By, Via: e.Via, Fields: e.Fields, entry: id}
	if what == string(circulate.EventParked) {
		event.Text = circulate.ReasonPaused
	}
	return append(events, event)
}

// whatOf returns the word for an order in a timeline, and the lines that the order may have caused.
// An order that changed nothing about an account is not in its timeline.
func whatOf(e *trail.Entry) (what string, caused []circulate.Event) {
	verb, _, _ := strings.Cut(e.Action, "-")
	switch verb {
	case "pause":
		return string(circulate.EventParked), []circulate.Event{circulate.EventParked}
	case "resume":
		return string(circulate.EventResumed), []circulate.Event{circulate.EventResumed}
	case "revive":
		return string(circulate.EventResumed), []circulate.Event{circulate.EventResumed, circulate.EventProbed}
	case "nudge":
		return string(circulate.EventNudged), []circulate.Event{circulate.EventNudged}
	case "delete":
		return string(circulate.EventDeregistered), []circulate.Event{circulate.EventDeregistered}
	case "create":
		return registered, nil
	case "put", "patch":
		switch {
		case e.Counts["unchanged"] > 0:
			return "", nil
		case e.Counts["created"] > 0:
			return registered, nil
		}
		return changed, nil
	}
	return "", nil
}

// places are where a page begins: the content of a cursor.
type places struct {
	line      circulate.LinePlace
	order     circulate.StreamID
	linesEnd  bool
	ordersEnd bool
	ends      time.Time // when an earlier account of the same id was removed; zero: none is known
}

func (p places) sealed() string {
	ends := int64(0)
	if !p.ends.IsZero() {
		ends = max(1, p.ends.UnixMilli())
	}
	return accounts.SealCursor(accounts.CursorTimeline, fmt.Appendf(nil, "%d %d %d %d %d %t %t %d",
		p.line.ID.Ms, p.line.ID.Seq, p.line.Stream, p.order.Ms, p.order.Seq, p.linesEnd, p.ordersEnd, ends))
}

func unsealed(text string) (p places, err error) {
	if text == "" {
		return p, nil
	}
	content, err := accounts.UnsealCursor(accounts.CursorTimeline, text)
	if err != nil {
		return p, err
	}
	var ends int64
	if _, err := fmt.Sscan(string(content), &p.line.ID.Ms, &p.line.ID.Seq, &p.line.Stream, &p.order.Ms, &p.order.Seq, &p.linesEnd, &p.ordersEnd, &ends); err != nil || ends < 0 {
		return places{}, fmt.Errorf("%w: it is cut off or mistyped", accounts.ErrUnsealed)
	}
	if ends > 0 {
		p.ends = time.UnixMilli(ends)
	}
	return p, nil
}
