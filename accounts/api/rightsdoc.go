package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// describeRights says of each operation what its row in Rights does: in words, and as
// x-rounds-role and x-rounds-scope. It adds the answers to those who are refused.
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
