package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
)

// bodyTimeout is how long a caller may take to send a record.
const bodyTimeout = 30 * time.Second

// routes adds every route. Each has a row in Rights. Routes that stream are plain handlers, and
// describe adds their descriptions.
func (s *Server) routes(t terms) (*serving, error) {
	actions := make(map[string]string)
	trailed := func(pattern string, next http.Handler) http.Handler { return s.trailed(actions, pattern, next) }
	mux := newRouteMux(false, trailed)
	api := humago.New(mux, s.config())

	s.accountRoutes(api)
	s.parkedRoutes(api)
	s.kindRoutes(api)
	s.loginRoutes(api)
	s.mailLoginRoutes(api)
	s.messageRoutes(api)
	s.groupRoutes(api)
	s.webhookRoutes(api)
	s.sendRoutes(api)
	s.conversationRoutes(api)
	s.deadRoutes(api)
	s.statsRoutes(api)
	s.historyRoutes(api)
	s.activityRoutes(api)
	s.problemRoutes(api)
	s.timelineRoutes(api)
	s.limitRoutes(api)
	s.maintenanceRoutes(api)
	s.viewRoutes(api)
	s.systemRoutes(api)
	s.auditRoutes(api)
	s.backupRoutes(api)
	s.reshardRoutes(api)
	s.reloadRoute(api)
	s.trailRoutes(api)
	s.versionRoutes(api)
	s.checkRoutes(api)
	s.keyRoutes(api)
	s.sessionRoutes(api)
	s.secretRoutes(api)
	s.jobRoutes(api)
	s.demoRoutes(api)

	mux.HandleFunc("POST /v1/accounts:import", s.importAccounts)
	mux.HandleFunc("GET /v1/accounts:export", s.exportAccounts)
	for _, action := range accounts.Actions() {
		mux.HandleFunc(bulkRoute(action), s.bulk(action))
	}
	mux.HandleFunc("GET /v1/backup", s.getBackup)
	mux.HandleFunc("GET /v1/messages", s.getMessages)
	mux.HandleFunc("GET /v1/messages:search", s.searchMessages)
	s.fileRoutes(mux)
	if s.options.Metrics != nil {
		mux.Handle("GET /metrics", s.options.Metrics)
	}
	doc := s.describe(api, t)
	nameActions(actions, doc)
	// Few processes are asked for it, and to write it takes longer than all else here.
	description := sync.OnceValues(func() ([]byte, error) { return json.Marshal(doc) })
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		text, err := description()
		if err != nil {
			s.fail(w, r, "describe the API", err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // a caller that has gone needs no answer
	})

	open := newRouteMux(true, trailed)
	if err := s.addSessions(open, mux, t); err != nil {
		return nil, err
	}
	open.HandleFunc("GET /healthz", healthy)
	open.Handle("GET /readyz", newReadiness(s.options.Ring, s.options.Unsaved, s.options.Log))
	s.addCallbacks(open, t.callbacks)
	s.addHubs(open)
	if s.options.Files != nil {
		open.HandleFunc("GET /v1/links/{ref}/{n}", s.getLinked)
	}
	open.HandleFunc("GET /docs", docs)
	open.HandleFunc("GET /docs/{file}", docs)
	if s.options.Guide != nil {
		open.Handle("GET "+GuidePath, s.options.Guide)
		open.Handle("GET "+GuidePath+"/", s.options.Guide)
	}
	if err := errors.Join(mux.fault(), open.fault()); err != nil {
		return nil, err
	}
	inside := found(mux.ServeMux, noSuchRoute)
	open.ServeMux.Handle(guardedRoutes, s.guarded(t, s.withPages(inside)))
	return &serving{open, open.ServeMux, mux.ServeMux, slices.Concat(open.routes, mux.routes)}, nil
}

// guardedRoutes is the pattern of all guarded routes in the mux of open routes.
const guardedRoutes = "/"

// config returns huma's configuration. It loads nothing from other hosts, and its replies do not
// link to their schemas.
func (s *Server) config() huma.Config {
	config := huma.DefaultConfig("rounds", s.options.Version)
	config.CreateHooks = nil
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.RejectUnknownQueryParameters = true
	config.Transformers = append(config.Transformers, fitModel)
	config.AllowAdditionalPropertiesByDefault = true // later replies may have more fields
	return config
}

// register adds an operation. An error of its handler becomes a reply, unless it is one already; what
// the handler returns with an error is ignored. doing says in a few words what failed, for the log.
func register[In, Out any](s *Server, api huma.API, doing string, o huma.Operation, handle func(context.Context, *In) (*Out, error)) {
	huma.Register(api, o, func(ctx context.Context, in *In) (*Out, error) {
		out, err := handle(ctx, in)
		if told, ok := errors.AsType[huma.StatusError](err); ok {
			return nil, told
		}
		if err != nil {
			return nil, s.errorReply(ctx, doing, err)
		}
		return out, nil
	})
}

// answer is register for an operation whose reply is only a body.
func answer[In, Body any](s *Server, api huma.API, doing string, o huma.Operation, handle func(context.Context, *In) (Body, error)) {
	type reply struct{ Body Body }
	register(s, api, doing, o, func(ctx context.Context, in *In) (*reply, error) {
		body, err := handle(ctx, in)
		return &reply{body}, err
	})
}

// each returns what convert makes of each item. It is never nil, because JSON must have a list.
func each[A, B any](items []A, convert func(*A) B) []B {
	made := make([]B, len(items))
	for i := range items {
		made[i] = convert(&items[i])
	}
	return made
}

// bodyInput is a request of which the handler reads the body.
type bodyInput struct {
	RawBody []byte `contentType:"application/json"`
}

// takesBody returns an operation whose handler reads the body itself, because huma would not report
// a body's faults together with those that only the registry finds.
func takesBody(o huma.Operation) huma.Operation {
	o.MaxBodyBytes = accounts.MaxRecord + 1 // huma refuses at its limit, not above
	o.BodyReadTimeout = bodyTimeout
	o.SkipValidateBody = true
	return o
}

type slashKey struct{}

// addressed makes the id "/" work. A ServeMux treats a segment that is only an encoded slash as
// the end of a path. withSlash routes such a request under a stand-in, and addressed restores the
// id.
func addressed(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(slashKey{}) != nil {
			r.SetPathValue("id", "/")
		}
		handler.ServeHTTP(w, r)
	})
}

// withSlash returns a request for the account "/" with a stand-in in its path.
func withSlash(r *http.Request) *http.Request {
	const before, slash = "/v1/accounts/", "%2F"
	path := r.URL.EscapedPath()
	if len(path) < len(before)+len(slash) || path[:len(before)] != before || !strings.EqualFold(path[len(before):len(before)+len(slash)], slash) {
		return r
	}
	rest := path[len(before)+len(slash):]
	if rest != "" && rest[0] != '/' {
		return r
	}
	routed := r.WithContext(context.WithValue(r.Context(), slashKey{}, true))
	address := *r.URL
	address.Path, address.RawPath = before+"-"+rest, ""
	routed.URL = &address
	return routed
}

// noSuchRoute is the API's reply for an address that it does not have.
const noSuchRoute = "there is no such route; /docs has them all"

// found answers a request that matches no route with a problem whose text is missing. The mux would
// answer in plain text.
func found(mux *http.ServeMux, missing string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = withSlash(r)
		handler, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		verdict := &verdictWriter{header: make(http.Header)}
		handler.ServeHTTP(verdict, r)
		p := newErrorReply(http.StatusNotFound, missing)
		if verdict.status == http.StatusMethodNotAllowed {
			p = newErrorReply(verdict.status, "the route does not take "+r.Method)
			p.headers = http.Header{"Allow": verdict.header["Allow"]}
		}
		p.write(w, r)
	})
}

// verdictWriter remembers only the status and the header of a reply.
type verdictWriter struct {
	header http.Header
	status int
}

func (w *verdictWriter) Header() http.Header         { return w.header }
func (w *verdictWriter) WriteHeader(status int)      { w.status = status }
func (w *verdictWriter) Write(p []byte) (int, error) { return len(p), nil }

// Route returns noRoute if no route matches, and pagesRoute if the request is to a page.
const (
	noRoute    = "none"
	pagesRoute = "pages"
)

// Route returns the pattern of the route that a request takes, such as
// "GET /v1/accounts/{id}". The number of results is bounded, whatever callers ask for.
func (s *Server) Route(r *http.Request) string {
	serving := s.serving.Load()
	_, pattern := serving.open.Handler(r)
	if pattern == guardedRoutes && s.isPage(r) {
		return pagesRoute
	}
	if pattern == guardedRoutes {
		_, pattern = serving.closed.Handler(withSlash(r))
	}
	return cmp.Or(pattern, noRoute)
}

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

// sufficient says which roles are enough where one is needed.
func sufficient(role access.Role) string {
	detail := fmt.Sprintf("must be %s or above", role)
	if role == access.Sender {
		detail = fmt.Sprintf("must be %s or %s", role, access.Admin)
	}
	return detail
}

// forbidden returns the reply for a principal that a right does not allow, or nil if it does.
func forbidden(principal access.Principal, right Right) *errorReply {
	switch {
	case !principal.May(right.Role):
		return newErrorReply(http.StatusForbidden, fmt.Sprintf("the role %s is needed, and %q has %s", right.Role, principal.Name, principal.Role),
			&huma.ErrorDetail{Location: "role", Message: sufficient(right.Role), Value: principal.Role.String()})
	case right.Scope == scopeService && principal.Bound():
		return newErrorReply(http.StatusForbidden, fmt.Sprintf("this is about the whole service, and %q is bound to accounts with %s", principal.Name, principal.Labels),
			&huma.ErrorDetail{Location: "labels", Message: "must be none: a key or sign-in without labels is needed", Value: principal.Labels.String()})
	}
	return nil
}
