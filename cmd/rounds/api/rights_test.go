package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/cmd/rounds/callback"
	"github.com/rounds-dev/rounds/cmd/rounds/mailbox"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
	"github.com/rounds-dev/rounds/poller/websub"
)

// withEverything returns an option that gives a server every optional route.
func withEverything(t *testing.T) func(*Options) {
	return func(o *Options) {
		o.Guide = http.NotFoundHandler()
		o.Reload = func(context.Context) (Reloaded, error) { return Reloaded{}, nil }
		o.Try = func(context.Context, trial.Request) (*trial.Report, error) { return &trial.Report{}, nil }
		o.Files = &shelf{ring: o.Ring, when: FilesAll, bytes: make(map[string]string)}
		o.Scan = &scan.Server{Kind: "plain", Validate: func(string) error { return nil }}
		o.Mailbox = []mailbox.Server{{Kind: "plain", Validate: func(string) error { return nil }, Hosts: func(string) []string { return nil }, Config: mailbox.ConfigOfIMAP, Own: mailbox.OwnOfIMAP}}
		o.Demo = &Demo{
			Pollers: func() []DemoPoller { return nil },
			Kill:    func(context.Context, string) error { return ErrNoPoller },
		}
		var err error
		if o.Callbacks, err = callback.New(o.Ring, nil, nil); err != nil {
			t.Fatal(err)
		}
		o.Hubs = callback.NewHubs(o.Ring, func(string, []byte) *websub.Subscription { return nil })
	}
}

// Each row of the table has a route, and each route has a row.
func TestEveryRouteHasARight(t *testing.T) {
	f := newFixture(t, withEverything(t))
	added := f.api.serving.Load().routes
	var rows []string
	for _, right := range Rights() {
		if slices.Contains(rows, right.Route) {
			t.Errorf("%s has two rows", right.Route)
		}
		rows = append(rows, right.Route)
		if !slices.Contains(added, right.Route) {
			t.Errorf("%s: there is a row, and no such route", right.Route)
		}
		if (right.Scope == scopeOpen) == right.Role.Valid() {
			t.Errorf("%s: %s for %s", right.Route, right.Scope, right.Role)
		}
		if changes := !strings.HasPrefix(right.Route, "GET "); changes && right.Role == access.Viewer {
			t.Errorf("%s: a viewer changes something", right.Route)
		}
	}
	for _, route := range added {
		if !slices.Contains(rows, route) {
			t.Errorf("%s: there is a route, and no row", route)
		}
	}
}

// A route cannot be added if the table lacks it, or has it as open where it is closed or
// the other way round.
func TestARouteWithoutARightIsRefused(t *testing.T) {
	for _, c := range []struct {
		open  bool
		route string
		ok    bool
	}{
		{false, "GET /v1/stats", true},
		{true, "GET /healthz", true},
		{false, "GET /v1/other", false},
		{true, "GET /v1/other", false},
		{true, "GET /v1/stats", false},   // would be open to all
		{false, "GET /healthz", false},   // would need a credential that its row does not demand
		{false, "POST /v1/stats", false}, // another method is another route
	} {
		m := newRouteMux(c.open, func(_ string, next http.Handler) http.Handler { return next })
		m.HandleFunc(c.route, func(http.ResponseWriter, *http.Request) {})
		if err := m.fault(); (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), c.route) {
			t.Errorf("%s, open %t: %v", c.route, c.open, err)
		}
		method, path, _ := strings.Cut(c.route, " ")
		if _, pattern := m.Handler(httptest.NewRequest(method, path, nil)); (pattern != "") != c.ok {
			t.Errorf("%s, open %t: it is there as %q", c.route, c.open, pattern)
		}
	}
}

func TestForbidden(t *testing.T) {
	viewer := access.Principal{Name: "ci", Role: access.Viewer, Via: access.ViaKey}
	bound := access.Principal{Name: "press", Role: access.Admin, Labels: access.Labels{"team": "press"}, Via: access.ViaKey}
	for _, c := range []struct {
		who  access.Principal
		row  Right
		want string // a part of the detail; empty: it is allowed
	}{
		{viewer, Right{"GET /v1/a", access.Viewer, scopeService}, ""},
		{viewer, Right{"GET /v1/a", access.Editor, scopeSelf}, `the role editor is needed, and "ci" has viewer`},
		{bound, Right{"GET /v1/a", access.Admin, scopeAccounts}, ""},
		{bound, Right{"GET /v1/a", access.Viewer, scopeService}, `"press" is bound to accounts with team=press`},
		{access.Principal{}, Right{"GET /v1/a", access.Viewer, scopeSelf}, "the role viewer is needed"},
		{access.Token(), Right{"GET /v1/a", 0, scopeSelf}, "the role none is needed"}, // a row without a role lets nobody in
		{access.Token(), Right{"GET /v1/a", access.Admin, scopeService}, ""},
	} {
		p := forbidden(c.who, c.row)
		switch {
		case c.want == "" && p != nil:
			t.Errorf("%s at %+v: %s", c.who.Name, c.row, p.Detail)
		case c.want != "" && (p == nil || p.Status != 403 || !strings.Contains(p.Detail, c.want) || len(p.Errors) != 1):
			t.Errorf("%s at %+v: %+v", c.who.Name, c.row, p)
		}
	}
}

// The description says the same as the table.
func TestTheDescriptionHasTheRights(t *testing.T) {
	f := newFixture(t, withEverything(t))
	var doc struct {
		Paths map[string]map[string]struct {
			Role      string `json:"x-rounds-role"`
			Scope     string `json:"x-rounds-scope"`
			Responses map[string]json.RawMessage
		}
	}
	f.call("GET", "/openapi.json", "", 200, &doc)
	for _, right := range Rights() {
		method, path, _ := strings.Cut(right.Route, " ")
		o, ok := doc.Paths[path][strings.ToLower(method)]
		if right.Scope == scopeOpen {
			if o.Role != "" {
				t.Errorf("%s: it is open to all, and needs %s", right.Route, o.Role)
			}
			continue
		}
		if !ok || o.Role != right.Role.String() || o.Scope != string(right.Scope) || o.Responses["403"] == nil || o.Responses["401"] == nil {
			t.Errorf("%s: described as %q, %q with %d answers", right.Route, o.Role, o.Scope, len(o.Responses))
		}
	}
}

// The guide's pages have the table as it is.
func TestTheGuideHasTheRights(t *testing.T) {
	var want strings.Builder
	for _, right := range Rights() {
		role := right.Role.String()
		if right.Scope == scopeOpen {
			role = "-"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", right.Route, role, right.Scope)
	}
	for name, titles := range map[string]string{"access.md": "| route | least role | scope |", "zh-CN/access.md": "| 接口 | 最低角色 | 范围 |"} {
		page, err := os.ReadFile("../../../deployments/guide/" + name)
		if err != nil {
			t.Fatal(err)
		}
		header := titles + "\n|---|---|---|\n"
		_, got, found := strings.Cut(string(page), header)
		got, _, _ = strings.Cut(got, "\n\n")
		if !found || strings.TrimSpace(got) != strings.TrimSpace(want.String()) {
			t.Errorf("the table of deployments/guide/%s must be\n%s%s", name, header, &want)
		}
	}
}
