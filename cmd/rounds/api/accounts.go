package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// AccountID is the account in a path. It is exported because huma ignores unexported embedded
// fields.
type AccountID struct {
	ID string `path:"id" maxLength:"256" doc:"Percent-encoded: any id can be addressed, %2F is a slash in it."`
}

type accountReply struct {
	ETag string `header:"ETag" doc:"The ETag of the record, for If-Match. It does not depend on the account's place."`
	Body Account
}

// From says where a new account begins. It is exported because huma ignores unexported embedded
// fields.
type From struct {
	From accounts.BeginFrom `query:"from" enum:"backfill,now" default:"backfill" doc:"Where a new account begins. backfill: with everything that the third party still has. now: with messages from now on; older ones are dropped. An existing account goes on where it is."`
}

type createRequest struct {
	From
	RawBody []byte `contentType:"application/json"`
}

type createReply struct {
	Location string `header:"Location" doc:"The address of the account."`
	ETag     string `header:"ETag" doc:"The ETag of the record, for If-Match."`
	Body     Account
}

func (s *Server) createAccount(ctx context.Context, r *createRequest) (*createReply, error) {
	a, err := s.registry(ctx).Read(ctx, "", r.RawBody)
	if err != nil {
		return nil, s.errorReply(ctx, "create account", err)
	}
	trail.Of(ctx).Account(a.ID)
	view, _, err := s.registry(ctx).Save(ctx, a, accounts.Save{New: true, From: r.From.From})
	if errors.Is(err, accounts.ErrExists) {
		return nil, newErrorReply(http.StatusConflict, fmt.Sprintf("an account already has the id %q", a.ID))
	}
	if err != nil {
		return nil, s.errorReply(ctx, "create account", err)
	}
	return &createReply{Location: addressOf(a.ID), ETag: etagOf(&view), Body: accountOf(&view)}, nil
}

// noteChange adds the result of a change to the change's entry in the trail.
func noteChange(ctx context.Context, view *accounts.View, change circulate.Registered) {
	draft := trail.Of(ctx)
	draft.Fields(view.Changed)
	switch change {
	case circulate.Created:
		draft.Count("created", 1)
	case circulate.Unchanged:
		draft.Count("unchanged", 1)
	}
}

// addressOf returns the path of an account. It also encodes the ids . and .., which clients and
// servers would otherwise resolve.
func addressOf(id string) string {
	switch segment := url.PathEscape(id); segment {
	case ".":
		return "/v1/accounts/%2E"
	case "..":
		return "/v1/accounts/%2E%2E"
	default:
		return "/v1/accounts/" + segment
	}
}

type putRequest struct {
	AccountID
	From
	IfMatch
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"*: register the account only if it does not exist. Otherwise 412."`
	RawBody     []byte `contentType:"application/json"`
}

type putReply struct {
	Status   int
	Location string `header:"Location" doc:"The address of the account."`
	ETag     string `header:"ETag" doc:"The ETag of the record, for If-Match."`
	Body     Account
}

func (s *Server) putAccount(ctx context.Context, r *putRequest) (*putReply, error) {
	match, err := r.match()
	if err != nil {
		return nil, err
	}
	a, err := s.registry(ctx).Read(ctx, r.ID, r.RawBody)
	if err != nil {
		return nil, s.errorReply(ctx, "put account", err)
	}
	// A new account needs no If-Match.
	save := accounts.Save{Match: match, From: r.From.From, New: r.IfNoneMatch != "" || s.misses(r.IfMatch)}
	view, change, err := s.registry(ctx).Save(ctx, a, save)
	switch {
	case r.IfNoneMatch != "" && errors.Is(err, accounts.ErrExists):
		return nil, newErrorReply(http.StatusPreconditionFailed, "the account exists: without If-None-Match, or with the If-Match of its ETag, it is changed")
	case save.New && errors.Is(err, accounts.ErrExists):
		return nil, matchMissing()
	case err != nil:
		return nil, s.errorReply(ctx, "put account", err)
	}
	noteChange(ctx, &view, change)
	reply := &putReply{Status: http.StatusOK, Location: addressOf(a.ID), ETag: etagOf(&view), Body: accountOf(&view)}
	if change == circulate.Created {
		reply.Status = http.StatusCreated
	}
	return reply, nil
}

type patchRequest struct {
	AccountID
	IfMatch
	RawBody []byte `contentType:"application/merge-patch+json"`
}

func (s *Server) patchAccount(ctx context.Context, r *patchRequest) (*accountReply, error) {
	match, err := s.matchOf(r.IfMatch)
	if err != nil {
		return nil, err
	}
	view, change, err := s.registry(ctx).Patch(ctx, r.ID, r.RawBody, match)
	if err == nil {
		noteChange(ctx, &view, change)
	}
	return s.viewed(ctx, "patch account")(view, err)
}

func (s *Server) getAccount(ctx context.Context, r *AccountID) (*accountReply, error) {
	return s.viewed(ctx, "get account")(s.registry(ctx).Get(ctx, r.ID))
}

type deleteRequest struct {
	AccountID
	IfMatch
}

func (s *Server) deleteAccount(ctx context.Context, r *deleteRequest) (*struct{}, error) {
	match, err := s.matchOf(r.IfMatch)
	if err != nil {
		return nil, err
	}
	if err := s.registry(ctx).DeleteIf(ctx, r.ID, match); err != nil {
		return nil, s.errorReply(ctx, "delete account", err)
	}
	return nil, nil
}

func (s *Server) pauseAccount(ctx context.Context, r *AccountID) (*accountReply, error) {
	return s.viewed(ctx, "pause account")(s.registry(ctx).Pause(ctx, r.ID))
}

type nudgeInput struct {
	AccountID
	RawBody []byte `contentType:"application/json"`
}

func (s *Server) nudgeAccount(ctx context.Context, r *nudgeInput) (*accountReply, error) {
	nudge, err := accounts.DecodeNudge(r.RawBody)
	if err != nil {
		return nil, s.errorReply(ctx, "nudge account", err)
	}
	return s.viewed(ctx, "nudge account")(s.registry(ctx).Nudge(ctx, r.ID, nudge))
}

// viewed turns a result of the registry into a reply.
func (s *Server) viewed(ctx context.Context, doing string) func(accounts.View, error) (*accountReply, error) {
	return func(view accounts.View, err error) (*accountReply, error) {
		if err != nil {
			return nil, s.errorReply(ctx, doing, err)
		}
		return &accountReply{ETag: etagOf(&view), Body: accountOf(&view)}, nil
	}
}

// Selecting says which accounts are meant. It is exported because huma ignores unexported embedded
// fields.
type Selecting struct {
	ID     []string `query:"id,explode" doc:"Only the account with this id, or with one of several, at most 100."`
	Kind   []string `query:"kind,explode" doc:"Only accounts of this kind, or of one of several."`
	State  []string `query:"state,explode" enum:"active,paused,failing,never_succeeded,parked,scheduled,waiting,claimed" doc:"Only accounts in this state, or in one of several. active: in circulation; parked: out of circulation, paused accounts included; failing: in circulation, and the last check failed; never_succeeded: in circulation and checked, but never with complete success. Neither has parked ones, as in all figures."`
	Label  []string `query:"label,explode" example:"team=news" doc:"Only accounts that have this label, NAME=VALUE, or all of several."`
	Prefix []string `query:"prefix,explode" doc:"Only accounts whose id begins with this, or with one of several."`
	Reason []string `query:"reason,explode" doc:"Only parked accounts whose reason begins with this, or with one of several."`
	Error  []string `query:"error,explode" doc:"Only accounts whose last check failed with this code or kind, or with one of several."`
	Cause  []string `query:"cause,explode" doc:"Only accounts that fail, or are parked for a failure, because of this, or of one of several: the field cause of a group of /v1/problems. Paused accounts are not among them."`
	Host   []string `query:"host,explode" doc:"Only accounts whose config names this host, at any port or at that of HOST:PORT, or this corporation, or one of several."`
	Except []string `query:"except_host,explode" doc:"Only accounts whose config does not name this host or corporation, or any of several."`
	Since  []string `query:"since,explode" example:"1h" doc:"Only accounts without a complete success for at least this long. May occur once."`
}

// selector reads the parameters.
func (r *Selecting) selector() (accounts.Selector, error) {
	return accounts.ParseSelector(map[string][]string{
		"id": r.ID, "kind": r.Kind, "state": r.State, "label": r.Label, "prefix": r.Prefix, "reason": r.Reason, "error": r.Error, "cause": r.Cause, "host": r.Host, "except_host": r.Except, "since": r.Since,
	})
}

type countReply struct {
	Body AccountCount
}

type countRequest struct {
	Looks int `query:"looks" default:"100000" minimum:"1000" maximum:"100000" doc:"About the most accounts to look at. With fewer the reply comes sooner, but is an estimate if there are more."`
	Selecting
}

func (s *Server) countAccounts(ctx context.Context, r *countRequest) (*countReply, error) {
	chosen, err := r.selector()
	if err != nil {
		return nil, badQuery(err)
	}
	counted, err := s.registry(ctx).CountWithin(ctx, chosen, r.Looks)
	if err != nil {
		return nil, s.errorReply(ctx, "count accounts", err)
	}
	return &countReply{AccountCount(counted)}, nil
}

type listRequest struct {
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"The most accounts on the page."`
	Cursor string `query:"cursor" doc:"The previous page's next."`
	Selecting
}

type listReply struct {
	Body AccountList
}

func (s *Server) listAccounts(ctx context.Context, r *listRequest) (*listReply, error) {
	chosen, err := r.selector()
	if err != nil {
		return nil, badQuery(err)
	}
	cursor, err := s.reveal(ctx, r.Cursor)
	var page accounts.Page
	if err == nil {
		page, err = s.registry(ctx).List(ctx, accounts.Query{Limit: r.Limit, Cursor: cursor, Selector: chosen})
	}
	if err == nil {
		page.Next, err = s.conceal(ctx, page.Next)
	}
	if errors.Is(err, accounts.ErrCursor) {
		return nil, badCursor("query.cursor", err)
	}
	if err != nil {
		return nil, s.errorReply(ctx, "list accounts", err)
	}
	list := AccountList{Accounts: make([]Account, len(page.Views)), Next: page.Next}
	for i := range page.Views {
		list.Accounts[i] = accountOf(&page.Views[i])
	}
	return &listReply{list}, nil
}
