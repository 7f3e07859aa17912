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
	ID       string         `json:"id" doc:"The entry's id."`
	Time     time.Time      `json:"time" doc:"When it was carried out or refused."`
	By       string         `json:"by,omitempty" doc:"Who ordered it: the name of a key or a person, token, or local."`
	Via      string         `json:"via,omitempty" doc:"How they were authenticated: token, key, session, oidc, local, or system for a command that used Redis itself."`
	Address  string         `json:"address,omitempty" doc:"Where the request came from; behind a proxy, the proxy's address."`
	Action   string         `json:"action" doc:"The id of the operation, such as pause-account."`
	Outcome  trail.Outcome  `json:"outcome" enum:"done,refused,failed,unknown" doc:"refused: nothing was done; failed: the counts say what was done before; unknown: it was cut off, and may have been done."`
	Status   int            `json:"status,omitempty" doc:"The status of the reply. A stream has 200 even if it failed later."`
	Account  string         `json:"account,omitempty" doc:"The account that it is about."`
	Accounts []string       `json:"accounts,omitempty" doc:"The accounts that it names; only the first ones if there are many."`
	Subject  string         `json:"subject,omitempty" doc:"What else it is about, such as webhook orders."`
	Selector string         `json:"selector,omitempty" doc:"Which accounts it selects; all: every one."`
	Fields   []string       `json:"fields,omitempty" doc:"The names of the fields that it changed. Their values are not stored."`
	Counts   map[string]int `json:"counts,omitempty" doc:"The number of accounts by outcome."`
	Cut      bool           `json:"cut,omitempty" doc:"Some of it was too long to be stored whole."`
}

// TrailPage is a page of entries.
type TrailPage struct {
	Entries []TrailEntry `json:"entries" nullable:"false" doc:"The latest first."`
	Looked  int          `json:"looked" doc:"How many entries were looked at for this page, at most 10,000."`
	Back    time.Time    `json:"back,omitzero" doc:"How far back this page looked: the time of the last entry that it looked at. Left out if there was none."`
	Next    string       `json:"next,omitempty" doc:"The cursor of the next page; left out on the last one. A page may be short, even empty, and not be the last."`
}

type trailRequest struct {
	Limit   int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"At most this many."`
	Cursor  string `query:"cursor" doc:"The previous page's next, with the same other parameters."`
	Account string `query:"account" doc:"Only entries that name this account."`
	By      string `query:"by" doc:"Only entries of this name: of a key or a person, token, or local."`
	Since   string `query:"since" example:"24h" doc:"Only entries that are at most this old."`
}

type accountTrailRequest struct {
	AccountID
	Limit  int    `query:"limit" default:"20" minimum:"1" maximum:"1000" doc:"At most this many."`
	Cursor string `query:"cursor" doc:"The previous page's next."`
}

type trailReply struct {
	Body TrailPage
}

// trailRoutes adds the routes that show who changed what.
func (s *Server) trailRoutes(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "list-trail", Method: http.MethodGet, Path: "/v1/trail", Tags: []string{"service"},
		Summary: "Who changed what",
		Description: "Orders to the API, the latest first: by whom, from where, about what, and with which outcome. " +
			"A change of many accounts is one entry with its selector and counts. The latest entries are stored, as many as ROUNDS_TRAIL_KEPT says; all are in the log.",
		Errors: []int{401, 422, 503},
	}, s.listTrail)
	huma.Register(api, huma.Operation{
		OperationID: "list-account-trail", Method: http.MethodGet, Path: "/v1/accounts/{id}/trail", Tags: []string{"accounts"},
		Summary:     "Who changed an account",
		Description: "The entries of the trail that name it, the latest first. Changes of many accounts that select it are left out. 404 if there is no such account now.",
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
		entries := &reply.Body.Entries // entries from before the registration are about another account of this id
		*entries = slices.DeleteFunc(*entries, func(e TrailEntry) bool { return e.Time.Before(seen[r.ID]) })
		for i := range reply.Body.Entries {
			reply.Body.Entries[i].about(r.ID)
		}
	}
	return reply, err
}

// about removes everything that an entry says about accounts other than the one with this id.
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
