package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/maintenance"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// maxTermBody is the most bytes of a request with a maintenance window or a silence.
const maxTermBody = 64 << 10

// MaintenanceRequest is a maintenance window to store.
type MaintenanceRequest struct {
	_      struct{}          `additionalProperties:"false"`
	Host   string            `json:"host,omitempty" maxLength:"255" example:"news.example.org" doc:"Accounts at this host or corporation, as problems show it; a port may be left out."`
	Labels map[string]string `json:"labels,omitempty" doc:"Accounts with all of these labels; with a host, those of them at the host."`
	From   time.Time         `json:"from,omitzero" doc:"When it begins, within 90 days; left out: now."`
	Until  time.Time         `json:"until,omitzero" doc:"When it ends, at most 30 days after its begin. Either until or lasts is needed."`
	Lasts  string            `json:"lasts,omitempty" example:"4h" doc:"How long it lasts, such as 4h or 2d, in place of until."`
	Reason string            `json:"reason" maxLength:"512" example:"the provider moves its servers" doc:"Why, for those who see it."`
}

// MaintenanceWindow is a time in which the failures of some accounts count nowhere.
type MaintenanceWindow struct {
	Name   string            `json:"name"`
	Host   string            `json:"host,omitempty" doc:"Accounts at this host or corporation."`
	Labels map[string]string `json:"labels,omitempty" doc:"Accounts with all of these labels."`
	From   time.Time         `json:"from"`
	Until  time.Time         `json:"until"`
	Open   bool              `json:"open" doc:"It has begun."`
	Reason string            `json:"reason"`
	By     string            `json:"by,omitempty" doc:"Who stored it."`
}

// Whom says in a few words which accounts a window is about.
func (w *MaintenanceWindow) Whom() string {
	parts := make([]string, 0, 2)
	if w.Host != "" {
		parts = append(parts, w.Host)
	}
	if len(w.Labels) > 0 {
		parts = append(parts, access.Labels(w.Labels).String())
	}
	return strings.Join(parts, " ")
}

// MaintenanceList is all maintenance windows that have not ended.
type MaintenanceList struct {
	Now     time.Time           `json:"now" doc:"By Redis' clock."`
	Windows []MaintenanceWindow `json:"windows" nullable:"false" doc:"The first to begin first."`
}

// MaintenanceName is the window in a path.
type MaintenanceName struct {
	Name string `path:"name" maxLength:"64" doc:"The window's name: letters, digits, dots, dashes or underscores."`
}

// maintenanceRoutes adds the routes of maintenance windows.
func (s *Server) maintenanceRoutes(api huma.API) {
	answer(s, api, "list maintenance windows", huma.Operation{
		OperationID: "list-maintenance", Method: http.MethodGet, Path: "/v1/maintenance", Tags: []string{"service"},
		Summary: "List maintenance windows", Description: "Those that are under way or still to come. One that has ended is gone.", Errors: []int{401, 503},
	}, s.listMaintenance)
	answer(s, api, "put maintenance window", huma.Operation{
		OperationID: "put-maintenance", Method: http.MethodPut, Path: "/v1/maintenance/{name}", Tags: []string{"service"},
		Summary: "Store a maintenance window, or change it",
		Description: "While it lasts, checks of the accounts that it is about go on, and those that fail count nowhere: they use up no retry budget, park nothing, and the accounts are not among the failing ones. " +
			"Pollers know of it within their next heartbeat, two seconds as a rule. At its end failures count again by themselves. " +
			"Pollers of a version without windows count failures as ever, so update all of them first. 409 if there are 128 windows.",
		MaxBodyBytes: maxTermBody, Errors: []int{401, 409, 422, 503},
	}, s.putMaintenance)
	register(s, api, "end maintenance window", huma.Operation{
		OperationID: "end-maintenance", Method: http.MethodDelete, Path: "/v1/maintenance/{name}", Tags: []string{"service"},
		Summary: "End a maintenance window, or call it off", Description: "Failures count again within the pollers' next heartbeat.",
		Errors: []int{401, 404, 503},
	}, s.endMaintenance)
}

func maintenanceOf(w *maintenance.Window, now time.Time) MaintenanceWindow {
	return MaintenanceWindow{
		Name: w.Name, Host: w.Host, Labels: w.Labels, From: inUTC(w.From), Until: inUTC(w.Until), Open: w.Open(now), Reason: w.Reason, By: w.By,
	}
}

func (s *Server) listMaintenance(ctx context.Context, _ *struct{}) (MaintenanceList, error) {
	all, now, err := maintenance.Of(s.options.Ring).All(ctx)
	return MaintenanceList{now.UTC(), each(all, func(w *maintenance.Window) MaintenanceWindow { return maintenanceOf(w, now) })}, err
}

// maintains returns the windows under way that an account is in.
func (s *Server) maintains(ctx context.Context, e *accounts.Explanation) ([]MaintenanceWindow, error) {
	all, now, err := maintenance.Of(s.options.Ring).All(ctx)
	var found []MaintenanceWindow
	where := accounts.WhereConfig(e.Config)
	_, shared, _ := strings.Cut(e.Shares, "/")
	for i := range all {
		if w := &all[i]; w.Open(now) && w.Covers(&e.Account, where, shared) {
			found = append(found, maintenanceOf(w, now))
		}
	}
	return found, err
}

// termOf returns when something ends that lasts until a time or for a while, from a time on.
func termOf(until time.Time, lasts string, from time.Time, faults *accounts.Faults) time.Time {
	switch {
	case until.IsZero() == (lasts == ""):
		faults.Add("until", "give either until or lasts")
	case lasts != "":
		d, err := key.ParseLife(lasts)
		if err != nil {
			faults.Add("lasts", err.Error())
		}
		until = from.Add(d)
	}
	return until
}

func (s *Server) putMaintenance(ctx context.Context, r *struct {
	MaintenanceName
	Body MaintenanceRequest
}) (MaintenanceWindow, error) {
	caller, _ := access.From(ctx)
	trail.Of(ctx).Subject("maintenance", r.Name)
	now, err := s.options.Ring.Now(ctx, 0)
	if err != nil {
		return MaintenanceWindow{}, err
	}
	w := maintenance.Window{Name: r.Name, Host: r.Body.Host, Labels: r.Body.Labels, From: r.Body.From, Reason: r.Body.Reason, By: caller.Name}
	if w.From.IsZero() {
		w.From = now
	}
	var faults accounts.Faults
	if w.Until = termOf(r.Body.Until, r.Body.Lasts, w.From, &faults); len(faults) > 0 {
		return MaintenanceWindow{}, faulty(faults)
	}
	w, err = maintenance.Of(s.options.Ring).Put(ctx, w)
	switch {
	case errors.As(err, &faults):
		return MaintenanceWindow{}, faulty(faults)
	case errors.Is(err, maintenance.ErrFull):
		return MaintenanceWindow{}, newErrorReply(http.StatusConflict, fmt.Sprintf("there are %d maintenance windows, which is the most there may be; end one first", maintenance.Most))
	case err != nil:
		return MaintenanceWindow{}, err
	}
	s.options.Log.InfoContext(ctx, "a maintenance window was stored", "window", w.Name, "host", w.Host, "labels", access.Labels(w.Labels).String(), "from", w.From, "until", w.Until, "by", cmp.Or(caller.Name, "-"))
	return maintenanceOf(&w, now), nil
}

func (s *Server) endMaintenance(ctx context.Context, r *MaintenanceName) (*struct{}, error) {
	trail.Of(ctx).Subject("maintenance", r.Name)
	there, err := maintenance.Of(s.options.Ring).Remove(ctx, r.Name)
	if err == nil && !there {
		return nil, newErrorReply(http.StatusNotFound, "no maintenance window has this name")
	}
	return nil, err
}
