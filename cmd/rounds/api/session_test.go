package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

const rightToken = "right-token-0123456789"

// signIn signs in with a secret and returns the session's cookie.
func (f *fixture) signIn(secret string) *http.Cookie {
	f.Helper()
	r := f.request("POST", "/v1/session", "")
	r.Header.Set("Authorization", "Bearer "+secret)
	got := f.do(r)
	cookies := (&http.Response{Header: got.header}).Cookies()
	if got.status != 201 || len(cookies) != 1 {
		f.Fatalf("sign in: %d %s with %d cookies", got.status, got.body, len(cookies))
	}
	return cookies[0]
}

// bear makes a request with a session's cookie and nothing else.
func (f *fixture) bear(cookie *http.Cookie, method, path string) reply {
	f.Helper()
	r := f.request(method, path, "")
	r.Header.Del("Authorization")
	r.AddCookie(cookie)
	return f.do(r)
}

// second starts another process of the same service.
func (f *fixture) second(o Options) *fixture {
	f.Helper()
	other := *f
	o.Ring, o.Registry = f.ring, accounts.NewRegistry(f.ring, testKinds{})
	server, err := New(o)
	if err != nil {
		f.Fatal(err)
	}
	other.api, other.server = server, httptest.NewServer(server)
	f.Cleanup(func() {
		other.api.Close()
		other.server.Close()
	})
	return &other
}

func TestSessions(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = rightToken })
	other := f.second(Options{Token: rightToken})
	text, _, err := f.api.options.Keys.Create(context.Background(), key.New{Name: "press", Role: access.Operator, Labels: access.Labels{"team": "press"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ secret, who, role string }{
		"token": {rightToken, "token", "admin"}, "key": {text, "press", "operator"},
	} {
		cookie := f.signIn(tt.secret)
		var who Session
		for _, process := range []*fixture{f, other} {
			got := process.bear(cookie, "GET", "/v1/session")
			if err := json.Unmarshal([]byte(got.body), &who); err != nil {
				t.Fatal(err)
			}
			if got.status != 200 || who.Name != tt.who || who.Role != tt.role || who.Via != "session" || time.Until(who.Expires) < 11*time.Hour {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
		}
		if got := other.bear(cookie, "POST", "/v1/accounts/none/pause"); got.status != 404 {
			t.Errorf("%s: a change: %d %s", name, got.status, got.body)
		}
		if want := map[string]int{"key": 403, "token": 200}[name]; f.bear(cookie, "GET", "/v1/keys").status != want {
			t.Errorf("%s: what an admin sees is not %d", name, want)
		}
		// A session that ended at one process has ended at the other too.
		again := f.signIn(tt.secret)
		if got := other.bear(cookie, "DELETE", "/v1/session"); got.status != 204 || len(got.header["Set-Cookie"]) != 2 {
			t.Errorf("%s: sign out: %d %v", name, got.status, got.header)
		}
		if got := f.bear(cookie, "GET", "/v1/accounts"); got.status != 401 || !strings.Contains(got.body, "/signin") {
			t.Errorf("%s: signed out: %d %s", name, got.status, got.body)
		}
		if got := f.bear(again, "GET", "/v1/accounts"); got.status != 200 {
			t.Errorf("%s: another session: %d %s", name, got.status, got.body)
		}
	}
	if got := f.bear(&http.Cookie{Name: "rounds_session", Value: "x"}, "DELETE", "/v1/session"); got.status != 204 {
		t.Errorf("nobody signs out: %d", got.status)
	}
}

func TestSessionsEndWithWhatTheyWereBegunWith(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = rightToken })
	ctx := context.Background()
	text, _, err := f.api.options.Keys.Create(ctx, key.New{Name: "press", Role: access.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	byKey, byToken := f.signIn(text), f.signIn(rightToken)
	if _, err := f.api.options.Keys.Revoke(ctx, "press"); err != nil {
		t.Fatal(err)
	}
	if got := f.bear(byKey, "GET", "/v1/accounts"); got.status != 401 {
		t.Errorf("the key was revoked: %d", got.status)
	}
	// A new key with the same name does not revive the session.
	if _, _, err := f.api.options.Keys.Create(ctx, key.New{Name: "press", Role: access.Viewer}); err != nil {
		t.Fatal(err)
	}
	if got := f.bear(byKey, "GET", "/v1/accounts"); got.status != 401 {
		t.Errorf("another key has the name: %d", got.status)
	}
	if got := f.bear(byToken, "GET", "/v1/accounts"); got.status != 200 {
		t.Errorf("with the token: %d", got.status)
	}
	change, err := f.api.Update("another-token-0123456789", nil)
	if err != nil {
		t.Fatal(err)
	}
	change()
	if got := f.bear(byToken, "GET", "/v1/accounts"); got.status != 401 {
		t.Errorf("the token was changed: %d", got.status)
	}
}

// An Authorization header takes precedence over a session. A wrong key is refused even if
// the request has a valid session.
func TestSessionsStandBehindKeys(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = rightToken })
	cookie := f.signIn(rightToken)
	for header, want := range map[string]int{"Bearer wrong": 401, "Basic eDp5": 401, "Bearer " + rightToken: 200} {
		r := f.request("GET", "/v1/accounts", "")
		r.Header.Set("Authorization", header)
		r.AddCookie(cookie)
		if got := f.do(r); got.status != want {
			t.Errorf("%s: %d", header, got.status)
		}
	}
}

func TestForeignPagesHaveNoUseOfSessions(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = rightToken })
	cookie := f.signIn(rightToken)
	for _, path := range []string{"/v1/accounts", "/v1/accounts:export", "/metrics", "/v1/session"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			for header, value := range map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:3000", "Host": "evil.example"} {
				r := f.request(method, path, "")
				r.Header.Del("Authorization")
				r.AddCookie(cookie)
				if r.Header.Set(header, value); header == "Host" {
					r.Host = value
				}
				got := f.do(r)
				if want := map[bool]int{true: 401, false: 403}[header == "Host"]; got.status != want && (path != "/v1/session" || got.status < 204) {
					t.Errorf("%s %s with %s: %d %s", method, path, header, got.status, got.body)
				}
			}
		}
	}
	if got := f.bear(cookie, "GET", "/v1/accounts"); got.status != 200 {
		t.Errorf("the session ended: %d", got.status)
	}
	// A page of another site cannot sign a browser in.
	r := f.request("POST", "/v1/session", "")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if got := f.do(r); got.status != 403 || len(got.header["Set-Cookie"]) > 0 {
		t.Errorf("signed in from elsewhere: %d", got.status)
	}
}

func TestSignInFails(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = rightToken })
	last := 0
	for _, secret := range []string{"", "wrong", "rounds_" + strings.Repeat("a", 49), strings.Repeat("x", 5000), "a", "b", "c", "d", "e", "f", "g", "h"} {
		r := f.request("POST", "/v1/session", "")
		r.Header.Set("Authorization", "Bearer "+secret)
		got := f.do(r)
		if last = got.status; last != 401 && last != 429 || len(got.header["Set-Cookie"]) > 0 {
			t.Errorf("%.20s: %d", secret, got.status)
		}
		if last == 429 && got.header.Get("Retry-After") == "" {
			t.Error("it does not say when to come back")
		}
	}
	if last != 429 {
		t.Errorf("there is no bound: %d", last)
	}
	if strings.Contains(f.logs.String(), "wrong") || strings.Contains(f.logs.String(), "aaaaaa") {
		t.Errorf("the log has what was shown: %s", f.logs)
	}
	// Failed sign-ins do not affect requests with the token.
	if got := f.do(f.request("GET", "/v1/accounts", "")); got.status != 200 {
		t.Errorf("with the token: %d", got.status)
	}
}

func TestSessionsWithoutRedis(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = rightToken })
	cookie := f.signIn(rightToken)
	f.redis.Miniredis().SetError("LOADING")
	for method, path := range map[string]string{"GET": "/openapi.json", "DELETE": "/v1/session"} {
		if got := f.bear(cookie, method, path); got.status != 503 || len(got.header["Set-Cookie"]) > 0 {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// A browser gets a page that loads again, in its language, while nobody can be authenticated.
func TestABrowserWithoutRedis(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token, o.Pages = rightToken, asking })
	cookie := f.signIn(rightToken)
	f.redis.Miniredis().SetError("LOADING")
	get := func(accept, language, path string) reply {
		r := f.request("GET", path, "")
		r.Header.Del("Authorization")
		r.AddCookie(cookie)
		r.Header.Set("Accept", accept)
		r.Header.Set("Accept-Language", language)
		return f.do(r)
	}
	for language, want := range map[string]string{"en": "Redis cannot be used now", "zh-CN": "Redis 目前无法使用"} {
		if got := get("text/html", language, "/").body; strings.Contains(got, "Redis 拒绝：LOADING") != (language == "zh-CN") {
			t.Errorf("the reason in %s: %s", language, got)
		}
		for _, path := range []string{"/", "/accounts"} {
			got := get("text/html,*/*", language, path)
			if got.status != 503 || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") || got.header.Get("Refresh") == "" ||
				!strings.Contains(string(got.body), want) || !strings.Contains(string(got.body), "<time datetime=") {
				t.Errorf("%s: %d %v %s", path, got.status, got.header, got.body)
			}
		}
	}
	if got := get("application/json", "en", "/v1/accounts"); got.status != 503 || !strings.HasPrefix(got.header.Get("Content-Type"), "application/problem+json") {
		t.Errorf("a program: %d %v", got.status, got.header)
	}
}

func TestNobodyNeedsToSignIn(t *testing.T) {
	f := newFixture(t, nil)
	if got := f.do(f.request("POST", "/v1/session", "")); got.status != 409 {
		t.Errorf("sign in: %d %s", got.status, got.body)
	}
	var who Session
	f.call("GET", "/v1/session", "", 200, &who)
	if who.Name != "local" || who.Role != "admin" || !who.Expires.IsZero() {
		t.Errorf("got %+v", who)
	}
	// A session has the role of its key. Once it has ended, requests are treated as if they
	// had no session.
	text, _, err := f.api.options.Keys.Create(context.Background(), key.New{Name: "press", Role: access.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	cookie := f.signIn(text)
	if got := f.bear(cookie, "GET", "/v1/keys"); got.status != 403 {
		t.Errorf("a viewer's session: %d", got.status)
	}
	if _, err := f.api.options.Keys.Revoke(context.Background(), "press"); err != nil {
		t.Fatal(err)
	}
	if got := f.bear(cookie, "GET", "/v1/keys"); got.status != 200 {
		t.Errorf("whose session has ended: %d", got.status)
	}
	for _, method := range []string{"POST", "DELETE"} {
		r := f.request(method, "/v1/session", "")
		r.Host = "evil.example"
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if got := f.do(r); got.status != 403 {
			t.Errorf("%s by another name: %d", method, got.status)
		}
	}
}
