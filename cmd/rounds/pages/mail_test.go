package pages

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/mailbox"
)

// mailAPI is an API with one sign-in of a mailbox, and what it was asked.
type mailAPI struct {
	login   api.MailLogin
	refuses int               // the status with which the next POST is refused
	configs map[string]string // of mailboxes, by id
	calls   []string
}

func (m *mailAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	mail := strings.Contains(r.URL.Path, "/mail/")
	if mail {
		m.calls = append(m.calls, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	}
	id, account := strings.CutPrefix(r.URL.Path, "/v1/accounts/")
	switch {
	case strings.HasSuffix(id, "/schedule"):
		_, _ = io.WriteString(w, strings.Replace(someSchedule, "{", `{"reason":"auth: oauth_invalid_grant: sign in again",`, 1))
	case strings.HasSuffix(id, "/timeline"):
		_, _ = io.WriteString(w, someTimeline)
	case !account && !mail:
		_, _ = io.WriteString(w, "{}")
	case account && m.configs[id] == "", m.login.State == "" && strings.Contains(r.URL.Path, loginName):
		w.WriteHeader(http.StatusNotFound)
	case account:
		_, _ = io.WriteString(w, `{"id":"`+id+`","kind":"imap","config":`+m.configs[id]+`}`)
	case r.Method == "POST" && m.refuses != 0:
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(m.refuses)
		_, _ = io.WriteString(w, `{"status":422,"detail":"no","errors":[{"location":"body.provider","message":"must be a <provider>"},{"location":"body.redirect_uri","message":"odd"}]}`)
		m.refuses = 0
	case r.Method == "DELETE":
		w.WriteHeader(http.StatusNoContent)
	default:
		_ = json.NewEncoder(w).Encode(m.login)
	}
}

// A sign-in whose browser comes back, as a browser without JavaScript goes through it. Its name is in
// a cookie, and in neither an address nor a page.
func TestSigningAMailboxIn(t *testing.T) {
	inside := &mailAPI{login: api.MailLogin{Login: loginName, Account: "me", State: mailbox.Waiting, Page: "https://login.example/?state=STATE&x=<1>"}}
	site := scanSite(t, inside, true)
	begun := postForm(site, "/account/mail", url.Values{"id": {"me"}, "provider": {" google "}, "user": {"me@example.com"}, "labels": {"team=x\n"}})
	at := begun.Header().Get("Location")
	cookies := begun.Result().Cookies()
	if begun.Code != 303 || len(cookies) != 1 || !cookies[0].HttpOnly || !cookies[0].Secure || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Value != loginName {
		t.Fatalf("%d to %s with %v", begun.Code, at, cookies)
	}
	if got := inside.calls[0]; got != `POST /v1/mail/logins {"id":"me","labels":{"team":"x"},"provider":"google","redirect_uri":"https://example.com/account/mail/back","user":"me@example.com"}` {
		t.Errorf("the API is asked %s", got)
	}
	last := func() string { return inside.calls[len(inside.calls)-1] }
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
	shows(at, `href="https://login.example/?state=STATE&amp;x=%3c1%3e"`, "The browser comes back here", `http-equiv="refresh"`)
	if last() != "GET /v1/mail/logins/"+loginName+"?hold=0" {
		t.Errorf("a page waits: %s", last())
	}
	inside.login.Trouble = "http_502: <away>"
	shows(at, "http_502: &lt;away&gt;")
	inside.login.Page = "javascript:alert(1)"
	if w := with(site, httptest.NewRequest("GET", at, nil), cookies...); strings.Contains(w.Body.String(), `href="javascript`) {
		t.Error("the page of a stranger is a script")
	}

	for query, want := range map[string]string{
		"state=STATE&code=CODE&iss=https://login.example": `{"code":"CODE","iss":"https://login.example","state":"STATE"}`,
		"state=STATE&error=access_denied":                 `{"state":"STATE"}`,
	} {
		if to := shows("/account/mail/back?" + query); to != at || last() != "POST /v1/mail/logins/"+loginName+"/code "+want {
			t.Errorf("%s: to %s, and the API is asked %s", query, to, last())
		}
	}
	inside.refuses = http.StatusBadGateway
	if to := shows("/account/mail/back?state=STATE&code=x"); to != at {
		t.Errorf("in trouble the browser comes to %q", to)
	}
	before := len(inside.calls)
	if to := shows("/account/mail/back?state=OTHER&code=x"); !strings.HasPrefix(to, "/account/mail/code?at=") || len(inside.calls) != before {
		t.Errorf("another sign-in: to %s, and the API is asked %s", to, inside.calls[before:])
	}

	inside.login = api.MailLogin{Login: loginName, Account: "me", State: mailbox.Refused}
	shows(at, "Nothing is registered", `href="/account/mail?id=me"`)
	inside.login.State = mailbox.Done
	if to := shows(at); to != "/account?id=me&said=scan.done" {
		t.Errorf("who is done comes to %q", to)
	}
	abandoned := postForm(site, strings.Replace(at, "?", "/abandon?", 1), nil, cookies...)
	if last() != "DELETE /v1/mail/logins/"+loginName || abandoned.Code != 303 || abandoned.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("abandoned: %d, and the API is asked %s", abandoned.Code, last())
	}
	inside.login.State = "" // it has ended
	shows(at, "This sign-in has ended")
	if w := with(site, httptest.NewRequest("GET", at, nil)); !strings.Contains(w.Body.String(), "This sign-in has ended") {
		t.Error("another browser sees the sign-in")
	}
}

func TestADeviceCodeIsShown(t *testing.T) {
	inside := &mailAPI{login: api.MailLogin{Login: loginName, Account: "me", State: mailbox.Waiting, Page: "https://login.example/device", UserCode: "WDJB-MJHT"}}
	site := scanSite(t, inside, true)
	begun := postForm(site, "/account/mail", url.Values{"id": {"me"}, "provider": {"microsoft"}})
	w := with(site, httptest.NewRequest("GET", begun.Header().Get("Location"), nil), begun.Result().Cookies()...)
	for _, text := range []string{"WDJB-MJHT", `href="https://login.example/device" target="_blank"`, "type in this code"} {
		if !strings.Contains(w.Body.String(), text) {
			t.Errorf("%d, lacks %q in\n%s", w.Code, text, w.Body)
		}
	}
}

func TestMailFormsAndButtons(t *testing.T) {
	inside := &mailAPI{configs: map[string]string{"gmail": `{"host":"imap.gmail.com"}`, "own": `{"host":"mx.example","oauth":{"secret":"mail-own"}}`, "plain": `{"host":"mx.example"}`}}
	for _, may := range []bool{true, false} {
		site := scanSite(t, inside, may)
		for path, has := range map[string]bool{"/accounts": may, "/account?id=gmail": may, "/account?id=own": may, "/account?id=plain": false} {
			if w := ask(site, "GET", path); w.Code != 200 || strings.Contains(w.Body.String(), `href="/account/mail`) != has {
				t.Errorf("may %t: %s is %d %s", may, path, w.Code, w.Body)
			}
		}
		for _, path := range []string{"/account/mail", "/account/mail/code?at=x", "/account/mail/back?state=x"} {
			if w := ask(site, "GET", path); (w.Code == 403) == may {
				t.Errorf("may %t: %s is %d", may, path, w.Code)
			}
		}
	}
	site := scanSite(t, inside, true)
	if w := ask(site, "GET", "/account/mail?id=gmail"); !strings.Contains(w.Body.String(), `value="google" maxlength`) || strings.Contains(w.Body.String(), `name="user"`) {
		t.Errorf("an account that is there: %s", w.Body)
	}
	inside.refuses = http.StatusUnprocessableEntity
	w := postForm(site, "/account/mail", url.Values{"id": {"you"}, "provider": {"gogle"}})
	for _, text := range []string{`id="provider-wrong">must be a &lt;provider&gt;`, "odd", `value="gogle"`, `href="#provider"`} {
		if w.Code != 422 || !strings.Contains(w.Body.String(), text) {
			t.Errorf("%d, lacks %q in\n%s", w.Code, text, w.Body)
		}
	}
}
