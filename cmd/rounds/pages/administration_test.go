package pages

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
)

// administrationAPI answers what the page asks for. A new key has a text, and a taken name is refused.
type administrationAPI struct{ calls []string }

func (a *administrationAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodGet {
		a.calls = append(a.calls, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	}
	if r.Method == http.MethodPost && strings.Contains(string(body), "taken") {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"status":409,"detail":"another key has this name; revoke it first, or take another name"}`)
		return
	}
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"name":"new","key":"rk_the-text"}`)
		return
	}
	_, _ = io.WriteString(w, map[string]string{
		"/v1/keys":        `{"keys":[{"name":"<press>","role":"viewer","labels":{"team":"press"},"created_by":"eve","expired":true,"expires":"2026-11-20T00:00:00Z"}]}`,
		"/v1/sessions":    `{"sessions":[{"id":"abc","name":"<ada>","via":"oidc","host":"rounds.example","since":"2026-11-27T03:00:00Z","expires":"2026-11-27T15:00:00Z"},{"id":"d","name":"x","via":"later"}],"count":2}`,
		"/v1/secrets":     `{"secrets":[{"name":"KEY","hosts":["*.example.com"],"kinds":["http"],"set_by":"eve","key":"k","accounts":1},{"name":"FREE","accounts":0},{"name":"service.CRM"}],"next":"FREE"}`,
		"/v1/backup:last": `{"now":"2026-11-27T05:00:00Z"}`,
	}[r.URL.Path])
}

func TestAdministration(t *testing.T) {
	api := new(administrationAPI)
	site := siteFor(t, access.Admin, api)
	body := ask(site, "GET", "/administration").Body.String()
	contains(t, body, `href="/administration" data-key="n" aria-current="page"`, "&lt;press&gt;", "team=press", "expired", "never", "&lt;ada&gt;", "the identity provider", ">later<",
		"*.example.com", "bound to no host", "cannot be read", "cursor=FREE", `href="/accounts?secret=KEY">at least 1 account</a>`, "at least 0 accounts", "None that this service knows of")
	post := func(path, form string) *httptest.ResponseRecorder {
		api.calls = nil
		r := httptest.NewRequest("POST", path, strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		return w
	}
	for form, want := range map[string]struct {
		path, call, shows string
		status            int
	}{
		"do=create&name=new&role=viewer&label=team%3Dpress&expires_in=90d": {"/key", `POST /v1/keys {"name":"new","role":"viewer","labels":{"team":"press"},"expires_in":"90d"}`, "rk_the-text", http.StatusCreated},
		"do=create&name=taken&role=admin":                                  {"/key", `POST /v1/keys {"name":"taken","role":"admin"}`, "another key has this name", http.StatusConflict},
		"do=revoke&name=" + url.QueryEscape("../a"):                        {"/key", "DELETE /v1/keys/..%2Fa", "", http.StatusSeeOther},
		"do=odd": {"/key", "", "", http.StatusUnprocessableEntity},
		"id=abc": {"/session", "DELETE /v1/sessions/abc", "", http.StatusSeeOther},
	} {
		w := post("/administration"+want.path, form)
		if w.Code != want.status || strings.Join(api.calls, "") != want.call || !strings.Contains(w.Body.String(), want.shows) {
			t.Errorf("%s: %d, called %q", form, w.Code, api.calls)
		}
	}
	if w := post("/administration/key", "do=create&name=taken&role=admin"); !strings.Contains(w.Body.String(), `value="taken"`) || !strings.Contains(w.Body.String(), `<option selected value="admin">`) {
		t.Error("the form has forgotten what was typed")
	}
}
