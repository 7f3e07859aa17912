package signin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// judges accepts one key, "open-sesame", until it is revoked.
type oneKey struct {
	revoked bool
	away    error
}

func (j *oneKey) Secret(_ context.Context, secret string) (Holder, access.Principal, error) {
	if secret != "open-sesame" || j.revoked {
		return Holder{}, access.Principal{}, ErrWrong
	}
	return Holder{Via: access.ViaKey, Name: "press", Key: "digest"}, access.Principal{Name: "press", Role: access.Editor}, j.away
}

func (j *oneKey) Holder(_ context.Context, s Session) (access.Principal, error) {
	if j.revoked || s.Key != "digest" || !s.Began("open-sesame") || s.Began("wrong") || s.Began("") {
		return access.Principal{}, ErrWrong
	}
	return access.Principal{Name: s.Name, Role: access.Editor, Via: access.ViaSession}, j.away
}

type sessionFixture struct {
	*testing.T
	redis  *connect.Embedded
	judges *oneKey
	door   Door
	logs   *bytes.Buffer
}

func newSessionFixture(t *testing.T) *sessionFixture {
	t.Helper()
	redis := redistest.Embedded(t)
	ring, err := circulate.Open(context.Background(), redis, circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	f := &sessionFixture{t, redis, new(oneKey), Door{}, new(bytes.Buffer)}
	f.door = Door{Book: In(ring), Judges: f.judges, Attempts: new(Attempts), Log: slog.New(slog.NewTextHandler(f.logs, nil))}
	return f
}

func (f *sessionFixture) request(at string, cookies ...*http.Cookie) *http.Request {
	r := httptest.NewRequest("POST", "http://"+at+"/signin", nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return r
}

// signIn signs in at a host and returns the cookie.
func (f *sessionFixture) signIn(r *http.Request, secret string) (*http.Cookie, error) {
	f.Helper()
	w := httptest.NewRecorder()
	_, err := f.door.SignIn(w, r, secret)
	cookies := w.Result().Cookies()
	if (err == nil) != (len(cookies) == 1) {
		f.Fatalf("%v, with %d cookies", err, len(cookies))
	}
	if err != nil {
		return nil, err
	}
	return cookies[0], nil
}

func (f *sessionFixture) mustSignIn(at string) *http.Cookie {
	f.Helper()
	cookie, err := f.signIn(f.request(at), "open-sesame")
	if err != nil {
		f.Fatal(err)
	}
	return cookie
}

func TestCookies(t *testing.T) {
	f := newSessionFixture(t)
	for _, tt := range []struct {
		at, origin string
		secure     bool
		err        error
	}{
		{"localhost:8080", "http://localhost:8080", false, nil},
		{"127.0.0.1:8080", "", false, nil},
		{"[::1]:8080", "", false, nil},
		{"localhost:8080", "https://localhost:8080", true, nil}, // behind a proxy that ends TLS
		{"rounds.example", "https://rounds.example", true, nil},
		{"rounds.example", "", true, nil},                            // curl
		{"rounds.example", "http://rounds.example", true, ErrPlain},  // the browser would not keep the cookie
		{"rounds.example", "https://evil.example", true, ErrForeign}, // another site would choose the session
	} {
		r := f.request(tt.at)
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		c, err := f.signIn(r, "open-sesame")
		if !errors.Is(err, tt.err) {
			t.Errorf("%s from %q: %v", tt.at, tt.origin, err)
		}
		if err != nil {
			continue
		}
		name := "rounds_session"
		if tt.secure {
			name = "__Host-rounds_session"
		}
		if c.Name != name || c.Secure != tt.secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 12*60*60 {
			t.Errorf("%s from %q: %v", tt.at, tt.origin, c)
		}
	}
}

func TestWho(t *testing.T) {
	f := newSessionFixture(t)
	local, far := f.mustSignIn("localhost:8080"), f.mustSignIn("rounds.example")
	plainFar := *far
	plainFar.Name = local.Name
	cut := *local
	cut.Value = cut.Value[1:]
	odd := *local
	odd.Value = strings.Repeat("A", len(odd.Value))
	for name, tt := range map[string]struct {
		r   *http.Request
		err error
	}{
		"there":                                  {f.request("localhost:8080", local), nil},
		"at another port":                        {f.request("LOCALHOST:9090", local), nil},
		"far away":                               {f.request("rounds.example", far), nil},
		"none":                                   {f.request("localhost:8080"), ErrNone},
		"cut":                                    {f.request("localhost:8080", &cut), ErrNone},
		"unknown":                                {f.request("localhost:8080", &odd), ErrOver},
		"an old one before a new one":            {f.request("localhost:8080", &http.Cookie{Name: boundCookie, Value: odd.Value}, local), nil},
		"under another name":                     {f.request("127.0.0.1:8080", local), ErrOver},
		"rebound":                                {f.request("evil.example", far), ErrOver},
		"a cookie that a neighbour may have set": {f.request("rounds.example", &plainFar), ErrNone},
	} {
		who, left, err := f.door.Who(tt.r)
		if !errors.Is(err, tt.err) || err == nil && (who.Name != "press" || who.Via != access.ViaSession || left <= 0 || left > Life) {
			t.Errorf("%s: %+v for %v, %v", name, who, left, err)
		}
	}
	for _, method := range []string{"GET", "POST", "DELETE"} {
		foreign := f.request("localhost:8080", local)
		foreign.Method = method
		foreign.Header.Set("Sec-Fetch-Site", "same-site")
		if _, _, err := f.door.Who(foreign); !errors.Is(err, ErrForeign) {
			t.Errorf("%s from a page of another port: %v", method, err)
		}
	}
	f.judges.away = errors.New("redis is away")
	if _, _, err := f.door.Who(f.request("localhost:8080", local)); !errors.Is(err, f.judges.away) {
		t.Errorf("who cannot be judged: %v", err)
	}
	f.judges.away = nil
	f.judges.revoked = true
	if _, _, err := f.door.Who(f.request("localhost:8080", local)); !errors.Is(err, ErrOver) {
		t.Errorf("of a key that was revoked: %v", err)
	}
	f.judges.revoked = false
	f.redis.Miniredis().SetError("LOADING")
	if _, _, err := f.door.Who(f.request("localhost:8080", local)); err == nil || errors.Is(err, ErrOver) || errors.Is(err, ErrNone) {
		t.Errorf("without Redis: %v", err)
	}
}

func TestSessionEnds(t *testing.T) {
	f := newSessionFixture(t)
	cookie, other := f.mustSignIn("localhost:8080"), f.mustSignIn("localhost:8080")
	foreign := f.request("localhost:8080", cookie)
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	if _, err := f.door.SignOut(httptest.NewRecorder(), foreign); !errors.Is(err, ErrForeign) {
		t.Errorf("from another page: %v", err)
	}
	f.redis.Miniredis().SetError("LOADING")
	w := httptest.NewRecorder()
	if _, err := f.door.SignOut(w, f.request("localhost:8080", cookie)); err == nil || len(w.Result().Cookies()) > 0 {
		t.Errorf("without Redis: %v", err)
	}
	f.redis.Miniredis().SetError("")
	for range 2 {
		w := httptest.NewRecorder()
		if _, err := f.door.SignOut(w, f.request("localhost:8080", cookie)); err != nil {
			t.Error(err)
		}
		for _, c := range w.Result().Cookies() {
			if c.MaxAge >= 0 || c.Value != "" || c.Secure != strings.HasPrefix(c.Name, "__Host-") {
				t.Errorf("the browser keeps %v", c)
			}
		}
		if _, _, err := f.door.Who(f.request("localhost:8080", cookie)); !errors.Is(err, ErrOver) {
			t.Errorf("signed out: %v", err)
		}
	}
	if _, _, err := f.door.Who(f.request("localhost:8080", other)); err != nil {
		t.Errorf("another session: %v", err)
	}
	if _, err := f.door.SignOut(httptest.NewRecorder(), f.request("localhost:8080")); err != nil {
		t.Errorf("nobody is signed in: %v", err)
	}
}

// A person's ID token comes back when the person signs out, and nobody reads it in Redis.
func TestIDTokens(t *testing.T) {
	f := newSessionFixture(t)
	holder := Holder{Via: access.ViaOIDC, Name: "anna", Issuer: "https://login.example.com", Subject: "1", Key: "digest"}
	for token, want := range map[string]string{"header.payload.signature": "header.payload.signature", "": "", strings.Repeat("x", 4000): ""} {
		w := httptest.NewRecorder()
		if err := f.door.Begin(w, f.request("localhost:8080"), holder, access.Principal{Name: "anna"}, token); err != nil {
			t.Fatal(err)
		}
		names, err := f.redis.Miniredis().HKeys("{rounds:sessions}:values")
		if err != nil || len(names) != 1 {
			t.Fatalf("%q, %v", names, err)
		}
		if kept := f.redis.Miniredis().HGet("{rounds:sessions}:values", names[0]); strings.Contains(kept, "payload") {
			t.Errorf("Redis has %s", kept)
		}
		s, err := f.door.SignOut(httptest.NewRecorder(), f.request("localhost:8080", w.Result().Cookies()...))
		if err != nil || s.Name != "anna" || s.IDToken() != want || s.Began(token) {
			t.Errorf("got %+v with %.30q, %v", s.Holder, s.IDToken(), err)
		}
	}
	if s, err := f.door.SignOut(httptest.NewRecorder(), f.request("localhost:8080")); err != nil || s.Name != "" || s.IDToken() != "" {
		t.Errorf("nobody is signed in: %+v, %v", s, err)
	}
}

func TestSigningInAgainEndsTheSessionBefore(t *testing.T) {
	f := newSessionFixture(t)
	before := f.mustSignIn("localhost:8080")
	now, err := f.signIn(f.request("localhost:8080", before), "open-sesame")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.door.Who(f.request("localhost:8080", before)); !errors.Is(err, ErrOver) {
		t.Errorf("the session before: %v", err)
	}
	if _, _, err := f.door.Who(f.request("localhost:8080", now)); err != nil {
		t.Errorf("the session of now: %v", err)
	}
}

// No secret that somebody shows is in Redis or in the log.
func TestNothingIsToldOfSecrets(t *testing.T) {
	f := newSessionFixture(t)
	cookie := f.mustSignIn("localhost:8080")
	if _, err := f.signIn(f.request("localhost:8080"), "a-wrong-secret"); !errors.Is(err, ErrWrong) {
		t.Fatal(err)
	}
	redis := f.redis.Miniredis()
	kept := strings.Join(redis.Keys(), " ") + f.logs.String()
	values, err := redis.HKeys("{rounds:sessions}:values")
	if err != nil || len(values) != 1 {
		t.Fatalf("%q, %v", values, err)
	}
	kept += values[0] + redis.HGet("{rounds:sessions}:values", values[0])
	for _, secret := range []string{cookie.Value, "open-sesame", "a-wrong-secret"} {
		if strings.Contains(kept, secret) {
			t.Errorf("%s is in %s", secret, kept)
		}
	}
	if logs := f.logs.String(); !strings.Contains(logs, "a sign-in was refused") || !strings.Contains(logs, "address=192.0.2.1") || !strings.Contains(logs, "signed in") {
		t.Errorf("the log has %s", logs)
	}
}

func TestSignInsThatFailAreBounded(t *testing.T) {
	f := newSessionFixture(t)
	var tooMany TooManyError
	for i := range attemptsAtOnce + 3 {
		_, err := f.signIn(f.request("localhost:8080"), strings.Repeat("x", maxSecret*i))
		if i < attemptsAtOnce && !errors.Is(err, ErrWrong) || i >= attemptsAtOnce && (!errors.As(err, &tooMany) || tooMany.After <= 0 || tooMany.After > attemptEvery) {
			t.Errorf("attempt %d: %v", i, err)
		}
	}
	if n := strings.Count(f.logs.String(), "refused"); n != attemptsAtOnce {
		t.Errorf("%d lines of the log", n)
	}
	// Strangers who fail to sign in lock out nobody who shares their address.
	if _, err := f.signIn(f.request("localhost:8080"), "open-sesame"); err != nil {
		t.Errorf("with the right secret: %v", err)
	}
	other := f.request("localhost:8080")
	other.RemoteAddr = "192.0.2.2:1"
	if _, err := f.signIn(other, "wrong"); !errors.Is(err, ErrWrong) {
		t.Errorf("from another address: %v", err)
	}
}

func TestAttempts(t *testing.T) {
	var a Attempts
	now := time.Now()
	for i := range attemptsAtOnce {
		if wait := a.Fail("x", now); wait != 0 {
			t.Errorf("attempt %d: %v", i, wait)
		}
	}
	for range 100 { // what is not counted makes nobody wait longer
		if wait := a.Fail("x", now); wait != attemptEvery {
			t.Errorf("got %v", wait)
		}
	}
	if wait := a.Fail("x", now.Add(attemptEvery)); wait != 0 {
		t.Errorf("later: %v", wait)
	}
	if wait := a.Fail("x", now.Add(attemptEvery)); wait != attemptEvery {
		t.Errorf("one more: %v", wait)
	}
	now = now.Add(time.Hour)
	for i := range 2 * maxAddresses {
		a.Fail(fmt.Sprint(i), now)
	}
	if len(a.failed) > maxAddresses+1 {
		t.Errorf("%d addresses", len(a.failed))
	}
	if wait := a.Fail("one more", now); wait == 0 {
		t.Error("there is no bound for those whom there is no room for")
	}
	now = now.Add(2 * time.Hour * maxAddresses)
	if a.Fail("one more", now); len(a.failed) != 1 {
		t.Errorf("%d addresses stay", len(a.failed))
	}
}

func TestAddressOf(t *testing.T) {
	for at, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64", "[fe80::1%eth0]:80": "fe80::/64", "@": "@", "": "",
	} {
		if got := addressOf(&http.Request{RemoteAddr: at}); got != want {
			t.Errorf("%q: %q", at, got)
		}
	}
}
