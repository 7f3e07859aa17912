package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
)

// A request that is let in carries on whose behalf it is, and the others go no further.
func TestPrincipals(t *testing.T) {
	for _, c := range []struct {
		token, shown string
		want         access.Principal
		status       int
	}{
		{"", "", access.Local(), 204},
		{"", "Bearer anything", access.Local(), 204},
		{"right", "Bearer right", access.Token(), 204},
		{"right", "bearer  right ", access.Token(), 204},
		{"right", "Bearer wrong", access.Principal{}, 401},
		{"right", "Basic right", access.Principal{}, 401},
		{"right", "", access.Principal{}, 401},
	} {
		f := newFixture(t, nil)
		var got access.Principal
		var came bool
		h := f.api.guarded(c.token, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got, came = access.From(r.Context())
			w.WriteHeader(http.StatusNoContent)
		}))
		r := f.request("GET", "/v1/accounts", "")
		r.Header.Del("Authorization")
		if c.shown != "" {
			r.Header.Set("Authorization", c.shown)
		}
		reply := httptest.NewRecorder()
		h.ServeHTTP(reply, r)
		if reply.Code != c.status || came != (c.status == 204) || got.Name != c.want.Name || got.Role != c.want.Role || got.Via != c.want.Via {
			t.Errorf("token %q, shown %q: %d, %+v, %t", c.token, c.shown, reply.Code, got, came)
		}
	}
}
