package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/access"
)

// routeMux accepts only routes with a row in the table of rights, and admits to each route only the
// callers that its row allows. It collects refused routes in faults.
type routeMux struct {
	*http.ServeMux
	open   bool // true: for routes that are open to all; false: for the others
	rights map[string]Right
	faults []error
	routes []string // the routes that were added

	// trailed wraps a route that changes something, so that its calls leave entries in the
	// trail.
	trailed func(pattern string, next http.Handler) http.Handler
}

func newRouteMux(open bool, trailed func(pattern string, next http.Handler) http.Handler) *routeMux {
	m := &routeMux{ServeMux: http.NewServeMux(), open: open, rights: make(map[string]Right), trailed: trailed}
	for _, right := range Rights() {
		m.rights[right.Route] = right
	}
	return m
}

// HandleFunc adds a route.
func (m *routeMux) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	m.Handle(pattern, http.HandlerFunc(handler))
}

// Handle adds a route.
func (m *routeMux) Handle(pattern string, handler http.Handler) {
	right, ok := m.rights[pattern]
	switch {
	case !ok:
		m.faults = append(m.faults, fmt.Errorf("route %s: has no row in the table of rights", pattern))
		return
	case m.open != (right.Scope == scopeOpen), m.open == right.Role.Valid():
		m.faults = append(m.faults, fmt.Errorf("route %s: its row says %s for %s, which is not how it is added", pattern, right.Scope, right.Role))
		return
	}
	m.routes = append(m.routes, pattern)
	handler = blamed(handler)
	if !m.open {
		handler = allowed(right, handler)
	}
	if changes(pattern) {
		handler = m.trailed(pattern, handler)
	}
	m.ServeMux.Handle(pattern, addressed(handler))
}

// fault returns an error that names all refused routes, or nil.
func (m *routeMux) fault() error { return errors.Join(m.faults...) }

// allowed admits the principals that a right allows, and refuses a request without one.
func allowed(right Right, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, _ := access.From(r.Context())
		if p := forbidden(principal, right); p != nil {
			p.write(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// May reports whether a principal may call a route, given by its pattern as in Rights. Nobody may
// call a route that is not in the table.
func May(p access.Principal, route string) bool {
	for _, right := range Rights() {
		if right.Route == route {
			return right.Scope == scopeOpen || forbidden(p, right) == nil
		}
	}
	return false
}

// forbidden returns the reply for a principal that a right does not allow, or nil if it does.
func forbidden(principal access.Principal, right Right) *errorReply {
	switch {
	case !principal.May(right.Role):
		return newErrorReply(http.StatusForbidden, fmt.Sprintf("the role %s is needed, and %q has %s", right.Role, principal.Name, principal.Role),
			&huma.ErrorDetail{Location: "role", Message: fmt.Sprintf("must be %s or above", right.Role), Value: principal.Role.String()})
	case right.Scope == scopeService && principal.Bound():
		return newErrorReply(http.StatusForbidden, fmt.Sprintf("this is about the whole service, and %q is bound to accounts with %s", principal.Name, principal.Labels),
			&huma.ErrorDetail{Location: "labels", Message: "must be none: a key or sign-in without labels is needed", Value: principal.Labels.String()})
	}
	return nil
}
