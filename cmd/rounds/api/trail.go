package api

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// untrailed returns the routes that change something but leave no entry, with the reasons.
func untrailed() map[string]string {
	return map[string]string{
		"POST /v1/groups/{name}/read":     "a consumer's reads, many times a second, would push out all other entries",
		"POST /v1/callbacks/wecom/{name}": "a third party's event, which has no principal; callbacks are counted",

		"POST /v1/callbacks/websub/{account}/{token}": "a hub's push, which has no principal; pushes are counted",
	}
}

// signing returns the routes at which people sign in and out, with their actions. They need no
// authentication. A call without a principal leaves no entry: only the log has it.
func signing() map[string]string {
	return map[string]string{
		"POST /signin": "sign-in", "GET /signin/callback": "sign-in", "POST /v1/session": "sign-in",
		"POST /signout": "sign-out", "DELETE /v1/session": "sign-out",
	}
}

// changes reports whether calls of a route leave entries in the trail. They do for the routes of
// signing and for every unsafe method, unless the route is in untrailed.
func changes(pattern string) bool {
	if signing()[pattern] != "" {
		return true
	}
	method, _, _ := strings.Cut(pattern, " ")
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	_, spared := untrailed()[pattern]
	return !spared
}

// nameActions adds the action of each route, which is the id of its operation.
func nameActions(actions map[string]string, doc *huma.OpenAPI) {
	maps.Copy(actions, signing())
	for path, item := range doc.Paths {
		for method, o := range map[string]*huma.Operation{
			http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
		} {
			if o != nil {
				actions[method+" "+path] = o.OperationID
			}
		}
	}
}

// trailed stores an entry for each call of a route, once it was carried out or refused. The handler
// adds to the draft what the request's route does not show.
func (s *Server) trailed(actions map[string]string, pattern string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, _ := access.From(r.Context())
		entry := trail.Entry{By: principal.Name, Via: principal.Via, Address: addressOfCaller(r), Action: actions[pattern]}
		if entry.Action == "" {
			entry.Action = pattern
		}
		ctx, draft := trail.Begin(r.Context(), entry)
		if id := r.PathValue("id"); strings.Contains(pattern, "/accounts/{id}") {
			draft.Account(id)
		} else if kind := kindOfName(pattern); kind != "" {
			draft.Subject(kind, r.PathValue("name"))
		}
		reply := NewStatusWriter(w)
		ended := false
		defer func() {
			as := outcomeOf(reply.status)
			if !ended { // a panic ended it
				as = trail.Unknown
			}
			if entry, keep := draft.Close(as, reply.status); keep && entry.By != "" {
				s.options.Trail.Add(ctx, entry)
			}
		}()
		next.ServeHTTP(reply, r.WithContext(ctx))
		ended = true
	})
}

// kindOfName returns what the name in a route's path names: the path element before it, in
// the singular. It is empty if the path has no name.
func kindOfName(pattern string) string {
	before, _, named := strings.Cut(pattern, "/{name}")
	if !named {
		return ""
	}
	return strings.TrimSuffix(before[strings.LastIndexByte(before, '/')+1:], "s")
}

// addressOfCaller returns the address from which a request comes, without the port. Behind a proxy
// that is not trusted (ROUNDS_TRUSTED_PROXIES), it is the proxy's address.
func addressOfCaller(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// outcomeOf returns the outcome of an order, by the status of the answer.
func outcomeOf(status int) trail.Outcome {
	switch {
	case status < 400:
		return trail.Done
	case status < 500:
		return trail.Refused
	}
	return trail.Failed
}

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
	Fields   []string       `json:"fields,omitempty" doc:"The names of the fields that it changed. The versions of an account's record have their values."`
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

// trailRoutes adds the routes that show who changed what.
func (s *Server) trailRoutes(api huma.API) {
	answer(s, api, "list trail", huma.Operation{
		OperationID: "list-trail", Method: http.MethodGet, Path: "/v1/trail", Tags: []string{"service"},
		Summary: "Who changed what",
		Description: "Orders to the API, the latest first: by whom, from where, about what, and with which outcome. " +
			"A change of many accounts is one entry with its selector and counts. The latest entries are stored, as many as ROUNDS_TRAIL_KEPT says; all are in the log.",
		Errors: []int{401, 422, 503},
	}, s.listTrail)
	answer(s, api, "list account's trail", huma.Operation{
		OperationID: "list-account-trail", Method: http.MethodGet, Path: "/v1/accounts/{id}/trail", Tags: []string{"accounts"},
		Summary:     "Who changed an account",
		Description: "The entries of the trail that name it, the latest first. Changes of many accounts that select it are left out. 404 if there is no such account now.",
		Errors:      []int{401, 404, 422, 503},
	}, s.listAccountTrail)
}

func (s *Server) listTrail(ctx context.Context, r *trailRequest) (TrailPage, error) {
	q := trail.Query{Account: r.Account, By: r.By, Limit: r.Limit, Cursor: r.Cursor}
	if r.Since != "" {
		var err error
		if q.Since, err = time.ParseDuration(r.Since); err != nil || q.Since <= 0 {
			return TrailPage{}, badQuery(accounts.Faults{{Field: "since", Reason: "must be one duration such as 24h"}})
		}
	}
	return s.lookTrail(ctx, q)
}

func (s *Server) listAccountTrail(ctx context.Context, r *accountTrailRequest) (TrailPage, error) {
	registry := s.registry(ctx)
	seen, err := registry.Seen(ctx, []string{r.ID})
	if err == nil {
		_, err = registry.Get(ctx, r.ID)
	}
	if err != nil {
		return TrailPage{}, err
	}
	page, err := s.lookTrail(ctx, trail.Query{Account: r.ID, Limit: r.Limit, Cursor: r.Cursor})
	if err == nil && boundTo(ctx) != "" {
		// Entries from before the registration are about another account of this id.
		page.Entries = slices.DeleteFunc(page.Entries, func(e TrailEntry) bool { return e.Time.Before(seen[r.ID]) })
		for i := range page.Entries {
			page.Entries[i].about(r.ID)
		}
	}
	return page, err
}

// about removes everything that an entry says about accounts other than the one with this id.
func (e *TrailEntry) about(id string) {
	if len(e.Accounts) > 0 {
		e.Accounts, e.Selector, e.Counts = []string{id}, "", nil
	}
}

func (s *Server) lookTrail(ctx context.Context, q trail.Query) (TrailPage, error) {
	page, err := s.options.Trail.Look(ctx, q)
	return TrailPage{Entries: each(page.Entries, trailEntryOf), Looked: page.Looked, Back: inUTC(page.Back), Next: page.Next}, err
}

func trailEntryOf(e *trail.Entry) TrailEntry {
	return TrailEntry{
		ID: e.ID, Time: inUTC(e.At), By: e.By, Via: string(e.Via), Address: e.Address, Action: e.Action, Outcome: e.Outcome, Status: e.Status,
		Account: e.Account, Accounts: e.Accounts, Subject: e.Subject, Selector: e.Selector, Fields: e.Fields, Counts: e.Counts, Cut: e.Cut,
	}
}
