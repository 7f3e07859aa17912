package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
)

// asking is a page that asks the API who its visitor is.
func asking(inside http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://inside/v1/whoami", nil)
		if err != nil {
			panic(err)
		}
		inside.ServeHTTP(w, asked)
	})
}

func TestPagesAreForWhomTheAPIAdmits(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token, o.Pages = rightToken, asking })
	get := func(accept, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		f.api.ServeHTTP(w, r)
		return w
	}
	for _, path := range []string{"/", "/accounts?state=failing&q=a%2Fb"} {
		got := get("text/html,*/*", path)
		if at := got.Header().Get("Location"); got.Code != http.StatusSeeOther || !strings.HasPrefix(at, "/signin?next=%2F") {
			t.Errorf("a browser at %s: %d to %q", path, got.Code, at)
		}
	}
	if got := get("text/event-stream", "/live/"); got.Code != http.StatusUnauthorized {
		t.Errorf("a stream: %d", got.Code)
	}
	if got := get("text/html", "/v1/accounts"); got.Code != http.StatusUnauthorized {
		t.Errorf("the API in a browser: %d", got.Code)
	}
	cookie := f.signIn(rightToken)
	if got := f.bear(cookie, "GET", "/anything"); got.status != 200 || !strings.Contains(string(got.body), `"session"`) {
		t.Errorf("signed in: %d %s", got.status, got.body)
	}
	if got := f.bear(cookie, "GET", "/v1/nothing"); got.status != http.StatusNotFound || !strings.Contains(string(got.body), "no such route") {
		t.Errorf("a route that is none: %d %s", got.status, got.body)
	}
}

func TestMay(t *testing.T) {
	viewer := access.Principal{Role: access.Viewer}
	bound := access.Principal{Role: access.Admin, Labels: access.Labels{"team": "press"}}
	for _, c := range []struct {
		who   access.Principal
		route string
		want  bool
	}{
		{viewer, "GET /v1/accounts", true},
		{viewer, "POST /v1/accounts/{id}/pause", false},
		{bound, "POST /v1/accounts/{id}/pause", true},
		{bound, "POST /v1/reshard", false},
		{access.Local(), "GET /v1/unknown", false},
		{access.Principal{}, "GET /healthz", true},
		{access.Principal{}, "GET /v1/whoami", false},
	} {
		if got := May(c.who, c.route); got != c.want {
			t.Errorf("%+v may call %s: %t", c.who, c.route, got)
		}
	}
}
