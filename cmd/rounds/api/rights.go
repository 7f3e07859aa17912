package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/access"
)

// Scope says which accounts a route is about. It decides how the route treats a principal
// that is bound to labels.
type Scope string

// The scopes.
const (
	// ScopeOpen routes need no credential. They reveal nothing about accounts, or their
	// requests are signed.
	ScopeOpen Scope = "open"
	// ScopeSelf routes are about the caller, or about no account. Labels do not matter.
	ScopeSelf Scope = "self"
	// ScopeAccount routes are about one account. For a principal that is bound, an account
	// without its labels does not exist: 404.
	ScopeAccount Scope = "account"
	// ScopeAccounts routes are about many accounts, or their messages. A principal that is
	// bound sees, counts and changes only accounts with its labels.
	ScopeAccounts Scope = "accounts"
	// ScopeService routes are about all accounts together, or about none. A principal that
	// is bound is refused: 403.
	ScopeService Scope = "service"
)

// Right says what a route demands of its caller.
type Right struct {
	Route string      // its pattern, as http.ServeMux has it
	Role  access.Role // the least role; none if the scope is open
	Scope Scope
}

// Rights returns the table of all routes. A route without a row cannot be added, and the guide
// shows the table.
func Rights() []Right {
	return []Right{
		{"GET /healthz", 0, ScopeOpen},
		{"GET /readyz", 0, ScopeOpen},
		{"GET /docs", 0, ScopeOpen},
		{"GET /docs/{file}", 0, ScopeOpen},
		{"GET " + GuidePath, 0, ScopeOpen},
		{"GET " + GuidePath + "/", 0, ScopeOpen},
		{"GET /v1/callbacks/wecom/{name}", 0, ScopeOpen},
		{"POST /v1/callbacks/wecom/{name}", 0, ScopeOpen},

		{"GET /signin", 0, ScopeOpen},
		{"POST /signin", 0, ScopeOpen},
		{"POST /signout", 0, ScopeOpen},
		{"GET /signin/start", 0, ScopeOpen},
		{"GET /signin/callback", 0, ScopeOpen},
		{"GET /signin/signin.css", 0, ScopeOpen},
		{"POST /v1/session", 0, ScopeOpen},
		{"DELETE /v1/session", 0, ScopeOpen},
		{"GET /v1/session", access.Viewer, ScopeSelf},

		{"GET /openapi.json", access.Viewer, ScopeSelf},
		{"GET /v1/whoami", access.Viewer, ScopeSelf},

		{"GET /v1/kinds", access.Viewer, ScopeSelf},
		{"GET /v1/accounts", access.Viewer, ScopeAccounts},
		{"POST /v1/accounts", access.Editor, ScopeAccount},
		{"GET /v1/accounts/{id}", access.Viewer, ScopeAccount},
		{"PUT /v1/accounts/{id}", access.Editor, ScopeAccount},
		{"PATCH /v1/accounts/{id}", access.Editor, ScopeAccount},
		{"DELETE /v1/accounts/{id}", access.Editor, ScopeAccount},
		{"GET /v1/accounts/{id}/schedule", access.Viewer, ScopeAccount},
		{"GET /v1/accounts/{id}/timeline", access.Viewer, ScopeAccount},
		{"GET /v1/accounts/{id}/trail", access.Viewer, ScopeAccount},
		{"POST /v1/accounts/{id}/pause", access.Operator, ScopeAccount},
		{"POST /v1/accounts/{id}/resume", access.Operator, ScopeAccount},
		{"POST /v1/accounts/{id}/nudge", access.Operator, ScopeAccount},
		{"GET /v1/accounts:count", access.Viewer, ScopeAccounts},
		{"GET /v1/accounts:export", access.Viewer, ScopeAccounts},
		{"POST /v1/accounts:check", access.Editor, ScopeAccount},
		{"POST /v1/accounts:import", access.Editor, ScopeAccounts},
		{"POST /v1/accounts:pause", access.Operator, ScopeAccounts},
		{"POST /v1/accounts:resume", access.Operator, ScopeAccounts},
		{"POST /v1/accounts:delete", access.Editor, ScopeAccounts},
		{"POST /v1/accounts:nudge", access.Operator, ScopeAccounts},
		{"POST /v1/weixin/logins", access.Editor, ScopeService},
		{"GET /v1/weixin/logins/{login}", access.Editor, ScopeService},
		{"POST /v1/weixin/logins/{login}/code", access.Editor, ScopeService},
		{"DELETE /v1/weixin/logins/{login}", access.Editor, ScopeService},
		{"GET /v1/parked", access.Viewer, ScopeAccounts},
		{"POST /v1/parked:revive", access.Operator, ScopeAccounts},
		{"GET /v1/messages", access.Viewer, ScopeAccounts},
		{"GET /v1/messages/{ref}", access.Viewer, ScopeAccounts},
		{"GET /v1/stats", access.Viewer, ScopeAccounts},
		{"GET /v1/history", access.Viewer, ScopeService},
		{"GET /v1/problems", access.Viewer, ScopeAccounts},

		{"GET /v1/groups", access.Viewer, ScopeService},
		{"POST /v1/groups/{name}/read", access.Operator, ScopeService},
		{"DELETE /v1/groups/{name}", access.Admin, ScopeService},
		{"GET /v1/dead", access.Viewer, ScopeService},
		{"GET /v1/dead/{id}", access.Viewer, ScopeService},
		{"POST /v1/dead:replay", access.Operator, ScopeService},
		{"POST /v1/dead:drop", access.Editor, ScopeService},
		{"GET /v1/limits", access.Viewer, ScopeService},
		{"GET /v1/credentials", access.Viewer, ScopeService},
		{"GET /v1/webhooks", access.Viewer, ScopeService},
		{"GET /v1/webhooks/{name}", access.Viewer, ScopeService},
		{"POST /v1/webhooks/{name}/retry", access.Operator, ScopeService},
		{"POST /v1/webhooks/{name}/skip", access.Operator, ScopeService},
		{"POST /v1/webhooks/{name}/enable", access.Admin, ScopeService},

		{"GET /v1/trail", access.Admin, ScopeService},
		{"GET /v1/concerns", access.Viewer, ScopeService},
		{"GET /v1/system", access.Viewer, ScopeService},
		{"GET /v1/law", access.Viewer, ScopeService},
		{"GET /v1/audit", access.Viewer, ScopeService},
		{"POST /v1/audit:repair", access.Admin, ScopeService},
		{"GET /v1/backup", access.Admin, ScopeService},
		{"GET /v1/reshard", access.Viewer, ScopeService},
		{"POST /v1/reshard", access.Admin, ScopeService},
		{"POST /v1/reshard:abort", access.Admin, ScopeService},
		{"POST /v1/reshard:finish", access.Admin, ScopeService},
		{"GET /v1/keys", access.Admin, ScopeService},
		{"POST /v1/keys", access.Admin, ScopeService},
		{"DELETE /v1/keys/{name}", access.Admin, ScopeService},
		{"GET /v1/secrets", access.Admin, ScopeService},
		{"PUT /v1/secrets/{name}", access.Admin, ScopeService},
		{"DELETE /v1/secrets/{name}", access.Admin, ScopeService},
		{"POST /v1/reload", access.Admin, ScopeService},
		{"GET /v1/demo", access.Viewer, ScopeService},
		{"POST /v1/demo:kill", access.Admin, ScopeService},
		{"GET /metrics", access.Viewer, ScopeService},
	}
}

// describeRights adds each operation's row of Rights to the description: in words, and as
// x-rounds-role and x-rounds-scope. It also adds the responses to refused callers.
func (d describer) describeRights(doc *huma.OpenAPI) {
	for _, right := range Rights() {
		method, path, _ := strings.Cut(right.Route, " ")
		item := doc.Paths[path]
		if right.Scope == ScopeOpen || item == nil {
			continue
		}
		o := map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put,
			http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
		}[method]
		if o == nil {
			continue
		}
		needs := "Needs the role " + right.Role.String()
		switch right.Scope {
		case ScopeAccount:
			needs += ". A key that is bound to labels meets only accounts with them."
		case ScopeAccounts:
			needs += ". With a key that is bound to labels it is about accounts with them alone."
		case ScopeService:
			needs += ", and a key that is not bound to labels."
		default:
			needs += "."
		}
		o.Description = strings.TrimSpace(o.Description + "\n\n" + needs)
		if o.Extensions == nil {
			o.Extensions = make(map[string]any)
		}
		o.Extensions["x-rounds-role"], o.Extensions["x-rounds-scope"] = right.Role.String(), string(right.Scope)
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable} {
			if o.Responses[strconv.Itoa(status)] == nil {
				d.problems(o, status)
			}
		}
	}
}
