package signin

import (
	"bytes"
	"context"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/testing/oidctest"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// judges accepts one key, and the people whom the provider vouches for.
type judges struct{ people *Provider }

func (j *judges) Secret(_ context.Context, secret string) (Holder, access.Principal, error) {
	if secret != "open-sesame" {
		return Holder{}, access.Principal{}, ErrWrong
	}
	return Holder{Via: access.ViaKey, Name: "press"}, access.Principal{Name: "press", Role: access.Editor}, nil
}

func (j *judges) Holder(_ context.Context, s Session) (access.Principal, error) {
	if s.Via == access.ViaOIDC {
		return j.people.Principal(s.Holder)
	}
	return access.Principal{Name: s.Name, Role: access.Editor, Labels: access.Labels{"team": "<b>"}}, nil
}

// fixture has the pages on a real listener, and a browser.
type fixture struct {
	*testing.T
	at      string
	browser *http.Client
	far     *oidctest.Provider
	logs    *bytes.Buffer
	setErr  func(string)
}

func newFixture(t *testing.T, people bool) *fixture {
	t.Helper()
	if !people {
		return newFixtureWith(t, nil)
	}
	far := oidctest.Start(t)
	f := newFixtureWith(t, func(string) string { return far.URL })
	f.far = far
	return f
}

// newFixtureWith returns the pages with an identity provider, which start starts for a
// base URL. start returns the issuer; nil: there is none.
func newFixtureWith(t *testing.T, start func(base string) string) *fixture {
	t.Helper()
	redis := redistest.Embedded(t)
	ring, err := circulate.Open(context.Background(), redis, circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, logs: new(bytes.Buffer), setErr: redis.Miniredis().SetError}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	f.at = server.URL
	log := slog.New(slog.NewTextHandler(f.logs, nil))
	j := new(judges)
	o := Options{Door: Door{Book: In(ring), Judges: j, Attempts: new(Attempts), Log: log}, At: f.at, Log: log}
	if start != nil {
		j.people = NewProvider(ProviderConfig{Issuer: start(f.at), ClientID: oidctest.ClientID, ClientSecret: oidctest.ClientSecret,
			RedirectURL: f.at + CallbackPath, Grants: []Grant{{Group: "ops", Role: access.Operator}}}, key.NewKeyring(ring, nil).Sealer)
		o.People = j.people
	}
	pages, err := NewPages(o)
	if err != nil {
		t.Fatal(err)
	}
	pages.Each(mux.HandleFunc)
	f.newBrowser()
	return f
}

// newBrowser replaces the browser by one without cookies. It does not follow redirects.
func (f *fixture) newBrowser() {
	jar, err := cookiejar.New(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.browser = &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

type page struct {
	status int
	header http.Header
	body   string
}

func (f *fixture) do(r *http.Request) page {
	f.Helper()
	answer, err := f.browser.Do(r)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		f.Fatal(err)
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") && strings.HasPrefix(r.URL.String(), f.at) && answer.StatusCode/100 != 3 {
		if h := answer.Header; !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'") || strings.Contains(string(body), "<script") || h.Get("Referrer-Policy") != "same-origin" {
			f.Errorf("%s: %v", r.URL, h)
		}
	}
	return page{answer.StatusCode, answer.Header, string(body)}
}

func (f *fixture) get(address string, headers ...string) page {
	f.Helper()
	r, err := http.NewRequest("GET", address, nil)
	if err != nil {
		f.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return f.do(r)
}

func (f *fixture) post(path string, form url.Values) page {
	f.Helper()
	r, err := http.NewRequest("POST", f.at+path, strings.NewReader(form.Encode()))
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", f.at)
	return f.do(r)
}

func TestForm(t *testing.T) {
	f := newFixture(t, false)
	first := f.get(f.at + "/signin?next=/docs")
	if first.status != 200 || !strings.Contains(first.body, `name="secret"`) || !strings.Contains(first.body, `value="/docs"`) || strings.Contains(first.body, "/signin/start") {
		t.Fatalf("%d %s", first.status, first.body)
	}
	wrong := f.post("/signin", url.Values{"secret": {"<wrong>"}, "next": {"/docs"}})
	if wrong.status != 401 || strings.Contains(wrong.body, "wrong") || !strings.Contains(wrong.body, `role="alert"`) || len(wrong.header["Set-Cookie"]) > 0 {
		t.Errorf("%d %v %s", wrong.status, wrong.header, wrong.body)
	}
	in := f.post("/signin", url.Values{"secret": {" open-sesame\n"}, "next": {"/docs?x=1"}})
	if in.status != 303 || in.header.Get("Location") != "/docs?x=1" {
		t.Errorf("%d %v", in.status, in.header)
	}
	if who := f.get(f.at + "/signin"); !strings.Contains(who.body, "<strong>press</strong> (editor, team=&lt;b&gt;)") || strings.Contains(who.body, `name="secret"`) {
		t.Errorf("%s", who.body)
	}
	if out := f.post("/signout", nil); out.status != 303 || out.header.Get("Location") != "/signin" {
		t.Errorf("%d %v", out.status, out.header)
	}
	if who := f.get(f.at + "/signin"); strings.Contains(who.body, "press") {
		t.Errorf("%s", who.body)
	}
	if logs := f.logs.String(); strings.Contains(logs, "sesame") || strings.Contains(logs, "<wrong>") {
		t.Errorf("the log has %s", logs)
	}
	if sheet := f.get(f.at + "/signin/signin.css"); sheet.status != 200 || sheet.header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("%d %v", sheet.status, sheet.header)
	}
}

func TestFormIsHeldToBounds(t *testing.T) {
	f := newFixture(t, false)
	if got := f.post("/signin", url.Values{"secret": {strings.Repeat("x", maxForm)}}); got.status != 400 {
		t.Errorf("a large form: %d", got.status)
	}
	foreign, err := http.NewRequest("POST", f.at+"/signin", strings.NewReader("secret=open-sesame"))
	if err != nil {
		t.Fatal(err)
	}
	foreign.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	foreign.Header.Set("Origin", "https://evil.example")
	if got := f.do(foreign); got.status != 403 || len(got.header["Set-Cookie"]) > 0 {
		t.Errorf("another page signs somebody in: %d", got.status)
	}
	for range 10 {
		f.post("/signin", url.Values{"secret": {"x"}})
	}
	if got := f.post("/signin", url.Values{"secret": {"x"}}); got.status != 429 || got.header.Get("Retry-After") == "" {
		t.Errorf("there is no bound: %d", got.status)
	}
	if got := f.post("/signin", url.Values{"secret": {"open-sesame"}}); got.status != 303 {
		t.Errorf("a right key, after others have failed: %d", got.status)
	}
	f.setErr("LOADING")
	f.browser.Jar.SetCookies(&url.URL{Scheme: "http", Host: "127.0.0.1"}, []*http.Cookie{{Name: "rounds_session", Value: strings.Repeat("A", 52)}})
	for _, path := range []string{"/signout", "/signin"} {
		if got := f.post(path, nil); path == "/signout" && got.status != 503 {
			t.Errorf("%s without Redis: %d", path, got.status)
		}
	}
	if got := f.get(f.at + "/signin"); got.status != 503 {
		t.Errorf("without Redis: %d", got.status)
	}
}

func TestNext(t *testing.T) {
	for next, want := range map[string]string{
		"/docs": "/docs", "/docs?a=b&c#d": "/docs?a=b&c#d", "/": "/", "/a%2Fb": "/a%2Fb",
		"": Path, "docs": Path, "//evil.example": Path, "/\\evil.example": Path, "\\\\evil.example": Path, "https://evil.example/": Path,
		"javascript:alert(1)": Path, "/\tx": Path, "/\n/evil.example": Path, "/" + strings.Repeat("x", maxNext): Path, "/%zz": Path, "///evil.example": Path, "/%2F%2Fevil.example": Path, "/%2f ": Path, "/a b": Path, "%2f": Path,
	} {
		if got := local(next); got != want {
			t.Errorf("%q: %q", next, got)
		}
	}
}

func TestHome(t *testing.T) {
	home := &Pages{options: Options{Home: "/"}}
	for next, want := range map[string]string{"": "/", Path: "/", "/account?id=a": "/account?id=a", "https://evil.example": Path} {
		if got := home.next(next); got != want {
			t.Errorf("after %q: %q, want %q", next, got, want)
		}
	}
	if got := new(Pages).next(""); got != Path {
		t.Errorf("without a home: %q", got)
	}
}

func TestLanguages(t *testing.T) {
	f := newFixture(t, true)
	for asked, want := range map[string]string{
		"": "en", "zh-CN,zh;q=0.9,en;q=0.8": "zh", "zh-TW": "zh", "de,en;q=0.5": "en", "fr": "en", "en,zh;q=0.1": "en", "*": "en", strings.Repeat("zh,", 100): "en", "\"<": "en",
	} {
		got := f.get(f.at+"/signin", "Accept-Language", asked)
		if got.header.Get("Content-Language") != want || !strings.Contains(got.body, `<html lang="`+want+`">`) {
			t.Errorf("%.30q: %v", asked, got.header)
		}
	}
	verbs := regexp.MustCompile(`%[a-z]`)
	all := texts()
	for i := range all {
		for j, pair := range [][2]string{{all[i].TooMany, all[0].TooMany}, {all[i].Stale, all[0].Stale}, {all[i].NoGrant, all[0].NoGrant}, {all[i].ProviderSays, all[0].ProviderSays}} {
			if got, want := verbs.FindAllString(pair[0], -1), verbs.FindAllString(pair[1], -1); len(got) != len(want) || got[0] != want[0] {
				t.Errorf("%s, text %d: %v", all[i].Lang, j, got)
			}
		}
	}
}

// signIn goes to the provider and comes back.
func (f *fixture) signIn(next string) page {
	f.Helper()
	return f.get(f.comeBack(next), "Sec-Fetch-Site", "cross-site")
}

// comeBack begins a sign-in and returns the address to which the provider sends the browser
// back.
func (f *fixture) comeBack(next string) string {
	f.Helper()
	away := f.get(f.at + "/signin/start?next=" + url.QueryEscape(next))
	if away.status != 302 || !strings.HasPrefix(away.header.Get("Location"), f.far.URL) {
		f.Fatalf("%d %v %s", away.status, away.header, away.body)
	}
	cookies := away.header["Set-Cookie"]
	cookie := cookies[len(cookies)-1] // those before have the browser delete old ones
	if !strings.HasPrefix(cookie, "rounds_signin_") || !strings.Contains(cookie, "SameSite=Lax") || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "Max-Age=600") {
		f.Errorf("got %s", cookie)
	}
	return f.get(away.header.Get("Location")).header.Get("Location")
}

func TestPeople(t *testing.T) {
	f := newFixture(t, true)
	f.far.Person(oidctest.Claims{"email": "anna@example.com", "email_verified": true, "groups": []string{"ops"}})
	if first := f.get(f.at + "/signin?next=/docs"); !strings.Contains(first.body, `href="/signin/start?next=%2fdocs"`) {
		t.Errorf("%s", first.body)
	}
	in := f.signIn("/docs?a=b")
	if in.status != 200 || in.header.Get("Refresh") != "0; url=/docs?a=b" || !strings.Contains(in.body, "anna@example.com") || !strings.Contains(in.body, `href="/docs?a=b"`) {
		t.Fatalf("%d %v %s", in.status, in.header, in.body)
	}
	if cookies := strings.Join(in.header["Set-Cookie"], "\n"); !strings.Contains(cookies, "rounds_session=") || !strings.Contains(cookies, "SameSite=Strict") || !regexp.MustCompile(`rounds_signin_\w+=; Path=/; Max-Age=0`).MatchString(cookies) {
		t.Errorf("got %s", cookies)
	}
	if who := f.get(f.at + "/signin"); !strings.Contains(who.body, "<strong>anna@example.com@127.0.0.1</strong> (operator)") {
		t.Errorf("%s", who.body)
	}
	if logs := f.logs.String(); !strings.Contains(logs, "name=anna@example.com@127.0.0.1 via=oidc role=operator address=127.0.0.1 subject=0001") {
		t.Errorf("the log has %s", logs)
	}
	f.newBrowser()
	f.far.Person(oidctest.Claims{"preferred_username": "bert", "groups": []string{"<i>"}})
	if got := f.signIn("/docs"); got.status != 403 || !strings.Contains(got.body, "bert@127.0.0.1") || !strings.Contains(got.body, "ROUNDS_OIDC_ROLES") || strings.Contains(strings.Join(got.header["Set-Cookie"], ""), "rounds_session=") {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
}

func TestPeopleComeBackOnce(t *testing.T) {
	f := newFixture(t, true)
	f.far.Person(oidctest.Claims{"groups": "ops"})
	back := f.comeBack("")
	mine := f.browser
	f.newBrowser() // of another person
	if got := f.get(back); got.status != 400 || !strings.Contains(got.body, f.at+"/signin") {
		t.Errorf("with another browser: %d %s", got.status, got.body)
	}
	f.comeBack("")
	if got := f.get(back); got.status != 400 {
		t.Errorf("with the state of another: %d", got.status)
	}
	f.browser = mine
	at, err := url.Parse(f.at)
	if err != nil {
		t.Fatal(err)
	}
	cookies := mine.Jar.Cookies(at)
	if got := f.get(back); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	f.newBrowser()
	f.browser.Jar.SetCookies(at, cookies)
	if got := f.get(back); got.status != 401 || strings.Contains(strings.Join(got.header["Set-Cookie"], ""), "rounds_session=") {
		t.Errorf("once more, with a cookie that was copied: %d", got.status)
	}
	f.browser = mine
	if got := f.get(back); got.status != 400 || strings.Contains(strings.Join(got.header["Set-Cookie"], ""), "rounds_session=") {
		t.Errorf("once more: %d", got.status)
	}
	for _, query := range []string{"", "?state=", "?code=x&state=" + strings.Repeat("x", 5000)} {
		if got := f.get(f.at + CallbackPath + query); got.status != 400 {
			t.Errorf("%.20s: %d", query, got.status)
		}
	}
}

// Any page can make browsers send callbacks, and anybody can begin sign-ins. That keeps
// nobody out: neither users of the same address, nor a user who is at the provider
// meanwhile.
func TestStrangersLockNobodyOut(t *testing.T) {
	f := newFixture(t, true)
	f.far.Person(oidctest.Claims{"groups": "ops"})
	back := f.comeBack("/docs")
	mine := f.browser
	f.newBrowser()
	asked := f.far.Asked("/token")
	for i := range 50 {
		query := url.Values{"state": {strings.Repeat("A", 20+i%10)}, "code": {"x"}}
		if i%2 == 0 {
			query.Set("error", "forged")
		}
		if got := f.get(f.at + CallbackPath + "?" + query.Encode()); got.status != 400 || strings.Contains(got.body, "forged") {
			t.Errorf("a forged callback: %d %s", got.status, got.body)
		}
	}
	if logs := f.logs.String(); strings.Contains(logs, "refused") || f.far.Asked("/token") != asked {
		t.Errorf("forged callbacks count, or the provider was asked: %s", logs)
	}
	for range 1100 {
		f.newBrowser()
		if got := f.get(f.at + "/signin/start"); got.status != 302 {
			t.Fatalf("a sign-in that nobody ends: %d", got.status)
		}
	}
	for range 20 {
		f.post("/signin", url.Values{"secret": {"wrong"}})
	}
	// A browser that has begun here, but has no code of the provider, fails alone too.
	f.newBrowser()
	for range 12 {
		away, err := url.Parse(f.get(f.at + "/signin/start").header.Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.get(f.at + CallbackPath + "?code=x&state=" + away.Query().Get("state")); got.status != 401 {
			t.Errorf("a forged code: %d", got.status)
		}
	}
	f.browser = mine
	if got := f.get(back); got.status != 200 || got.header.Get("Refresh") != "0; url=/docs" {
		t.Errorf("who is at the provider meanwhile: %d %s", got.status, got.body)
	}
	f.newBrowser()
	if got := f.signIn(""); got.status != 200 {
		t.Errorf("who comes later: %d", got.status)
	}
	if got := f.post("/signin", url.Values{"secret": {"open-sesame"}}); got.status != 303 {
		t.Errorf("with a key: %d", got.status)
	}
}

func TestSignInsInSeveralTabs(t *testing.T) {
	f := newFixture(t, true)
	f.far.Person(oidctest.Claims{"groups": "ops"})
	var tabs []string
	for range maxStarts + 2 {
		tabs = append(tabs, f.comeBack("/docs"))
	}
	at, err := url.Parse(f.at)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.browser.Jar.Cookies(at)); n != maxStarts {
		t.Errorf("the browser keeps %d sign-ins", n)
	}
	for i, back := range tabs {
		want := 200
		if i < 2 {
			want = 400 // the oldest made room
		}
		if got := f.get(back); got.status != want {
			t.Errorf("tab %d: %d", i, got.status)
		}
	}
	if n := len(f.browser.Jar.Cookies(at)); n != 1 { // the session
		t.Errorf("%d cookies stay", n)
	}
}

// Signing out ends the session here, and shows the way to end the one at the provider.
func TestSigningOutAtTheProvider(t *testing.T) {
	f := newFixture(t, true)
	f.far.Person(oidctest.Claims{"groups": "ops"})
	if f.signIn("").status != 200 {
		t.Fatal("nobody is signed in")
	}
	if out := f.post("/signout", nil); out.status != 303 || out.header.Get("Location") != "/signin" {
		t.Errorf("the provider has no such address: %d", out.status)
	}
	f = newFixture(t, true)
	f.far.Person(oidctest.Claims{"groups": "ops"})
	f.far.LetOut(f.at + "/signin")
	if f.signIn("").status != 200 {
		t.Fatal("nobody is signed in")
	}
	out := f.post("/signout", nil)
	to := regexp.MustCompile(`<a class="button" href="([^"]+)"`).FindStringSubmatch(out.body)
	if out.status != 200 || to == nil || !strings.Contains(out.body, "You are signed out here") || out.header.Get("Refresh") != "" {
		t.Fatalf("%d %s", out.status, out.body)
	}
	if who := f.get(f.at + "/signin"); strings.Contains(who.body, "0001@") {
		t.Errorf("still signed in: %s", who.body)
	}
	if there := f.get(html.UnescapeString(to[1])); there.status != 302 || there.header.Get("Location") != f.at+"/signin" {
		t.Errorf("at the provider: %d %s", there.status, there.body)
	}
	if out := f.post("/signout", nil); out.status != 303 {
		t.Errorf("nobody is signed in: %d", out.status)
	}
	f.post("/signin", url.Values{"secret": {"open-sesame"}})
	if out := f.post("/signout", nil); out.status != 303 {
		t.Errorf("signed in with a key: %d", out.status)
	}
}

// walk follows redirects from a page.
func (f *fixture) walk(at string, p page) (string, page) {
	f.Helper()
	for range 10 {
		if p.status/100 != 3 {
			return at, p
		}
		to, err := url.Parse(p.header.Get("Location"))
		if err != nil {
			f.Fatal(err)
		}
		base, err := url.Parse(at)
		if err != nil {
			f.Fatal(err)
		}
		at = base.ResolveReference(to).String()
		p = f.get(at)
	}
	f.Fatalf("too many redirects, the last to %s", at)
	return "", page{}
}

// submit fills in the form of a provider's page, and walks on.
func (f *fixture) submit(at string, p page, values url.Values) (string, page) {
	f.Helper()
	action := regexp.MustCompile(`<form[^>]* action="([^"]+)"`).FindStringSubmatch(p.body)
	if p.status != 200 || action == nil {
		f.Fatalf("no form at %s: %d %s", at, p.status, p.body)
	}
	for _, hidden := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(p.body, -1) {
		values.Set(hidden[1], html.UnescapeString(hidden[2]))
	}
	base, err := url.Parse(at)
	if err != nil {
		f.Fatal(err)
	}
	to, err := base.Parse(html.UnescapeString(action[1]))
	if err != nil {
		f.Fatal(err)
	}
	r, err := http.NewRequest("POST", to.String(), strings.NewReader(values.Encode()))
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return f.walk(to.String(), f.do(r))
}

// TestRealProvider signs a person in and out with a provider that others wrote.
func TestRealProvider(t *testing.T) {
	for name, pushed := range map[string]bool{"pushed": true, "by the address": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixtureWith(t, func(base string) string { return oidctest.StartReal(t, base, pushed) })
			at := f.at + "/signin/start?next=/docs"
			away := f.get(at)
			if strings.Contains(away.header.Get("Location"), "request_uri=") != pushed {
				t.Errorf("sent to %s", away.header.Get("Location"))
			}
			at, form := f.walk(at, away)
			_, in := f.submit(at, form, url.Values{"login": {"anna"}, "password": {"x"}})
			if in.status != 200 || in.header.Get("Refresh") != "0; url=/docs" || !strings.Contains(in.body, "anna@example.com@127.0.0.1") {
				t.Fatalf("%d %s\n%s", in.status, in.body, f.logs)
			}
			// The provider knows the browser, and asks no more.
			if _, again := f.walk(f.at+"/signin/start", f.get(f.at+"/signin/start")); again.status != 200 || !strings.Contains(again.body, "anna@example.com") {
				t.Errorf("once more: %d %s", again.status, again.body)
			}
			out := f.post("/signout", nil)
			to := regexp.MustCompile(`<a class="button" href="([^"]+)"`).FindStringSubmatch(out.body)
			if to == nil || !strings.Contains(to[1], "id_token_hint=") {
				t.Fatalf("%d %s", out.status, out.body)
			}
			at = html.UnescapeString(to[1])
			at, form = f.walk(at, f.get(at))
			at, home := f.submit(at, form, url.Values{"logout": {"yes"}})
			if at != f.at+"/signin" || home.status != 200 || !strings.Contains(home.body, `name="secret"`) {
				t.Errorf("signed out at %s: %d %s", at, home.status, home.body)
			}
			if _, ask := f.walk(f.at+"/signin/start", f.get(f.at+"/signin/start")); !strings.Contains(ask.body, `name="login"`) {
				t.Errorf("the provider still knows the browser: %d %s", ask.status, ask.body)
			}
		})
	}
}

func TestTheProviderSaysNo(t *testing.T) {
	f := newFixture(t, true)
	back, err := url.Parse(f.comeBack(""))
	if err != nil {
		t.Fatal(err)
	}
	q := back.Query()
	q.Del("code")
	q.Set("error", "access_denied")
	q.Set("error_description", "<script>x</script>\u202e"+strings.Repeat("y", 500))
	back.RawQuery = q.Encode()
	if got := f.get(back.String()); got.status != 403 || !strings.Contains(got.body, "access_denied &lt;script&gt;") || strings.Contains(got.body, strings.Repeat("y", 300)) || strings.Contains(got.body, "\u202e") {
		t.Errorf("%d %s", got.status, got.body)
	}
	// A browser that did not begin the sign-in is not shown the provider's message.
	f.newBrowser()
	if got := f.get(back.String()); got.status != 400 || strings.Contains(got.body, "access_denied") {
		t.Errorf("%d %s", got.status, got.body)
	}
	f.far.Lie(func(c oidctest.Claims) { c["aud"] = "another" })
	f.newBrowser()
	if got := f.signIn(""); got.status != 401 {
		t.Errorf("a word that is not good: %d", got.status)
	}
	if logs := f.logs.String(); !strings.Contains(logs, "expected audience") || strings.Contains(logs, oidctest.ClientSecret) {
		t.Errorf("the log has %s", logs)
	}
}

func TestTheProviderIsAway(t *testing.T) {
	f := newFixture(t, true)
	f.far.Fault("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusServiceUnavailable) })
	if got := f.get(f.at + "/signin/start"); got.status != 502 || !strings.Contains(got.body, `name="secret"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := f.post("/signin", url.Values{"secret": {"open-sesame"}}); got.status != 303 {
		t.Errorf("with a key: %d", got.status)
	}
	none := newFixture(t, false)
	for _, path := range []string{"/signin/start", CallbackPath} {
		if got := none.get(none.at + path); got.status != 404 || !strings.Contains(got.body, `name="secret"`) {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// A page sends a browser only to addresses of this service.
func FuzzNext(f *testing.F) {
	for _, next := range []string{"/docs?a=b#c", "//evil.example", "/\\evil.example", "/\t/evil.example", "https://evil.example", "/%2f/evil.example", "/%2f ", "%2f", "/..//evil.example"} {
		f.Add(next)
	}
	base := &url.URL{Scheme: "https", Host: "rounds.example", Path: "/signin"}
	f.Fuzz(func(t *testing.T, next string) {
		got := local(next)
		u, err := base.Parse(got)
		if err != nil || u.Host != base.Host || u.Scheme != base.Scheme || u.User != nil || got[0] != '/' || len(got) > 1 && (got[1] == '/' || got[1] == '\\') || strings.ContainsAny(got, "\r\n\t\x00") {
			t.Errorf("%q: %q, %v", next, got, err)
		}
	})
}
