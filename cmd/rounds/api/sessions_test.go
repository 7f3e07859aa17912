package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

// An admin sees who is signed in, and signs somebody out.
func TestSessionsAreListedAndEnded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *Options) { o.Token = rightToken })
	f = f.as(rightToken)
	reader := f.key(key.New{Name: "reader", Role: access.Viewer})
	r := f.request(http.MethodPost, "/v1/session", "")
	r.Header.Set("Authorization", "Bearer "+reader)
	signed := f.do(r)
	cookie, _, _ := strings.Cut(signed.header.Get("Set-Cookie"), ";")
	if signed.status != http.StatusCreated || cookie == "" {
		t.Fatalf("%d: %s", signed.status, signed.body)
	}
	enters := func() int {
		r := f.request(http.MethodGet, "/v1/session", "")
		r.Header.Del("Authorization")
		r.Header.Set("Cookie", cookie)
		return f.do(r).status
	}
	var list SessionList
	f.call(http.MethodGet, "/v1/sessions", "", http.StatusOK, &list)
	if len(list.Sessions) != 1 || list.Count != 1 {
		t.Fatalf("%+v", list)
	}
	s := list.Sessions[0]
	if s.Name != "reader" || s.Via != "key" || s.Expires.Sub(s.Since).Hours() != 12 || strings.Contains(cookie, s.ID) {
		t.Errorf("%+v", s)
	}
	if status := enters(); status != http.StatusOK {
		t.Fatalf("the session answers %d", status)
	}
	f.as(reader).errorReply(http.MethodDelete, "/v1/sessions/"+s.ID, "", http.StatusForbidden)
	f.call(http.MethodDelete, "/v1/sessions/"+s.ID, "", http.StatusNoContent, nil)
	if status := enters(); status != http.StatusUnauthorized {
		t.Errorf("the session that has ended answers %d", status)
	}
	f.errorReply(http.MethodDelete, "/v1/sessions/"+s.ID, "", http.StatusNotFound)
	if f.call(http.MethodGet, "/v1/sessions", "", http.StatusOK, &list); len(list.Sessions) != 0 || list.Count != 0 {
		t.Errorf("%+v", list)
	}
}
