package api

import (
	"net/http"
	"strings"
	"testing"
)

// conditional makes a request with If-Match and expects a status.
func (f *fixture) conditional(method, path, match, body string, status int) reply {
	f.Helper()
	r := f.request(method, path, body)
	if match != "" {
		r.Header.Set("If-Match", match)
	}
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	got := f.do(r)
	if got.status != status {
		f.Errorf("%s %s, If-Match %s: %d, want %d: %s", method, path, match, got.status, status, got.body)
	}
	return got
}

func TestETags(t *testing.T) {
	f := newFixture(t, nil)
	const path = "/v1/accounts/a"
	created := f.call("POST", "/v1/accounts", `{"id":"a","kind":"plain","labels":{"x":"1","y":"2"}}`, 201, nil)
	first := created.header.Get("ETag")
	var view Account
	got := f.call("GET", path, "", 200, &view)
	if first == "" || got.header.Get("ETag") != first || view.Revision != 1 || view.Created.IsZero() || view.Updated.IsZero() {
		t.Fatalf("%q, then %q: %+v", first, got.header.Get("ETag"), view)
	}
	if paused := f.call("POST", path+"/pause", "", 200, nil); paused.header.Get("ETag") != first {
		t.Errorf("paused: %q", paused.header.Get("ETag"))
	}
	f.conditional("PATCH", path, `"9-x"`, `{"labels":{"x":null}}`, 412)
	f.conditional("PATCH", path, "W/"+first, `{"labels":{"x":null}}`, 412)
	f.conditional("PATCH", path, "1-x", `{"labels":{"x":null}}`, 400)
	patched := f.conditional("PATCH", path, `"9-x", `+first, `{"labels":{"x":null,"z":"3"}}`, 200)
	second := patched.header.Get("ETag")
	if second == first || !strings.Contains(patched.body, `"labels":{"y":"2","z":"3"}`) || !strings.Contains(patched.body, `"revision":2`) {
		t.Errorf("patched: %q, %s", second, patched.body)
	}
	f.conditional("PUT", path, first, `{"kind":"plain"}`, 412)
	f.conditional("PUT", "/v1/accounts/none", "*", `{"kind":"plain"}`, 412)
	third := f.conditional("PUT", path, second, `{"kind":"plain"}`, 200).header.Get("ETag")
	f.conditional("DELETE", path, second, "", 412)
	f.conditional("DELETE", "/v1/accounts/none", "*", "", 404)
	f.conditional("PATCH", "/v1/accounts/none", "*", `{}`, 404)
	f.conditional("PATCH", path, "", ``, 400)
	bad := f.conditional("PATCH", path, "", `{"colour":null,"cadence":"never"}`, 422)
	if !strings.Contains(bad.body, "body.colour") {
		t.Error(bad.body)
	}
	f.conditional("DELETE", path, third, "", 204)
	f.conditional("DELETE", path, "", "", 404)
}

func TestRequireMatch(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.RequireMatch = true })
	const path = "/v1/accounts/a"
	f.conditional("PUT", path, "", `{"kind":"plain"}`, 201) // a new account needs no If-Match
	missing := f.conditional("PUT", path, "", `{"kind":"plain","cadence":"every 9m"}`, 428)
	if !strings.Contains(missing.body, "If-Match") {
		t.Error(missing.body)
	}
	f.conditional("PATCH", path, "", `{"cadence":"every 9m"}`, 428)
	f.conditional("DELETE", path, "", "", 428)
	tag := f.conditional("PATCH", path, "*", `{"cadence":"every 9m"}`, 200).header.Get("ETag")
	f.conditional("PUT", path, tag, `{"kind":"plain"}`, 200)
	f.conditional("DELETE", path, "*", "", 204)
}

func TestFromNow(t *testing.T) {
	f := newFixture(t, nil)
	f.call("POST", "/v1/accounts?from=now", `{"id":"a","kind":"plain"}`, 201, nil)
	f.call("PUT", "/v1/accounts/b?from=now", `{"kind":"plain"}`, 201, nil)
	f.call("PUT", "/v1/accounts/c?from=backfill", `{"kind":"plain"}`, 201, nil)
	for path, status := range map[string]int{"?from=now": 200, "?from=then": 422, "?from=now&from=now": 422, "?x=1": 422} {
		if got := f.do(f.request("POST", "/v1/accounts:import"+path, `{"id":"e","kind":"plain"}`)); got.status != status {
			t.Errorf("import%s: %d, want %d: %s", path, got.status, status, got.body)
		}
	}
	f.call("PUT", "/v1/accounts/d?from=then", `{"kind":"plain"}`, 422, nil)
	for id, now := range map[string]bool{"a": true, "b": true, "c": false, "e": true} {
		var s Schedule
		if f.call("GET", "/v1/accounts/"+id+"/schedule", "", 200, &s); s.Skip.IsZero() == now {
			t.Errorf("%s: %+v", id, s.Skip)
		}
	}
}

// A PUT with If-None-Match: * makes an account and never overwrites one.
func TestIfNoneMatch(t *testing.T) {
	f := newFixture(t, nil)
	put := func(condition, body string, status int) {
		t.Helper()
		r := f.request("PUT", "/v1/accounts/a", body)
		r.Header.Set("If-None-Match", condition)
		if got := f.do(r); got.status != status {
			t.Errorf("If-None-Match: %s answered %d, want %d: %s", condition, got.status, status, got.body)
		}
	}
	put("*", `{"kind":"plain"}`, 201)
	put("*", `{"kind":"plain","cadence":"every 9m"}`, 412)
	put("*", `{"kind":"plain"}`, 412)
	put(`"some-tag"`, `{"kind":"plain"}`, 422)
	if got := f.do(f.request("GET", "/v1/accounts/a", "")); strings.Contains(got.body, "every 9m") {
		t.Errorf("it was overwritten: %s", got.body)
	}
}
