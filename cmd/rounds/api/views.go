package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/savedview"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// SavedViewRequest is a view to save.
type SavedViewRequest struct {
	_     struct{}            `additionalProperties:"false"`
	Of    string              `json:"of" enum:"accounts,messages" doc:"The list that it is of."`
	Query map[string][]string `json:"query" example:"{\"state\":[\"failing\"],\"label\":[\"team=press\"]}" doc:"Parameters and their values. Of accounts: those that select accounts in GET /v1/accounts, sort, and col for the columns that the dashboard shows. Of messages: text, sender, account, kind, type, from and to, as in GET /v1/messages:search."`
}

// SavedView is a name for a query of a list.
type SavedView struct {
	Name  string              `json:"name"`
	Of    string              `json:"of" enum:"accounts,messages" doc:"The list that it is of."`
	Query map[string][]string `json:"query" doc:"Parameters and their values."`
	At    time.Time           `json:"at" doc:"When it was saved, by Redis' clock."`
	By    string              `json:"by,omitempty" doc:"Who saved it."`
}

// Text returns the query as a part of an address.
func (v *SavedView) Text() string { return url.Values(v.Query).Encode() }

// SavedViewList is all saved views.
type SavedViewList struct {
	Views []SavedView `json:"views" nullable:"false" doc:"By their names."`
}

// SavedViewName is the view in a path.
type SavedViewName struct {
	Name string `path:"name" maxLength:"64" doc:"The view's name: 1 to 64 printable characters."`
}

// viewRoutes adds the routes of saved views.
func (s *Server) viewRoutes(api huma.API) {
	answer(s, api, "list saved views", huma.Operation{
		OperationID: "list-views", Method: http.MethodGet, Path: "/v1/views", Tags: []string{"service"},
		Summary: "List saved views", Description: "Names that people gave to queries of accounts and of messages. Everybody who may see all accounts has the same.", Errors: []int{401, 503},
	}, s.listViews)
	answer(s, api, "put saved view", huma.Operation{
		OperationID: "put-view", Method: http.MethodPut, Path: "/v1/views/{name}", Tags: []string{"service"},
		Summary: "Save a view, or change it", Description: "A view stays until somebody removes it. 409 if there are 128.",
		MaxBodyBytes: maxTermBody, Errors: []int{401, 409, 422, 503},
	}, s.putView)
	register(s, api, "remove saved view", huma.Operation{
		OperationID: "remove-view", Method: http.MethodDelete, Path: "/v1/views/{name}", Tags: []string{"service"},
		Summary: "Remove a saved view", Errors: []int{401, 404, 503},
	}, s.removeView)
}

func viewOf(v *savedview.View) SavedView {
	return SavedView{Name: v.Name, Of: v.Of, Query: v.Query, At: inUTC(v.At), By: v.By}
}

func (s *Server) listViews(ctx context.Context, _ *struct{}) (SavedViewList, error) {
	all, err := savedview.Of(s.options.Ring).All(ctx)
	return SavedViewList{each(all, viewOf)}, err
}

func (s *Server) putView(ctx context.Context, r *struct {
	SavedViewName
	Body SavedViewRequest
}) (SavedView, error) {
	caller, _ := access.From(ctx)
	trail.Of(ctx).Subject("view", r.Name)
	v, err := savedview.Of(s.options.Ring).Put(ctx, savedview.View{Name: r.Name, Of: r.Body.Of, Query: r.Body.Query, By: caller.Name})
	var faults accounts.Faults
	switch {
	case errors.As(err, &faults):
		return SavedView{}, faulty(faults)
	case errors.Is(err, savedview.ErrFull):
		return SavedView{}, newErrorReply(http.StatusConflict, fmt.Sprintf("there are %d saved views, which is the most there may be; remove one first", savedview.Most))
	case err != nil:
		return SavedView{}, err
	}
	return viewOf(&v), nil
}

func (s *Server) removeView(ctx context.Context, r *SavedViewName) (*struct{}, error) {
	trail.Of(ctx).Subject("view", r.Name)
	there, err := savedview.Of(s.options.Ring).Remove(ctx, r.Name)
	if err == nil && !there {
		return nil, newErrorReply(http.StatusNotFound, "no saved view has this name")
	}
	return nil, err
}
