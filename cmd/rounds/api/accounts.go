package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"

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

// savedReply is the reply for an account that was registered or changed.
type savedReply struct {
	Status   int
	Location string `header:"Location" doc:"The address of the account."`
	ETag     string `header:"ETag" doc:"The ETag of the record, for If-Match."`
	Body     Account
}

// accountRoutes adds the routes of accounts.
func (s *Server) accountRoutes(api huma.API) {
	register(s, api, "create account", takesBody(huma.Operation{
		OperationID: "create-account", Method: http.MethodPost, Path: "/v1/accounts", Tags: []string{"accounts"},
		Summary: "Register an account", Description: "It is due at once. 409 if the id is taken.",
		DefaultStatus: http.StatusCreated, Errors: []int{400, 401, 409, 413, 503},
	}), s.createAccount)
	answer(s, api, "list accounts", huma.Operation{
		OperationID: "list-accounts", Method: http.MethodGet, Path: "/v1/accounts", Tags: []string{"accounts"},
		Summary: "List accounts", Description: "A page of accounts, in an order that stays the same: an account that stays registered during a walk is in it once.",
		Errors: []int{401, 422, 503},
	}, s.listAccounts)
	answer(s, api, "count accounts", huma.Operation{
		OperationID: "count-accounts", Method: http.MethodGet, Path: "/v1/accounts:count", Tags: []string{"accounts"},
		Summary: "Count accounts", Description: "How many accounts the parameters select. At most about 100,000 are looked at. If there are more, the reply has what was counted, and an estimate of all.",
		Errors: []int{401, 422, 503},
	}, s.countAccounts)
	register(s, api, "put account", takesBody(huma.Operation{
		OperationID: "put-account", Method: http.MethodPut, Path: "/v1/accounts/{id}", Tags: []string{"accounts"},
		Summary:     "Register or change an account",
		Description: "The account is due at once if anything changed. 201 if it is new, 200 if it existed. Fields that the body leaves out are reset; with PATCH they stay. The cursor stays unless the kind changes.",
		Errors:      []int{400, 401, 412, 413, 428, 503},
	}), s.putAccount)
	register(s, api, "patch account", takesBody(huma.Operation{
		OperationID: "patch-account", Method: http.MethodPatch, Path: "/v1/accounts/{id}", Tags: []string{"accounts"},
		Summary: "Change parts of an account",
		Description: "A JSON merge patch (RFC 7396): it changes the fields that it names, null removes a field, and the rest stays. The account is due at once if anything changed. " +
			"Two changes at once are both applied; with If-Match the second is refused.",
		Errors: []int{400, 401, 404, 412, 413, 428, 503},
	}), s.patchAccount)
	register(s, api, "get account", huma.Operation{
		OperationID: "get-account", Method: http.MethodGet, Path: "/v1/accounts/{id}", Tags: []string{"accounts"},
		Summary: "Get an account and where it is", Errors: []int{401, 404, 503},
	}, s.getAccount)
	register(s, api, "delete account", huma.Operation{
		OperationID: "delete-account", Method: http.MethodDelete, Path: "/v1/accounts/{id}", Tags: []string{"accounts"},
		Summary: "Delete an account", Description: "For good. Its messages stay. The result of a check under way is dropped.",
		Errors: []int{400, 401, 404, 412, 428, 503},
	}, s.deleteAccount)

	register(s, api, "pause account", huma.Operation{
		OperationID: "pause-account", Method: http.MethodPost, Path: "/v1/accounts/{id}/pause", Tags: []string{"circulation"},
		Summary: "Take an account out of circulation", Description: "Until it is resumed. A change of its record does not bring it back. The result of a check under way is dropped.",
		Errors: []int{401, 404, 503},
	}, s.pauseAccount)
	register(s, api, "resume account", takesBody(huma.Operation{
		OperationID: "resume-account", Method: http.MethodPost, Path: "/v1/accounts/{id}/resume", Tags: []string{"circulation"},
		Summary: "Bring a parked account back", Description: "Whatever the reason, it is due at once, and its failures are forgotten. A circulating account stays as it is. The body may be left out.",
		Errors: []int{400, 401, 404, 413, 503},
	}), s.resumeAccount)
	register(s, api, "nudge account", takesBody(huma.Operation{
		OperationID: "nudge-account", Method: http.MethodPost, Path: "/v1/accounts/{id}/nudge", Tags: []string{"circulation"},
		Summary: "Check an account sooner", Description: "At once, or within the given time. The body may be left out. 409 if the account is parked.",
		Errors: []int{400, 401, 404, 409, 413, 503},
	}), s.nudgeAccount)

	answer(s, api, "explain account", huma.Operation{
		OperationID: "get-schedule", Method: http.MethodGet, Path: "/v1/accounts/{id}/schedule", Tags: []string{"circulation"},
		Summary: "Why an account is checked when it is", Description: "Where it is now, when it is checked next, which rule decided that, and how its last checks went.",
		Errors: []int{401, 404, 503},
	}, s.getSchedule)
}

func (s *Server) createAccount(ctx context.Context, r *createRequest) (*savedReply, error) {
	a, err := s.registry(ctx).Read(ctx, "", r.RawBody)
	if circulate.ValidateID(a.ID) == nil { // a record that is refused may have any text there
		trail.Of(ctx).Account(a.ID)
	}
	if err != nil {
		return nil, err
	}
	view, _, err := s.registry(ctx).Save(ctx, a, accounts.Save{New: true, From: r.From.From})
	if errors.Is(err, accounts.ErrExists) {
		return nil, newErrorReply(http.StatusConflict, fmt.Sprintf("an account already has the id %q", a.ID))
	}
	return saved(http.StatusCreated, &view), err
}

func saved(status int, view *accounts.View) *savedReply {
	return &savedReply{Status: status, Location: addressOf(view.ID), ETag: etagOf(view), Body: accountOf(view)}
}

// noteChange adds the result of a change to the change's entry in the trail.
func noteChange(ctx context.Context, view *accounts.View, change circulate.Registered) {
	draft := trail.Of(ctx)
	draft.Fields(view.Changed)
	draft.Replaced(view.Replaced.Record, view.Replaced.Patch)
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

func (s *Server) putAccount(ctx context.Context, r *putRequest) (*savedReply, error) {
	match, err := r.match()
	if err != nil {
		return nil, err
	}
	a, err := s.registry(ctx).Read(ctx, r.ID, r.RawBody)
	if err != nil {
		return nil, err
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
		return nil, err
	}
	noteChange(ctx, &view, change)
	status := http.StatusOK
	if change == circulate.Created {
		status = http.StatusCreated
	}
	return saved(status, &view), nil
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
	return viewed(view, err)
}

func (s *Server) getAccount(ctx context.Context, r *AccountID) (*accountReply, error) {
	return viewed(s.registry(ctx).Get(ctx, r.ID))
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
	return nil, s.registry(ctx).DeleteIf(ctx, r.ID, match)
}

func (s *Server) pauseAccount(ctx context.Context, r *AccountID) (*accountReply, error) {
	return viewed(s.registry(ctx).Pause(ctx, r.ID))
}

// accountInput is an account and a body about it.
type accountInput struct {
	AccountID
	RawBody []byte `contentType:"application/json"`
}

func (s *Server) nudgeAccount(ctx context.Context, r *accountInput) (*accountReply, error) {
	nudge, err := accounts.DecodeNudge(r.RawBody)
	if err != nil {
		return nil, err
	}
	return viewed(s.registry(ctx).Nudge(ctx, r.ID, nudge))
}

// viewed turns a result of the registry into a reply.
func viewed(view accounts.View, err error) (*accountReply, error) {
	return &accountReply{ETag: etagOf(&view), Body: accountOf(&view)}, err
}

// Selecting says which accounts are meant. It is exported because huma ignores unexported embedded
// fields.
type Selecting struct {
	ID     []string `query:"id,explode" doc:"Only the account with this id, or with one of several, at most 100."`
	Kind   []string `query:"kind,explode" doc:"Only accounts of this kind, or of one of several."`
	State  []string `query:"state,explode" enum:"active,paused,failing,never_succeeded,late,parked,scheduled,waiting,claimed" doc:"Only accounts in this state, or in one of several. active: in circulation; parked: out of circulation, paused accounts included; failing: in circulation, and the last check failed; never_succeeded: in circulation and checked, but never with complete success; late: in circulation, and three slots of its cadence or more, and at least three minutes, have passed since a check last succeeded completely. None of the three has parked ones, as in all figures."`
	Label  []string `query:"label,explode" example:"team=news" doc:"Only accounts that have this label, NAME=VALUE, or all of several."`
	Prefix []string `query:"prefix,explode" doc:"Only accounts whose id begins with this, or with one of several."`
	Part   []string `query:"part,explode" doc:"Only accounts whose id has this part, or one of several. Capitals and small letters are the same. An account that was registered within the last minute may be missing from a list."`
	Reason []string `query:"reason,explode" doc:"Only parked accounts whose reason begins with this, or with one of several."`
	Error  []string `query:"error,explode" doc:"Only accounts whose last check failed with this code or kind, or with one of several."`
	Cause  []string `query:"cause,explode" doc:"Only accounts that fail, or are parked for a failure, because of this, or of one of several: the field cause of a group of /v1/problems. Paused accounts are not among them."`
	Host   []string `query:"host,explode" doc:"Only accounts whose config names this host, at any port or at that of HOST:PORT, or this corporation, or one of several."`
	Except []string `query:"except_host,explode" doc:"Only accounts whose config does not name this host or corporation, or any of several."`
	Secret []string `query:"secret,explode" example:"CRM" doc:"Only accounts whose config refers to this secret, or to one of several."`
	Since  []string `query:"since,explode" example:"1h" doc:"Only accounts without a complete success for at least this long. May occur once."`
	Until  []string `query:"until,explode" example:"2h" doc:"Only accounts with a complete success within this time, or that were registered in it. With since and the state failing: those that began to fail between the two. May occur once."`
}

// selector reads the parameters.
func (r *Selecting) selector() (accounts.Selector, error) {
	return accounts.ParseSelector(map[string][]string{
		"id": r.ID, "kind": r.Kind, "state": r.State, "label": r.Label, "prefix": r.Prefix, "part": r.Part, "reason": r.Reason, "error": r.Error, "cause": r.Cause, "host": r.Host, "except_host": r.Except, "secret": r.Secret, "since": r.Since, "until": r.Until,
	})
}

type countRequest struct {
	Looks int `query:"looks" default:"100000" minimum:"1000" maximum:"100000" doc:"About the most accounts to look at. With fewer the reply comes sooner, but is an estimate if there are more."`
	Selecting
}

func (s *Server) countAccounts(ctx context.Context, r *countRequest) (AccountCount, error) {
	chosen, err := r.selector()
	if err != nil {
		return AccountCount{}, badQuery(err)
	}
	counted, err := s.registry(ctx).CountWithin(ctx, chosen, r.Looks)
	return AccountCount(counted), err
}

type listRequest struct {
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"The most accounts on the page."`
	Cursor string `query:"cursor" doc:"The previous page's next."`
	Sort   string `query:"sort" enum:"due,failures,success" doc:"The order; left out: by shard and id. due: scheduled accounts, the most overdue first, then the soonest due. failures: accounts that fail, those with the most failures in a row first, as they were a minute ago at most. success: those first that were without complete success for longest, as they were a minute ago at most. The first page in an order may be empty and have a next one, while the order is being found."`
	Selecting
}

func (s *Server) listAccounts(ctx context.Context, r *listRequest) (AccountList, error) {
	chosen, err := r.selector()
	if err != nil {
		return AccountList{}, badQuery(err)
	}
	cursor, err := s.reveal(ctx, r.Cursor)
	if len(chosen.Parts) > 0 || r.Sort != "" {
		s.keepIDs()
	}
	var page accounts.Page
	if err == nil {
		page, err = s.registry(ctx).List(ctx, accounts.Query{Limit: r.Limit, Cursor: cursor, Selector: chosen, Order: accounts.Order(r.Sort)})
	}
	if err == nil {
		page.Next, err = s.conceal(ctx, page.Next)
	}
	list := AccountList{Accounts: each(page.Views, accountOf), Next: page.Next, Looked: page.Looked}
	if boundTo(ctx) != "" {
		list.Looked = 0 // the number of other accounts is secret
	}
	return list, err
}

// keepIDs has the index of ids read and kept up to date while it is used.
func (s *Server) keepIDs() {
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	go s.ids.Keep(closing)
}

// IfMatch is the condition of a change of an account. It is exported because huma ignores
// unexported embedded fields.
type IfMatch struct {
	IfMatch string `header:"If-Match" example:"\"3-0c5f8f6b2f2e1d7a\"" doc:"Change the account only if it has this ETag, or one of several separated by commas; *: only if it exists. Otherwise 412."`
}

// entityTag is one tag of the list, in the form of RFC 9110.
var entityTag = regexp.MustCompile(`^(W/)?"([\x21\x23-\x7e\x80-\xff]*)"\s*(?:,\s*|$)`)

// match reads the header. A weak tag never matches, because If-Match compares strongly. Without the
// header everything matches.
func (r IfMatch) match() (accounts.Match, error) {
	text := strings.TrimSpace(r.IfMatch)
	switch text {
	case "":
		return accounts.Match{}, nil
	case "*":
		return accounts.Match{Any: true}, nil
	}
	tags := []string{}
	for text != "" {
		found := entityTag.FindStringSubmatch(text)
		if found == nil {
			return accounts.Match{}, newErrorReply(http.StatusBadRequest, "the request cannot be read",
				&huma.ErrorDetail{Location: "header.If-Match", Message: `must be an ETag in quotes, such as "3-0c5f8f6b2f2e1d7a", several of them, or *`})
		}
		if found[1] == "" {
			tags = append(tags, found[2])
		}
		text = text[len(found[0]):]
	}
	return accounts.Match{Tags: tags}, nil
}

// misses reports whether the server demands the header and the request has none.
func (s *Server) misses(r IfMatch) bool {
	return s.options.RequireMatch && strings.TrimSpace(r.IfMatch) == ""
}

// matchOf reads the header of a change of an account that must exist.
func (s *Server) matchOf(r IfMatch) (accounts.Match, error) {
	if s.misses(r) {
		return accounts.Match{}, matchMissing()
	}
	return r.match()
}

func matchMissing() *errorReply {
	return newErrorReply(http.StatusPreconditionRequired,
		"this server changes and deletes an account only with If-Match: send the ETag that GET returns, or * for any")
}

// etagOf returns the ETag of an account's record. It changes only with the record, and not with
// the account's place.
func etagOf(v *accounts.View) string {
	if v.Tag == "" {
		return ""
	}
	return `"` + v.Tag + `"`
}

// changedReply is the reply when an account is not as the caller demands.
func changedReply() *errorReply {
	return newErrorReply(http.StatusPreconditionFailed,
		"the account is not as If-Match demands: somebody changed or deleted it, or it does not exist; get it again and repeat the change")
}
