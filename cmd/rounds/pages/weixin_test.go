package pages

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
)

const loginName = "THE-NAME-OF-THE-SIGN-IN-WHICH-IS-A-SECRET"

// scanned is an API with one sign-in, and what it was asked.
type scanned struct {
	login   api.Login
	refuses string            // a problem, in place of a reply to a sign-in that begins
	kinds   map[string]string // of accounts, by id
	calls   []string
}

func (s *scanned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if strings.Contains(r.URL.Path, "weixin") {
		s.calls = append(s.calls, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	}
	id, account := strings.CutPrefix(r.URL.Path, "/v1/accounts/")
	switch {
	case strings.HasSuffix(id, "/schedule"):
		_, _ = io.WriteString(w, someSchedule)
	case strings.HasSuffix(id, "/timeline"):
		_, _ = io.WriteString(w, someTimeline)
	case !account && !strings.Contains(r.URL.Path, "weixin"):
		_, _ = io.WriteString(w, "{}")
	case account && s.kinds[id] == "", s.login.State == "" && strings.Contains(r.URL.Path, loginName):
		w.WriteHeader(http.StatusNotFound)
	case account:
		_ = json.NewEncoder(w).Encode(map[string]string{"id": id, "kind": s.kinds[id]})
	case r.Method == "POST" && s.refuses != "":
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, s.refuses)
	case r.Method == "DELETE":
		w.WriteHeader(http.StatusNoContent)
	default:
		_ = json.NewEncoder(w).Encode(s.login)
	}
}

// scanSite returns the pages for a principal who may sign accounts in, or may not.
func scanSite(t *testing.T, inside http.Handler, may bool) http.Handler {
	t.Helper()
	d, err := New(Options{May: func(_ access.Principal, route string) bool { return may || strings.HasPrefix(route, "GET ") }, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	pages := d.Handler(inside)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Principal{Name: "anna", Role: access.Viewer, Via: access.ViaSession})))
	})
}

func postForm(h http.Handler, path string, form url.Values, cookies ...*http.Cookie) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return with(h, r, cookies...)
}

func with(h http.Handler, r *http.Request, cookies ...*http.Cookie) *httptest.ResponseRecorder {
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A sign-in as a browser without JavaScript goes through it. Its name is in a cookie of its own,
// and in neither an address nor a page.
func TestSigningInByAScan(t *testing.T) {
	inside := &scanned{login: api.Login{Login: loginName, Account: "me", State: scan.Waiting, Link: "https://w.example/q?<1>", Drawn: 1}}
	site := scanSite(t, inside, true)
	begun := postForm(site, "/account/weixin", url.Values{"id": {"me"}, "cadence": {" every 1m "}, "labels": {"team=x\n"}})
	at := begun.Header().Get("Location")
	cookies := begun.Result().Cookies()
	if begun.Code != 303 || len(cookies) != 1 || !cookies[0].HttpOnly || !cookies[0].Secure || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Value != loginName {
		t.Fatalf("%d to %s with %v", begun.Code, at, cookies)
	}
	if got := inside.calls[0]; got != `POST /v1/weixin/logins {"cadence":"every 1m","id":"me","labels":{"team":"x"}}` {
		t.Errorf("the API is asked %s", got)
	}
	shows := func(path string, texts ...string) string {
		t.Helper()
		w := with(site, httptest.NewRequest("GET", path, nil), cookies...)
		for _, text := range texts {
			if !strings.Contains(w.Body.String(), text) {
				t.Errorf("%s, %+v: %d, lacks %q in\n%s", path, inside.login, w.Code, text, w.Body)
			}
		}
		if strings.Contains(w.Body.String()+path+w.Header().Get("Location"), loginName) {
			t.Errorf("%s tells the name of the sign-in", path)
		}
		return w.Header().Get("Location")
	}
	const refresh = `http-equiv="refresh"`
	shows(at, refresh, "<svg ", `href="https://w.example/q?%3c1%3e"`, "Scan the code")
	if got := inside.calls[len(inside.calls)-1]; got != "GET /v1/weixin/logins/"+loginName+"?hold=0" {
		t.Errorf("a page waits: %s", got)
	}
	inside.login.State, inside.login.Trouble = scan.Scanned, "http_502: <away>"
	shows(at, "Confirm on the phone", "http_502: &lt;away&gt;")
	inside.login.State, inside.login.Drawn, inside.login.Trouble = scan.Again, 2, ""
	shows(at, "code 2 of 3", "<svg ")
	inside.login.Link = "javascript:alert(1)"
	if w := with(site, httptest.NewRequest("GET", at, nil), cookies...); strings.Contains(w.Body.String(), `href="javascript`) {
		t.Error("the link of a stranger is a script")
	}
	inside.login.Link = strings.Repeat("x", 1500)
	shows(at, inside.login.Link) // too long to be drawn
	inside.login.State, inside.login.Wrong = scan.Digits, true
	shows(at, "These are not the digits", `name="digits"`)
	if w := with(site, httptest.NewRequest("GET", at, nil), cookies...); strings.Contains(w.Body.String(), refresh) {
		t.Error("the page is loaded again while somebody types")
	}
	typed := postForm(site, at, url.Values{"digits": {"4711"}}, cookies...)
	if got := inside.calls[len(inside.calls)-1]; typed.Code != 303 || typed.Header().Get("Location") != at || got != "POST /v1/weixin/logins/"+loginName+"/code?hold=2 {\"digits\":\"4711\"}" {
		t.Errorf("digits: %d to %s, and the API is asked %s", typed.Code, typed.Header().Get("Location"), got)
	}
	inside.login = api.Login{Login: loginName, Account: "me", State: scan.Expired}
	shows(at, "Nothing is registered", `href="/account/weixin?id=me"`)
	inside.login.State = scan.Bound
	shows(at, "bound to this client already")
	inside.login.State = scan.Done
	if to := shows(at); to != "/account?id=me&said=scan.done" {
		t.Errorf("who is done comes to %q", to)
	}
	abandoned := postForm(site, strings.Replace(at, "?", "/abandon?", 1), nil, cookies...)
	if got := inside.calls[len(inside.calls)-1]; got != "DELETE /v1/weixin/logins/"+loginName || abandoned.Code != 303 || abandoned.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("abandoned: %d, and the API is asked %s", abandoned.Code, got)
	}
	inside.login.State = "" // it has ended
	shows(at, "This sign-in has ended")

	// Another browser, or one whose cookie somebody else has set.
	for _, value := range []string{"", "another", loginName + "x"} {
		before := len(inside.calls)
		w := with(site, httptest.NewRequest("GET", at, nil), &http.Cookie{Name: cookies[0].Name, Value: value})
		if !strings.Contains(w.Body.String(), "This sign-in has ended") || len(inside.calls) != before {
			t.Errorf("cookie %q: %d, and the API is asked %s", value, w.Code, inside.calls[before:])
		}
	}
}

func TestASignInThatIsRefused(t *testing.T) {
	inside := &scanned{kinds: map[string]string{"news": "feed", "me": "weixin"},
		refuses: `{"status":422,"detail":"no","errors":[{"location":"body.base_url","message":"must be an <address>"},{"location":"body.cadence","message":"bad"},{"location":"body.cadence","message":"worse"},{"location":"body.x","message":"odd"}]}`}
	site := scanSite(t, inside, true)
	w := postForm(site, "/account/weixin", url.Values{"id": {"you"}, "base_url": {"gopher://x"}})
	for _, text := range []string{`id="base_url-wrong">must be an &lt;address&gt;`, `id="cadence-wrong">bad; worse`, "odd", `value="gopher://x"`, `<details open>`, `href="#base_url"`} {
		if w.Code != 422 || !strings.Contains(w.Body.String(), text) {
			t.Errorf("%d, lacks %q in\n%s", w.Code, text, w.Body)
		}
	}
	for _, form := range []url.Values{{"id": {"news"}}, {"id": {"you"}, "labels": {"odd"}}} {
		before := len(inside.calls)
		if w := postForm(site, "/account/weixin", form); w.Code != 422 || len(inside.calls) != before || len(w.Result().Cookies()) > 0 {
			t.Errorf("%v: %d %s", form, w.Code, w.Body)
		}
	}
	if w := ask(site, "GET", "/account/weixin?id=me"); !strings.Contains(w.Body.String(), "keeps its id, its cursor and its history") || strings.Contains(w.Body.String(), `name="cadence"`) {
		t.Errorf("an account that is there: %s", w.Body)
	}
	inside.refuses = `{"status":422,"detail":"this process has no key"}`
	if w := postForm(site, "/account/weixin", url.Values{"id": {"me"}}); !strings.Contains(w.Body.String(), "this process has no key") {
		t.Errorf("got %s", w.Body)
	}
}

// A visitor who may not sign accounts in sees no button, and is refused.
func TestWhoMaySignIn(t *testing.T) {
	inside := &scanned{kinds: map[string]string{"me": "weixin"}}
	for _, may := range []bool{true, false} {
		site := scanSite(t, inside, may)
		for _, path := range []string{"/accounts", "/account?id=me"} {
			if w := ask(site, "GET", path); w.Code != 200 || strings.Contains(w.Body.String(), `href="/account/weixin`) != may {
				t.Errorf("may %t: %s is %d %s", may, path, w.Code, w.Body)
			}
		}
		if may {
			continue
		}
		for _, path := range []string{"/account/weixin", "/account/weixin/code?at=x"} {
			if w := ask(site, "GET", path); w.Code != 403 {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
		if w := postForm(site, "/account/weixin", url.Values{"id": {"me"}}); w.Code != 403 || len(inside.calls) > 0 {
			t.Errorf("%d, and the API is asked %s", w.Code, inside.calls)
		}
	}
}

func TestAMessageOfWeChatIsShownByItsText(t *testing.T) {
	for data, want := range map[string]string{
		`{"seq":1,"item_list":[{"type":1,"text_item":{"text":" 你好\nthere "}}]}`: "你好 there",
		`{"item_list":[{"type":2,"image_item":{}}]}`:                            `{"item_list":[{"type":2,"image_item":{}}]}`,
		`{"item_list":7}`: `{"item_list":7}`,
	} {
		m := accountMessage{found{api.Message{Data: json.RawMessage(data)}}}
		if got := m.Line(); got != want {
			t.Errorf("%s: got %s", data, got)
		}
	}
}
