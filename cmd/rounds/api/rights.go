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
	// scopeOpen routes need no credential. They reveal nothing about accounts, or their
	// requests are signed.
	scopeOpen Scope = "open"
	// scopeSelf routes are about the caller, or about no account. Labels do not matter.
	scopeSelf Scope = "self"
	// scopeAccount routes are about one account. For a bound principal, an account without
	// its labels does not exist: 404.
	scopeAccount Scope = "account"
	// scopeAccounts routes are about many accounts, or their messages. A bound principal
	// sees, counts and changes only accounts with its labels.
	scopeAccounts Scope = "accounts"
	// scopeService routes are about all accounts together, or about none. A bound
	// principal is refused: 403.
	scopeService Scope = "service"
)

// Right says what a route demands of its caller.
type Right struct {
	Route string      // its pattern, in the form of http.ServeMux
	Role  access.Role // the least role; none if the scope is open
	Scope Scope
}

// Rights returns the table of all routes. A route without a row cannot be added, and the guide
// shows the table.
func Rights() []Right {
	return []Right{
		{"GET /healthz", 0, scopeOpen},
		{"GET /readyz", 0, scopeOpen},
		{"GET /docs", 0, scopeOpen},
		{"GET /docs/{file}", 0, scopeOpen},
		{"GET " + GuidePath, 0, scopeOpen},
		{"GET " + GuidePath + "/", 0, scopeOpen},
		{"GET /v1/callbacks/wecom/{name}", 0, scopeOpen},
		{"POST /v1/callbacks/wecom/{name}", 0, scopeOpen},
		{"GET /v1/callbacks/websub/{account}/{token}", 0, scopeOpen},
		{"POST /v1/callbacks/websub/{account}/{token}", 0, scopeOpen},
		{"GET /v1/links/{ref}/{n}", 0, scopeOpen},

		{"GET /signin", 0, scopeOpen},
		{"POST /signin", 0, scopeOpen},
		{"POST /signout", 0, scopeOpen},
		{"GET /signin/start", 0, scopeOpen},
		{"GET /signin/callback", 0, scopeOpen},
		{"GET /signin/signin.css", 0, scopeOpen},
		{"POST /v1/session", 0, scopeOpen},
		{"DELETE /v1/session", 0, scopeOpen},
		{"GET /v1/session", access.Viewer, scopeSelf},

		{"GET /openapi.json", access.Viewer, scopeSelf},
		{"GET /v1/whoami", access.Viewer, scopeSelf},

		{"GET /v1/kinds", access.Viewer, scopeSelf},
		{"GET /v1/accounts", access.Viewer, scopeAccounts},
		{"POST /v1/accounts", access.Editor, scopeAccount},
		{"GET /v1/accounts/{id}", access.Viewer, scopeAccount},
		{"PUT /v1/accounts/{id}", access.Editor, scopeAccount},
		{"PATCH /v1/accounts/{id}", access.Editor, scopeAccount},
		{"DELETE /v1/accounts/{id}", access.Editor, scopeAccount},
		{"GET /v1/accounts/{id}/schedule", access.Viewer, scopeAccount},
		{"GET /v1/accounts/{id}/timeline", access.Viewer, scopeAccount},
		{"GET /v1/accounts/{id}/conversations", access.Viewer, scopeAccount},
		{"GET /v1/accounts/{id}/trail", access.Viewer, scopeAccount},
		{"GET /v1/accounts/{id}/versions", access.Viewer, scopeAccount},
		{"GET /v1/accounts/{id}/checks", access.Viewer, scopeAccount},
		{"POST /v1/accounts/{id}/restore", access.Editor, scopeAccount},
		{"POST /v1/accounts/{id}/sends", access.Sender, scopeAccount},
		{"POST /v1/accounts/{id}/pause", access.Operator, scopeAccount},
		{"POST /v1/accounts/{id}/resume", access.Operator, scopeAccount},
		{"POST /v1/accounts/{id}/nudge", access.Operator, scopeAccount},
		{"GET /v1/accounts:count", access.Viewer, scopeAccounts},
		{"GET /v1/accounts:export", access.Viewer, scopeAccounts},
		{"POST /v1/accounts:check", access.Editor, scopeAccount},
		{"POST /v1/accounts:import", access.Editor, scopeAccounts},
		{"POST /v1/accounts:pause", access.Operator, scopeAccounts},
		{"POST /v1/accounts:resume", access.Operator, scopeAccounts},
		{"POST /v1/accounts:delete", access.Editor, scopeAccounts},
		{"POST /v1/accounts:nudge", access.Operator, scopeAccounts},
		{"POST /v1/accounts:retry", access.Operator, scopeAccounts},
		{"POST /v1/accounts:set", access.Editor, scopeAccounts},
		{"GET /v1/jobs", access.Viewer, scopeAccounts},
		{"GET /v1/jobs/{id}", access.Viewer, scopeAccounts},
		{"POST /v1/jobs/{id}/stop", access.Operator, scopeAccounts},
		{"POST /v1/jobs/{id}/resume", access.Operator, scopeAccounts},
		{"POST /v1/jobs/{id}/undo", access.Operator, scopeAccounts},
		{"POST /v1/weixin/logins", access.Editor, scopeService},
		{"GET /v1/weixin/logins/{login}", access.Editor, scopeService},
		{"POST /v1/weixin/logins/{login}/code", access.Editor, scopeService},
		{"DELETE /v1/weixin/logins/{login}", access.Editor, scopeService},
		{"POST /v1/mail/logins", access.Editor, scopeService},
		{"GET /v1/mail/logins/{login}", access.Editor, scopeService},
		{"POST /v1/mail/logins/{login}/code", access.Editor, scopeService},
		{"DELETE /v1/mail/logins/{login}", access.Editor, scopeService},
		{"GET /v1/parked", access.Viewer, scopeAccounts},
		{"POST /v1/parked:revive", access.Operator, scopeAccounts},
		{"GET /v1/messages", access.Viewer, scopeAccounts},
		{"GET /v1/messages:search", access.Viewer, scopeAccounts},
		{"GET /v1/messages/{ref}", access.Viewer, scopeAccounts},
		{"GET /v1/messages/{ref}/files/{n}", access.Viewer, scopeAccounts},
		{"GET /v1/messages/{ref}/files/{n}/thumbnail", access.Viewer, scopeAccounts},
		{"POST /v1/files", access.Sender, scopeAccount},
		{"GET /v1/sends", access.Viewer, scopeAccounts},
		{"GET /v1/sends/{id}", access.Viewer, scopeAccount},
		{"GET /v1/sends/{id}/file", access.Viewer, scopeAccount},
		{"GET /v1/sends/{id}/file/thumbnail", access.Viewer, scopeAccount},
		{"POST /v1/sends/{id}/cancel", access.Sender, scopeAccount},
		{"POST /v1/sends/{id}/retry", access.Sender, scopeAccount},
		{"POST /v1/sends/{id}/resolve", access.Sender, scopeAccount},
		{"GET /v1/stats", access.Viewer, scopeAccounts},
		{"GET /v1/history", access.Viewer, scopeService},
		{"GET /v1/activity", access.Viewer, scopeService},
		{"GET /v1/problems", access.Viewer, scopeAccounts},

		{"GET /v1/groups", access.Viewer, scopeService},
		{"POST /v1/groups/{name}/read", access.Operator, scopeService},
		{"DELETE /v1/groups/{name}", access.Admin, scopeService},
		{"GET /v1/dead", access.Viewer, scopeService},
		{"GET /v1/dead/{id}", access.Viewer, scopeService},
		{"GET /v1/dead/{id}/files/{n}", access.Viewer, scopeService},
		{"POST /v1/dead:replay", access.Operator, scopeService},
		{"POST /v1/dead:drop", access.Editor, scopeService},
		{"GET /v1/limits", access.Viewer, scopeService},
		{"GET /v1/credentials", access.Viewer, scopeService},
		{"GET /v1/maintenance", access.Viewer, scopeService},
		{"PUT /v1/maintenance/{name}", access.Operator, scopeService},
		{"DELETE /v1/maintenance/{name}", access.Operator, scopeService},
		{"GET /v1/views", access.Viewer, scopeService},
		{"PUT /v1/views/{name}", access.Operator, scopeService},
		{"DELETE /v1/views/{name}", access.Operator, scopeService},
		{"GET /v1/webhooks", access.Viewer, scopeService},
		{"GET /v1/webhooks/{name}", access.Viewer, scopeService},
		{"GET /v1/webhooks:types", access.Viewer, scopeService},
		{"GET /v1/webhooks/{name}/attempts", access.Viewer, scopeService},
		{"PUT /v1/webhooks/{name}", access.Admin, scopeService},
		{"DELETE /v1/webhooks/{name}", access.Admin, scopeService},
		{"POST /v1/webhooks/{name}/test", access.Operator, scopeService},
		{"POST /v1/webhooks/{name}/retry", access.Operator, scopeService},
		{"POST /v1/webhooks/{name}/skip", access.Operator, scopeService},
		{"POST /v1/webhooks/{name}/enable", access.Admin, scopeService},

		{"GET /v1/trail", access.Admin, scopeService},
		{"GET /v1/concerns", access.Viewer, scopeService},
		{"POST /v1/concerns/{code}/acknowledge", access.Operator, scopeService},
		{"POST /v1/concerns/{code}/silence", access.Operator, scopeService},
		{"POST /v1/concerns/{code}/unsilence", access.Operator, scopeService},
		{"GET /v1/system", access.Viewer, scopeService},
		{"GET /v1/law", access.Viewer, scopeService},
		{"GET /v1/audit", access.Viewer, scopeService},
		{"POST /v1/audit:repair", access.Admin, scopeService},
		{"GET /v1/backup", access.Admin, scopeService},
		{"GET /v1/backup:last", access.Viewer, scopeService},
		{"POST /v1/backup:verified", access.Admin, scopeService},
		{"GET /v1/backup/files/{folder}/{name}", access.Admin, scopeService},
		{"GET /v1/reshard", access.Viewer, scopeService},
		{"POST /v1/reshard", access.Admin, scopeService},
		{"POST /v1/reshard:abort", access.Admin, scopeService},
		{"POST /v1/reshard:finish", access.Admin, scopeService},
		{"GET /v1/keys", access.Admin, scopeService},
		{"POST /v1/keys", access.Admin, scopeService},
		{"DELETE /v1/keys/{name}", access.Admin, scopeService},
		{"GET /v1/sessions", access.Admin, scopeService},
		{"DELETE /v1/sessions/{session}", access.Admin, scopeService},
		{"GET /v1/secrets", access.Admin, scopeService},
		{"PUT /v1/secrets/{name}", access.Admin, scopeService},
		{"DELETE /v1/secrets/{name}", access.Admin, scopeService},
		{"POST /v1/reload", access.Admin, scopeService},
		{"GET /v1/demo", access.Viewer, scopeService},
		{"POST /v1/demo:kill", access.Admin, scopeService},
		{"GET /metrics", access.Viewer, scopeService},
	}
}

// describeRights adds each operation's row of Rights to the description: in words, and as
// x-rounds-role and x-rounds-scope. It also adds the replies to refused callers.
func (d describer) describeRights(doc *huma.OpenAPI) {
	for _, right := range Rights() {
		method, path, _ := strings.Cut(right.Route, " ")
		item := doc.Paths[path]
		if right.Scope == scopeOpen || item == nil {
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
		case scopeAccount:
			needs += ". A key that is bound to labels meets only accounts with them."
		case scopeAccounts:
			needs += ". With a key that is bound to labels it is about accounts with them alone."
		case scopeService:
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
