package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
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

// TimelineEvent is something that mattered to an account.
type TimelineEvent struct {
	ID     string    `json:"id" doc:"The event's id within the account's timeline."`
	Time   time.Time `json:"time"`
	Event  string    `json:"event" doc:"failed (text: what went wrong; count: how many in a row), cursor_reset (the same, and the cursor was dropped; without a count: the check succeeded, and the third party began anew), hindered (failed, and that does not count against the account), recovered (after count failures), found (count messages), parked (text: the reason), resumed (text: now or backfill, changed if a change of the record did it, otherwise empty), probed (back on probation), nudged (count: within how many ms), requeued (text: the replica that it was taken from), moved (text: the third party's new address), changed, registered, deregistered. There may be others."`
	Count  int       `json:"count,omitempty"`
	Text   string    `json:"text,omitempty"`
	By     string    `json:"by,omitempty" doc:"Who ordered it: the name of a key or a person, token, or local."`
	Via    string    `json:"via,omitempty" doc:"How they were authenticated, as in the trail."`
	Fields []string  `json:"fields,omitempty" doc:"The names of the fields that a change of the record changed."`
}

// TimelinePage is a page of an account's timeline.
type TimelinePage struct {
	Events []TimelineEvent `json:"events" nullable:"false" doc:"The latest first."`
	Looked int             `json:"looked" doc:"How many lines, of any accounts, were looked at for this page."`
	Back   time.Time       `json:"back,omitzero" doc:"How far back this page looked. Left out if it looked at everything."`
	Next   string          `json:"next,omitempty" doc:"The cursor of the next page; left out on the last one. A page may be short, even empty, and not be the last."`
}

type timelineRequest struct {
	ID     string `path:"id" maxLength:"256" doc:"Percent-encoded: any id can be addressed, %2F is a slash in it."`
	Limit  int    `query:"limit" default:"30" minimum:"1" maximum:"200" doc:"At most this many."`
	Cursor string `query:"cursor" doc:"The previous page's next."`
}

// timelineRoutes adds the route that shows what mattered to an account.
func (s *Server) timelineRoutes(api huma.API) {
	answer(s, api, "get timeline", huma.Operation{
		OperationID: "get-timeline", Method: http.MethodGet, Path: "/v1/accounts/{id}/timeline", Tags: []string{"accounts"},
		Summary: "What mattered to an account lately",
		Description: "Failures, messages found, recoveries, and what people and monitors did with the account, the latest first, as far back as ROUNDS_TIMELINE and the trail go. " +
			"Of failures in a row only some are events: the first, the tenth, the hundredth and so on, and each failure of another sort than the one before. A check that succeeded and found nothing is no event. " +
			"The trail says who ordered something. Orders about many accounts at once have no name here.",
		Errors: []int{401, 404, 422, 503},
	}, s.getTimeline)
}

func (s *Server) getTimeline(ctx context.Context, r *timelineRequest) (TimelinePage, error) {
	if _, err := s.registry(ctx).Get(ctx, r.ID); err != nil {
		return TimelinePage{}, err
	}
	page, err := NewTimeline(s.options.Ring, s.options.Trail).Look(ctx, TimelineQuery{Account: r.ID, Limit: r.Limit, Cursor: r.Cursor})
	if errors.Is(err, accounts.ErrCursor) {
		return TimelinePage{}, invalid("query.cursor", "is not a cursor of an account's timeline")
	}
	return page, err
}

// moment is an event with the places of the line and of the entry that report it.
type moment struct {
	TimelineEvent
	place circulate.LinePlace
	entry circulate.StreamID
}

// TimelineQuery selects events.
type TimelineQuery struct {
	Account string
	Limit   int    // of a page, 1 to MaxLimit
	Cursor  string // the Next of the page before; empty: begin with the latest
}

// Timeline shows the timelines of a namespace. It is safe for concurrent use.
type Timeline struct {
	lines circulate.Timeline
	trail *trail.Trail
}

// NewTimeline returns the timelines of a ring's namespace, joined with a trail.
func NewTimeline(ring *circulate.Ring, t *trail.Trail) Timeline { return Timeline{ring.Timeline(), t} }

// Look returns a page of events. It reads a bounded amount, so a page may be short or empty and not
// be the last. The error for a cursor that it never returned is accounts.ErrCursor.
func (t Timeline) Look(ctx context.Context, q TimelineQuery) (TimelinePage, error) {
	if q.Limit < 1 || q.Limit > MaxLimit {
		return TimelinePage{}, fmt.Errorf("timeline: limit: must be 1 to %d, is %d", MaxLimit, q.Limit)
	}
	from, err := unsealed(q.Cursor)
	if err != nil {
		return TimelinePage{}, err
	}
	var page TimelinePage
	var events []moment
	next := from
	if !from.linesEnd {
		found, err := t.lines.Before(ctx, q.Account, from.line, min(q.Limit+ahead, circulate.MaxLines))
		if err != nil {
			return TimelinePage{}, err
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
			return TimelinePage{}, err
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
func (p *TimelinePage) cut(events []moment, from, next places, limit int) {
	slices.SortStableFunc(events, func(a, b moment) int { return b.Time.Compare(a.Time) })
	horizon := next.ends // events of an earlier account with the same id are not shown
	if !next.linesEnd {
		horizon = later(horizon, next.line.ID.Time())
	}
	if !next.ordersEnd {
		horizon = later(horizon, next.order.Time())
	}
	shown := 0
	for shown < min(len(events), limit) && !events[shown].Time.Before(horizon) {
		shown++
	}
	ended := !next.ends.IsZero() && !slices.ContainsFunc(events[shown:], func(e moment) bool { return !e.Time.Before(next.ends) })
	became := next.goneBack(from, events, shown)
	if became == from && shown == 0 && len(events) > 0 && !ended {
		// A line and its order may both be older than the rest of what was read. They are
		// shown all the same, so that the walk comes to an end.
		shown = 1
		became = next.goneBack(from, events, shown)
	}
	p.Events = each(events[:shown], func(e *moment) TimelineEvent { return e.TimelineEvent })
	left := len(events) - shown
	passed := !next.ends.IsZero() && next.order.Time().Before(next.ends)
	if ended && left > 0 || became.linesEnd && (became.ordersEnd || passed && left == 0) {
		return
	}
	p.Back, p.Next = inUTC(horizon), became.sealed()
}

// goneBack returns the places where the next page begins if only some of the events are shown.
// Events that were found and not shown are found again: each place goes back to its own last event
// that is shown.
func (p places) goneBack(from places, events []moment, shown int) places {
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

func ofLine(l *circulate.Line) moment {
	return moment{place: l.Place(), TimelineEvent: TimelineEvent{
		ID: fmt.Sprintf("%s.%d", l.ID, l.Place().Stream), Time: l.ID.Time().UTC(), Event: string(l.Event), Count: l.N, Text: l.Text,
	}}
}

// join adds an entry of the trail to the events. The entry says who ordered what a line reports, or
// it becomes an event of its own. Orders that were refused or failed changed nothing.
func join(events []moment, e *trail.Entry) []moment {
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
		if line.By != "" || line.entry != (circulate.StreamID{}) || !slices.Contains(caused, circulate.Event(line.Event)) || line.Event == string(circulate.EventParked) && line.Text != circulate.ReasonPaused {
			continue
		}
		if away := e.At.Sub(line.Time).Abs(); away < apart && (nearest < 0 || away < e.At.Sub(events[nearest].Time).Abs()) {
			nearest = i
		}
	}
	if nearest >= 0 {
		events[nearest].By, events[nearest].Via, events[nearest].entry = e.By, string(e.Via), id
		return events
	}
	event := moment{entry: id, TimelineEvent: TimelineEvent{ID: "t" + e.ID, Time: e.At.UTC(), Event: what, By: e.By, Via: string(e.Via), Fields: e.Fields}}
	if what == string(circulate.EventParked) {
		event.Text = circulate.ReasonPaused
	}
	return append(events, event)
}

// whatOf returns the word for an order in a timeline, and the lines that the order may have caused.
// An order that changed nothing about an account is not in its timeline, nor is one about a send.
func whatOf(e *trail.Entry) (what string, caused []circulate.Event) {
	verb, noun, _ := strings.Cut(e.Action, "-")
	if noun == "send" {
		return "", nil
	}
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
		return places{}, fmt.Errorf("%w: it is cut off or mistyped", accounts.ErrCursor)
	}
	if ends > 0 {
		p.ends = time.UnixMilli(ends)
	}
	return p, nil
}
