package api

import (
	"maps"
	"net"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// untrailed returns the routes that change something but leave no entry, with the reasons.
func untrailed() map[string]string {
	return map[string]string{
		"POST /v1/groups/{name}/read":     "a consumer's reads, many times a second, would push out all other entries",
		"POST /v1/callbacks/wecom/{name}": "a third party's event, which has no principal; callbacks are counted",
	}
}

// signing returns the routes at which people sign in and out, with their actions. They need no
// authentication. A call without a principal leaves no entry: only the log has it.
func signing() map[string]string {
	return map[string]string{
		"POST /signin": "sign-in", "GET /signin/callback": "sign-in", "POST /v1/session": "sign-in",
		"POST /signout": "sign-out", "DELETE /v1/session": "sign-out",
	}
}

// changes reports whether calls of a route leave entries in the trail. They do for the routes of
// signing and for every unsafe method, unless the route is in untrailed.
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

// nameActions adds the action of each route, which is the id of its operation.
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

// trailed stores an entry for each call of a route, once it was carried out or refused. The handler
// adds to the draft what the request's route does not show.
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
			if !ended { // a panic ended it
				as = trail.Unknown
			}
			if entry, keep := draft.Close(as, reply.status); keep && entry.By != "" {
				s.options.Trail.Add(ctx, entry)
			}
		}()
		next.ServeHTTP(reply, r.WithContext(ctx))
		ended = true
	})
}

// kindOfName returns what the name in a route's path names: the path element before it, in
// the singular. It is empty if the path has no name.
func kindOfName(pattern string) string {
	before, _, named := strings.Cut(pattern, "/{name}")
	if !named {
		return ""
	}
	return strings.TrimSuffix(before[strings.LastIndexByte(before, '/')+1:], "s")
}

// addressOfCaller returns the address from which a request comes, without the port. Behind a proxy
// that is not trusted (ROUNDS_TRUSTED_PROXIES), it is the proxy's address.
func addressOfCaller(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// outcomeOf returns the outcome of an order, by the status of the answer.
func outcomeOf(status int) trail.Outcome {
	switch {
	case status < 400:
		return trail.Done
	case status < 500:
		return trail.Refused
	}
	return trail.Failed
}

// outcomeWriter remembers the status of a reply.
type outcomeWriter struct {
	http.ResponseWriter
	status int
	begun  bool
}

// Unwrap is for http.ResponseController.
func (w *outcomeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader remembers the status and sends it.
func (w *outcomeWriter) WriteHeader(status int) {
	if !w.begun && status >= http.StatusOK {
		w.status, w.begun = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the reply's body. After that the status no longer changes.
func (w *outcomeWriter) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}
