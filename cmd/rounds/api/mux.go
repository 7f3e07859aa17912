package api

import (
	"cmp"
	"context"
	"net/http"
	"strings"
)

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
