package pages

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	viewsPath   = "/views" // saves and removes views
	routeViews  = "GET /v1/views"
	routeView   = "PUT /v1/views/{name}"
	routeUnview = "DELETE /v1/views/{name}"
)

// savedViews are the views of a list that people have saved, and what of the list can be saved now.
type savedViews struct {
	Of       string
	Views    []shownView
	Query    string // what can be saved, as a part of an address; empty: the whole list
	Here     string // the name of the view that the page shows; empty: none
	MaySave  bool
	MayUnset bool
}

// shownView is a saved view with its address.
type shownView struct {
	Name, Path string
}

// views returns the views of the list at /OF, such as accounts, while the page shows a query of it.
func (v *visit) views(of string, query url.Values) *savedViews {
	if v.lives() || !v.May(routeViews) {
		return nil
	}
	s := &savedViews{Of: of, Query: query.Encode(), MaySave: v.May(routeView), MayUnset: v.May(routeUnview)}
	var all api.SavedViewList
	if err := v.shared("/v1/views", &all); err != nil {
		return nil // the list is worth showing without them
	}
	for i := range all.Views {
		one := &all.Views[i]
		if one.Of != of {
			continue
		}
		s.Views = append(s.Views, shownView{one.Name, address("/"+of, one.Query)})
		if sameQuery(one.Query, query) {
			s.Here = one.Name
		}
	}
	return s
}

// sameQuery reports whether two queries have the same values, in whatever order.
func sameQuery(a, b url.Values) bool {
	if len(a) != len(b) {
		return false
	}
	for name, values := range a {
		if !slices.Equal(slices.Sorted(slices.Values(values)), slices.Sorted(slices.Values(b[name]))) {
			return false
		}
	}
	return true
}

// doView saves a view, or removes one.
func doView(v *visit) (string, error) {
	form := v.r.PostForm
	name, of := strings.TrimSpace(form.Get("name")), form.Get("of")
	if of != "messages" {
		of = "accounts"
	}
	query, err := url.ParseQuery(form.Get("query"))
	if err != nil {
		return "", v.unreadable()
	}
	path := "/v1/views/" + segment(cmp.Or(name, "-"))
	switch form.Get("do") {
	case "save":
		if v.May(routeView) { // otherwise the API refuses it
			if name == "" {
				return "", refusal(http.StatusUnprocessableEntity, v.lang.text("views.no_name"))
			}
			var all api.SavedViewList
			if err := v.get("/v1/views", &all); err != nil {
				return "", err
			}
			// Who names a view does not see those of the other list.
			if slices.ContainsFunc(all.Views, func(one api.SavedView) bool { return one.Name == name }) {
				return "", refusal(http.StatusConflict, v.lang.text("views.taken", name))
			}
		}
		if err := v.do(http.MethodPut, path, api.SavedViewRequest{Of: of, Query: query}, nil); err != nil {
			return "", err
		}
		return withSaid(address("/"+of, query), "views.saved"), nil
	case "remove":
		if err := v.do(http.MethodDelete, path, nil, nil); err != nil {
			return "", err
		}
		return withSaid(address("/"+of, query), "views.removed"), nil
	}
	return "", v.unknownAction()
}
