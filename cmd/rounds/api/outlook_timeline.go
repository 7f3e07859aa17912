package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
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

type timelineReply struct {
	Body TimelinePage
}

// addTimeline adds the route that shows what mattered to an account.
func (r Outlook) addTimeline() {
	all := NewTimeline(r.Ring, r.Trail)
	huma.Register(r.API, huma.Operation{
		OperationID: "get-timeline", Method: http.MethodGet, Path: "/v1/accounts/{id}/timeline", Tags: []string{"accounts"},
		Summary: "What mattered to an account lately",
		Description: "Failures, messages found, recoveries, and what people and monitors did with the account, the latest first, as far back as ROUNDS_TIMELINE and the trail go. " +
			"Of failures in a row only some are events: the first, the tenth, the hundredth and so on, and each failure of another sort than the one before. A check that succeeded and found nothing is no event. " +
			"The trail says who ordered something. Orders about many accounts at once have no name here.",
		Errors: []int{401, 404, 422, 503},
	}, func(ctx context.Context, q *timelineRequest) (*timelineReply, error) {
		if _, err := r.Registry(ctx).Get(ctx, q.ID); err != nil {
			return nil, r.Problem(ctx, "get timeline", err)
		}
		page, err := all.Look(ctx, TimelineQuery{Account: q.ID, Limit: q.Limit, Cursor: q.Cursor})
		if errors.Is(err, accounts.ErrCursor) {
			return nil, r.Invalid("query.cursor", "is not a cursor of an account's timeline")
		}
		if err != nil {
			return nil, r.Problem(ctx, "get timeline", err)
		}
		reply := TimelinePage{Events: make([]TimelineEvent, len(page.Events)), Looked: page.Looked, Next: page.Next}
		if !page.Back.IsZero() {
			reply.Back = page.Back.UTC()
		}
		for i, e := range page.Events {
			reply.Events[i] = TimelineEvent{
				ID: e.ID, Time: e.At.UTC(), Event: e.What, Count: e.N, Text: e.Text, By: e.By, Via: string(e.Via), Fields: e.Fields,
			}
		}
		return &timelineReply{reply}, nil
	})
}
