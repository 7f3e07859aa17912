package api

import (
	"maps"
	"net"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/trail"
)

// untrailed are the routes that change something and leave no entry, with the reason.
func untrailed() map[string]string {
	return map[string]string{
		"POST /v1/groups/{name}/read":     "a consumer's reads, many times a second, would push out all other entries",
		"POST /v1/callbacks/wecom/{name}": "a third party's event, which has no principal; callbacks are counted",
	}
}

// signing are the routes that people sign in and out at, with their actions. They are open
// to all: who is neither let in nor signed in is nobody, and leaves no entry but in the log.
func signing() map[string]string {
	return map[string]string{
		"POST /signin": "sign-in", "GET /signin/callback": "sign-in", "POST /v1/session": "sign-in",
		"POST /signout": "sign-out", "DELETE /v1/session": "sign-out",
	}
}

// changes reports whether calls of a route are kept in the trail: those of every method but
// the safe ones, unless untrailed has a reason, and those that sign in.
func changes(pattern string) bool {
	if signing()[pattern] != "" {
		return true
	}
	method, _, _ := strings.Cut(pattern, " ")
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	_, spared := untrailed()[pattern]
	return !spared
}

// nameActions finds the action of each route: its operation's id.
func nameActions(actions map[string]string, doc *huma.OpenAPI) {
	maps.Copy(actions, signing())
	for path, item := range doc.Paths {
		for method, o := range map[string]*huma.Operation{
			http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
		} {
			if o != nil {
				actions[method+" "+path] = o.OperationID
			}
		}
	}
}

// trailed keeps what somebody orders by calling a route, once it was carried out or refused.
// The handler adds to the draft what the route does not tell.
func (s *Server) trailed(actions map[string]string, pattern string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, _ := access.From(r.Context())
		entry := trail.Entry{By: principal.Name, Via: principal.Via, Address: addressOfCaller(r), Action: actions[pattern]}
		if entry.Action == "" {
			entry.Action = pattern
		}
		ctx, draft := trail.Begin(r.Context(), entry)
		if id := r.PathValue("id"); strings.Contains(pattern, "/accounts/{id}") {
			draft.Account(id)
		} else if kind := kindOfName(pattern); kind != "" {
			draft.Subject(kind, r.PathValue("name"))
		}
		reply := &outcomeWriter{ResponseWriter: w, status: http.StatusOK}
		ended := false
		defer func() {
			as := outcomeOf(reply.status)
			if !ended { // by a panic
				as = trail.Unknown
			}
			if entry, keep := draft.Close(as, reply.status); keep && entry.By != "" {
				s.options.Trail.Keep(ctx, entry)
			}
		}()
		next.ServeHTTP(reply, r.WithContext(ctx))
		ended = true
	})
}

// kindOfName is what the name in a route's path is of: the folder before it, without its
// plural.
func kindOfName(pattern string) string {
	before, _, named := strings.Cut(pattern, "/{name}")
	if !named {
		return ""
	}
	return strings.TrimSuffix(before[strings.LastIndexByte(before, '/')+1:], "s")
}

// addressOfCaller is where a request comes from, without the port. A proxy stands in for
// those behind it.
func addressOfCaller(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// outcomeOf is what an answer's status tells of an order.
func outcomeOf(status int) trail.Outcome {
	switch {
	case status < 400:
		return trail.Done
	case status < 500:
		return trail.Refused
	}
	return trail.Failed
}

// outcomeWriter knows the status of a reply.
type outcomeWriter struct {
	http.ResponseWriter
	status int
	begun  bool
}

// Unwrap is for http.ResponseController.
func (w *outcomeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader notes the status that the caller is told.
func (w *outcomeWriter) WriteHeader(status int) {
	if !w.begun && status >= http.StatusOK {
		w.status, w.begun = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write begins the reply, or goes on with it.
func (w *outcomeWriter) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}
