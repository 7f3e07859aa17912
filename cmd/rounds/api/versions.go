package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// FieldChange is how a field of an account's record differs between two versions.
type FieldChange struct {
	Field  string          `json:"field" example:"config.url" doc:"Its name, such as cadence, or config.url for a member of config or labels."`
	Before json.RawMessage `json:"before,omitempty" doc:"Left out: it was not there."`
	After  json.RawMessage `json:"after,omitempty" doc:"Left out: it is not there any more."`
}

// AccountVersion is an account's record as it was before a change, with that change.
type AccountVersion struct {
	Version string    `json:"version" doc:"Its name, for a restore: the id of the change's entry in the trail."`
	Until   time.Time `json:"until" doc:"When the change replaced it."`
	By      string    `json:"by,omitempty" doc:"Who changed it: the name of a key or a person, token, or local."`
	Via     string    `json:"via,omitempty" doc:"How that principal was authenticated."`
	Address string    `json:"address,omitempty" doc:"The caller's address."`
	Action  string    `json:"action" example:"patch-account" doc:"The id of the operation."`

	Fields  []string        `json:"fields,omitempty" doc:"The names of the fields that the change changed."`
	Changes []FieldChange   `json:"changes" nullable:"false" doc:"What the change changed. Empty if that is not stored."`
	Record  json.RawMessage `json:"record,omitempty" doc:"The whole record before the change. *** stands for a value that has become a secret since. Left out if it is not stored: it was too long, or a process of an earlier version changed it."`
}

// AccountVersions are versions of an account's record.
type AccountVersions struct {
	Versions []AccountVersion `json:"versions" nullable:"false" doc:"The latest first. The record as it is now is not among them."`
	Back     time.Time        `json:"back,omitzero" doc:"How far back this page looked. Left out if there was nothing."`
	Next     string           `json:"next,omitempty" doc:"The cursor of the next page; left out on the last one. A page may be short, even empty, and not be the last."`
}

// RestoreRequest asks for an earlier version of an account's record.
type RestoreRequest struct {
	_       struct{} `additionalProperties:"false"`
	Version string   `json:"version" maxLength:"41" example:"1767225600000-0" doc:"The version, as the list of versions names it."`
	DryRun  bool     `json:"dry_run,omitempty" doc:"Change nothing, and say what would be changed."`
}

// Restored is what a restore has changed.
type Restored struct {
	Account Account       `json:"account" doc:"The account as it is now."`
	Changes []FieldChange `json:"changes" nullable:"false" doc:"What the restore changed, or would change. Empty: the record is the same already."`
	DryRun  bool          `json:"dry_run,omitempty" doc:"Nothing was changed."`
}

type versionsRequest struct {
	AccountID
	Limit  int    `query:"limit" default:"20" minimum:"1" maximum:"100" doc:"At most this many."`
	Cursor string `query:"cursor" doc:"The previous page's next."`
}

type restoreRequest struct {
	AccountID
	IfMatch
	Body RestoreRequest
}

type restoredReply struct {
	ETag string `header:"ETag" doc:"The ETag of the record, for If-Match."`
	Body Restored
}

// versionRoutes adds the routes of earlier versions of records.
func (s *Server) versionRoutes(api huma.API) {
	answer(s, api, "list account's versions", huma.Operation{
		OperationID: "list-account-versions", Method: http.MethodGet, Path: "/v1/accounts/{id}/versions", Tags: []string{"accounts"},
		Summary: "Earlier versions of an account's record",
		Description: "The record as it was before each change that the trail still has, with who changed what. As many are stored as the trail has entries, see ROUNDS_TRAIL_KEPT. " +
			"Changes of many accounts, and an address that was followed, replace no version. 404 if there is no such account now.",
		Errors: []int{401, 404, 422, 503},
	}, s.listVersions)
	register(s, api, "restore account", huma.Operation{
		OperationID: "restore-account", Method: http.MethodPost, Path: "/v1/accounts/{id}/restore", Tags: []string{"accounts"},
		Summary: "Give an account an earlier version of its record back",
		Description: "A change like any other: it is judged, refused with 422 if the record is not valid now, stands in the trail, and can be taken back in the same way. Values that are *** in the version stay as they are now. " +
			"The cursor stays unless the kind changes. With dry_run nothing is changed. 404 if the trail does not have that version, or not any more.",
		MaxBodyBytes: maxTermBody, Errors: []int{400, 401, 404, 412, 422, 428, 503},
	}, s.restoreAccount)
}

func fieldChangesOf(all []accounts.FieldChange) []FieldChange {
	return each(all, func(c *accounts.FieldChange) FieldChange { return FieldChange(*c) })
}

func (s *Server) listVersions(ctx context.Context, r *versionsRequest) (AccountVersions, error) {
	registry := s.registry(ctx)
	now, err := registry.Get(ctx, r.ID)
	if err != nil {
		return AccountVersions{}, err
	}
	page, err := s.options.Trail.Look(ctx, trail.Query{Account: r.ID, Versions: true, Limit: r.Limit, Cursor: r.Cursor})
	if err != nil {
		return AccountVersions{}, err
	}
	// Entries from before the registration are about another account of this id, and those with other
	// labels are not for a bound principal to see.
	page.Entries = slices.DeleteFunc(page.Entries, func(e trail.Entry) bool {
		return e.At.Before(now.Revision.Created) || boundTo(ctx) != "" && !registry.Shown(e.Record)
	})
	return AccountVersions{Versions: each(page.Entries, versionOf), Back: inUTC(page.Back), Next: page.Next}, nil
}

func versionOf(e *trail.Entry) AccountVersion {
	was := accounts.Replaced{Record: e.Record, Patch: e.Patch}
	return AccountVersion{
		Version: e.ID, Until: inUTC(e.At), By: e.By, Via: string(e.Via), Address: e.Address, Action: e.Action,
		Fields: e.Fields, Changes: fieldChangesOf(was.Changes()), Record: e.Record,
	}
}

// version returns an earlier record of an account.
func (s *Server) version(ctx context.Context, registry *accounts.Registry, id, version string) (json.RawMessage, error) {
	now, err := registry.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	e, found, err := s.options.Trail.Version(ctx, id, version)
	switch {
	case err != nil:
		return nil, err
	case !found || e.At.Before(now.Revision.Created) || boundTo(ctx) != "" && !registry.Shown(e.Record):
		return nil, newErrorReply(http.StatusNotFound, fmt.Sprintf("the trail does not have the version %q of this account: list its versions, and take one that has a record", version))
	}
	return e.Record, nil
}

func (s *Server) restoreAccount(ctx context.Context, r *restoreRequest) (*restoredReply, error) {
	draft, registry := trail.Of(ctx), s.registry(ctx)
	draft.Subject("version", r.Body.Version)
	if r.Body.DryRun {
		draft.LookOnly()
	}
	record, err := s.version(ctx, registry, r.ID, r.Body.Version)
	if err != nil {
		return nil, err
	}
	var view accounts.View
	var changes []accounts.FieldChange
	if r.Body.DryRun {
		view, changes, err = registry.WouldRestore(ctx, r.ID, record)
	} else {
		var match accounts.Match
		var change circulate.Registered
		if match, err = s.matchOf(r.IfMatch); err != nil {
			return nil, err
		}
		if view, change, err = registry.Restore(ctx, r.ID, record, match); err == nil {
			noteChange(ctx, &view, change)
			changes = view.Replaced.Changes()
		}
	}
	return &restoredReply{ETag: etagOf(&view), Body: Restored{Account: accountOf(&view), Changes: fieldChangesOf(changes), DryRun: r.Body.DryRun}}, err
}
