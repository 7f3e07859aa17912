package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// maxRevival is the most bytes of a revival: accounts.MaxReviveIDs ids, however they
// are escaped.
const maxRevival = 2 << 20

// ParkedAccount is an account out of circulation.
type ParkedAccount struct {
	ID       string    `json:"id"`
	Kind     string    `json:"kind,omitempty" doc:"Left out if the record cannot be read."`
	Reason   string    `json:"reason" doc:"Why it is parked: \"paused\", or what went wrong."`
	Since    time.Time `json:"since"`
	Failures int       `json:"failures" doc:"Failed checks in a row."`
	Strikes  int       `json:"strikes" doc:"How often it was taken from a replica that did not return it, since the last good return."`
	Error    string    `json:"last_error,omitempty" doc:"The failure of its last check."`
	ErrorAt  time.Time `json:"last_error_at,omitzero"`
}

// ParkedList is a page of parked accounts.
type ParkedList struct {
	Parked []ParkedAccount `json:"parked" nullable:"false"`
	Next   string          `json:"next,omitempty" doc:"The cursor of the next page; left out on the last one. A page with a filter may be short, even empty, and not be the last."`
}

// ReviveRequest says which parked accounts circulate again.
type ReviveRequest struct {
	_      struct{} `additionalProperties:"false"`
	IDs    []string `json:"ids,omitempty" maxItems:"1000" doc:"The accounts with these ids, paused ones included. Either ids, or at least one of reason, kind, cause, host and except_host are needed."`
	Reason string   `json:"reason,omitempty" example:"auth" doc:"Accounts whose reason begins with this. Paused ones stay paused unless it begins with \"paused\"."`
	Kind   string   `json:"kind,omitempty" example:"feed" doc:"Accounts of this kind, except paused ones."`
	Cause  string   `json:"cause,omitempty" example:"http_404~1b2c3d4e" doc:"Accounts that are parked because of this: the field cause of a group of /v1/problems. Paused ones are not among them."`
	Host   string   `json:"host,omitempty" example:"news.example.org" doc:"Accounts whose config names this host or corporation."`
	Except []string `json:"except_host,omitempty" maxItems:"100" doc:"Only accounts whose config names none of these hosts or corporations."`
	Rate   float64  `json:"rate,omitempty" minimum:"0.001" maximum:"10000" default:"10" doc:"How many accounts become due in a second."`
	DryRun bool     `json:"dry_run,omitempty" doc:"Only count."`
	Cursor string   `json:"cursor,omitempty" doc:"The previous reply's next, with the same other fields."`
}

// Revived is the result of a revival.
type Revived struct {
	Revived  int       `json:"revived" doc:"Accounts that circulate again, with their failures forgotten."`
	Skipped  int       `json:"skipped" doc:"Accounts that already circulated, or are paused and not selected."`
	NotFound int       `json:"not_found" doc:"Ids that no account has."`
	LastDue  time.Time `json:"last_due,omitzero" doc:"When the last revived account is due."`
	Next     string    `json:"next,omitempty" doc:"The cursor for the next request; left out when the revival is complete."`
}

type parkedRequest struct {
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"The most accounts on the page."`
	Cursor string `query:"cursor" doc:"The previous page's next."`
	Kind   string `query:"kind" doc:"Only accounts of this kind."`
	Reason string `query:"reason" doc:"Only accounts whose reason begins with this."`
}

// parkedRoutes adds the routes of parked accounts.
func (s *Server) parkedRoutes(api huma.API) {
	answer(s, api, "list parked accounts", huma.Operation{
		OperationID: "list-parked", Method: http.MethodGet, Path: "/v1/parked", Tags: []string{"circulation"},
		Summary: "List parked accounts", Description: "A page of them, in an order that stays the same: an account that stays parked during a walk is in it once.",
		Errors: []int{401, 422, 503},
	}, s.listParked)
	revive := takesBody(huma.Operation{
		OperationID: "revive-parked", Method: http.MethodPost, Path: "/v1/parked:revive", Tags: []string{"circulation"},
		Summary: "Bring parked accounts back, at a rate",
		Description: "The named accounts, or those that a reason, a cause, a kind or a host selects. They circulate again at once, with their failures forgotten, and become due one after another. " +
			"Paused accounts are selected only if they are named, or the reason begins with \"paused\". If the reply has a next, ask again with it. Repeating a request is safe.",
		Errors: []int{400, 401, 413, 422, 503},
	})
	revive.MaxBodyBytes = maxRevival
	answer(s, api, "revive parked accounts", revive, s.reviveParked)
}

func (s *Server) listParked(ctx context.Context, r *parkedRequest) (ParkedList, error) {
	cursor, err := s.reveal(ctx, r.Cursor)
	var page accounts.ParkedPage
	if err == nil {
		page, err = s.registry(ctx).Parked(ctx, accounts.ParkedQuery{Limit: r.Limit, Cursor: cursor, Kind: r.Kind, Reason: r.Reason})
	}
	if err == nil {
		page.Next, err = s.conceal(ctx, page.Next)
	}
	return ParkedList{Parked: each(page.Accounts, parkedOf), Next: page.Next}, err
}

func parkedOf(a *accounts.View) ParkedAccount {
	return ParkedAccount{
		ID: a.ID, Kind: a.Kind, Reason: a.State.Reason, Since: inUTC(a.State.Since),
		Failures: a.State.Failures, Strikes: a.State.Strikes, Error: a.State.Error, ErrorAt: inUTC(a.State.ErrorAt),
	}
}

func (s *Server) reviveParked(ctx context.Context, r *bodyInput) (Revived, error) {
	revival, err := accounts.DecodeRevival(r.RawBody)
	if err != nil {
		return Revived{}, err
	}
	draft := trail.Of(ctx)
	if revival.DryRun {
		draft.LookOnly()
	}
	if len(revival.IDs) > 0 {
		draft.Accounts(revival.IDs)
	} else {
		draft.Select(map[string][]string{"kind": {revival.Kind}, "reason": {revival.Reason}, "cause": {revival.Cause}, "host": {revival.Host}, "except_host": revival.Except})
	}
	var done accounts.Revived
	if revival.Cursor, err = s.reveal(ctx, revival.Cursor); err == nil {
		done, err = s.registry(ctx).Revive(ctx, revival)
	}
	if err == nil {
		done.Next, err = s.conceal(ctx, done.Next)
	}
	if err != nil {
		return Revived{}, inBody(err)
	}
	draft.Counts(map[string]int{"revived": done.Revived, "skipped": done.Skipped, "not_found": done.NotFound})
	return Revived{Revived: done.Revived, Skipped: done.Skipped, NotFound: done.NotFound, LastDue: inUTC(done.LastDue), Next: done.Next}, nil
}

// ResumeRequest says where a resumed account goes on.
type ResumeRequest struct {
	_    struct{}            `additionalProperties:"false"`
	From accounts.ResumeFrom `json:"from,omitempty" enum:"cursor,now,backfill" default:"cursor" doc:"cursor: where its last check ended. now: messages from before the resumption are dropped, by their own times; messages without a time are dropped until the account has caught up, for a day at most. backfill: the cursor is forgotten, so that checks find everything that the third party still has; messages that were found before have the same ids again."`
}

func (s *Server) resumeAccount(ctx context.Context, r *accountInput) (*accountReply, error) {
	from, err := accounts.DecodeResumption(r.RawBody)
	if err != nil {
		return nil, err
	}
	return viewed(s.registry(ctx).ResumeFrom(ctx, r.ID, from))
}
