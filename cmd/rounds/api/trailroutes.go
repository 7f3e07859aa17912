package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// TrailEntry is one change that somebody ordered.
type TrailEntry struct {
	ID       string         `json:"id" doc:"Of the entry."`
	Time     time.Time      `json:"time" doc:"When it was carried out or refused."`
	By       string         `json:"by,omitempty" doc:"Whose order it was: the name of a key or a person, token, or local."`
	Via      string         `json:"via,omitempty" doc:"How they came in: token, key, session, oidc, local, or system for a command that went to Redis itself."`
	Address  string         `json:"address,omitempty" doc:"Where the request came from; a proxy stands in for those behind it."`
	Action   string         `json:"action" doc:"The id of the operation, such as pause-account."`
	Outcome  trail.Outcome  `json:"outcome" enum:"done,refused,failed,unknown" doc:"refused: nothing was done; failed: the counts tell what was done before; unknown: it was cut off, and may have been done."`
	Status   int            `json:"status,omitempty" doc:"Of the answer. A stream's is 200 also where it failed later."`
	Account  string         `json:"account,omitempty" doc:"That it is about."`
	Accounts []string       `json:"accounts,omitempty" doc:"That it names; the first of them where they are many."`
	Subject  string         `json:"subject,omitempty" doc:"What else it is about, such as webhook orders."`
	Selector string         `json:"selector,omitempty" doc:"Which accounts it selects; all: every one."`
	Fields   []string       `json:"fields,omitempty" doc:"That it changed, by name: values are not kept."`
	Counts   map[string]int `json:"counts,omitempty" doc:"How many, by what became of them."`
	Cut      bool           `json:"cut,omitempty" doc:"Some of it was too long to be kept whole."`
}

// TrailPage is a page of entries.
type TrailPage struct {
	Entries []TrailEntry `json:"entries" nullable:"false" doc:"The latest first."`
	Looked  int          `json:"looked" doc:"How many entries were looked at for this page, at most 10,000."`
	Back    time.Time    `json:"back,omitzero" doc:"How far back was looked: when the last of them was kept. Left out where there was none."`
	Next    string       `json:"next,omitempty" doc:"The cursor of the next page; left out on the last one. A page may be short, even empty, and not be the last."`
}

type trailRequest struct {
	Limit   int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"At most this many."`
	Cursor  string `query:"cursor" doc:"The next of the page before, with the same other parameters."`
	Account string `query:"account" doc:"Only those that name this account."`
	By      string `query:"by" doc:"Only those of this name: of a key or a person, token, or local."`
	Since   string `query:"since" example:"24h" doc:"Only those that are at most so old."`
}

type accountTrailRequest struct {
	AccountID
	Limit  int    `query:"limit" default:"20" minimum:"1" maximum:"1000" doc:"At most this many."`
	Cursor string `query:"cursor" doc:"The next of the page before."`
}

type trailReply struct {
	Body TrailPage
}

// trailRoutes adds the routes that show who changed what.
func (s *Server) trailRoutes(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "list-trail", Method: http.MethodGet, Path: "/v1/trail", Tags: []string{"service"},
		Summary: "Who changed what",
		Description: "What was ordered of the API, the latest first: by whom, from where, about what, and what came of it. " +
			"A change of many accounts is one entry with its selector and counts. The latest entries are kept, as many as ROUNDS_TRAIL_KEPT says; all of them stand in the log.",
		Errors: []int{401, 422, 503},
	}, s.listTrail)
	huma.Register(api, huma.Operation{
		OperationID: "list-account-trail", Method: http.MethodGet, Path: "/v1/accounts/{id}/trail", Tags: []string{"accounts"},
		Summary:     "Who changed an account",
		Description: "The entries of the trail that name it, the latest first. Changes of many accounts that select it are not among them. 404 where there is no such account now.",
		Errors:      []int{401, 404, 422, 503},
	}, s.listAccountTrail)
}

func (s *Server) listTrail(ctx context.Context, r *trailRequest) (*trailReply, error) {
	q := trail.Query{Account: r.Account, By: r.By, Limit: r.Limit, Cursor: r.Cursor}
	if r.Since != "" {
		var err error
		if q.Since, err = time.ParseDuration(r.Since); err != nil || q.Since <= 0 {
			return nil, badQuery(accounts.Faults{{Field: "since", Reason: "must be one duration such as 24h"}})
		}
	}
	return s.lookTrail(ctx, q)
}

func (s *Server) listAccountTrail(ctx context.Context, r *accountTrailRequest) (*trailReply, error) {
	registry := s.registry(ctx)
	seen, err := registry.Seen(ctx, []string{r.ID})
	if err == nil {
		_, err = registry.Get(ctx, r.ID)
	}
	if err != nil {
		return nil, s.errorReply(ctx, "list account's trail", err)
	}
	reply, err := s.lookTrail(ctx, trail.Query{Account: r.ID, Limit: r.Limit, Cursor: r.Cursor})
	if err == nil && boundTo(ctx) != "" {
		entries := &reply.Body.Entries // what came before the registration is about another account of this id
		*entries = slices.DeleteFunc(*entries, func(e TrailEntry) bool { return e.Time.Before(seen[r.ID]) })
		for i := range reply.Body.Entries {
			reply.Body.Entries[i].about(r.ID)
		}
	}
	return reply, err
}

// about removes all that an entry says about accounts other than the one with this id.
func (e *TrailEntry) about(id string) {
	if len(e.Accounts) > 0 {
		e.Accounts, e.Selector, e.Counts = []string{id}, "", nil
	}
}

func (s *Server) lookTrail(ctx context.Context, q trail.Query) (*trailReply, error) {
	page, err := s.options.Trail.Look(ctx, q)
	if errors.Is(err, accounts.ErrCursor) {
		return nil, badCursor("query.cursor", err)
	}
	if err != nil {
		return nil, s.errorReply(ctx, "list trail", err)
	}
	reply := TrailPage{Entries: make([]TrailEntry, len(page.Entries)), Looked: page.Looked, Back: inUTC(page.Back), Next: page.Next}
	for i := range page.Entries {
		e := &page.Entries[i]
		reply.Entries[i] = TrailEntry{
			ID: e.ID, Time: inUTC(e.At), By: e.By, Via: string(e.Via), Address: e.Address, Action: e.Action, Outcome: e.Outcome, Status: e.Status,
			Account: e.Account, Accounts: e.Accounts, Subject: e.Subject, Selector: e.Selector, Fields: e.Fields, Counts: e.Counts, Cut: e.Cut,
		}
	}
	return &trailReply{reply}, nil
}
