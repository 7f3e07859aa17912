package pages

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
)

// The forms of maintenance windows and of concerns ask the API for what they say.
func TestFormsOfMaintenanceAndConcerns(t *testing.T) {
	var call string
	inside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		call = strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + string(body))
		answering(`{}`)(w, r)
	})
	d, err := New(Options{May: func(access.Principal, string) bool { return true }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	site := d.Handler(inside)
	for form, want := range map[string]struct {
		call, to string
		status   int
	}{
		"/limits/maintenance?do=set&about=News.example:8443&lasts=4h&reason=disks": {`PUT /v1/maintenance/News.example-8443 {"host":"News.example:8443","lasts":"4h","reason":"disks"}`, "/limits?said=limits.set", 303},
		"/limits/maintenance?do=set&about=team%3Dpress&lasts=4h&reason=disks":      {`PUT /v1/maintenance/team-press {"labels":{"team":"press"},"lasts":"4h","reason":"disks"}`, "/limits?said=limits.set", 303},
		"/limits/maintenance?do=set&about=..&lasts=4h&reason=disks":                {"", "", 422},
		"/limits/maintenance?do=end&name=disks":                                    {"DELETE /v1/maintenance/disks", "/limits?said=limits.ended", 303},
		"/limits/maintenance?do=odd":                                               {"", "", 422},
		"/concern?do=acknowledge&code=overdue&note=seen":                           {`POST /v1/concerns/overdue/acknowledge {"note":"seen"}`, "/?said=concern.acknowledge", 303},
		"/concern?do=silence&code=..&subject=crm&note=why&lasts=1d":                {`POST /v1/concerns/%2E%2E/silence {"subject":"crm","lasts":"1d","reason":"why"}`, "/?said=concern.silence", 303},
		"/concern?do=unsilence&code=overdue":                                       {"POST /v1/concerns/overdue/unsilence {}", "/?said=concern.unsilence", 303},
		"/concern?do=odd&code=overdue":                                             {"", "", 422},
	} {
		call = ""
		path, query, _ := strings.Cut(form, "?")
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("POST", path, strings.NewReader(values.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		if w.Code != want.status || w.Header().Get("Location") != want.to || want.call != "" && call != want.call {
			t.Errorf("%s: %d to %q, call %q", form, w.Code, w.Header().Get("Location"), call)
		}
	}
}

// Limits shows the windows, and the Overview what was said about a concern, with what others wrote escaped.
func TestMaintenanceAndSilencesAreShown(t *testing.T) {
	site := newSite(t, said(map[string]string{
		"/v1/stats": someStats, "/v1/history": someHistory,
		"/v1/limits": `{"limits":[]}`, "/v1/credentials": `{"credentials":[]}`,
		"/v1/maintenance": `{"windows":[{"name":"disks","host":"a.example","from":"2026-11-27T03:00:00Z","until":"2026-11-27T07:00:00Z","open":true,"reason":"<new disks>","by":"eve"}]}`,
		"/v1/concerns":    `{"healthy":true,"concerns":[{"code":"overdue","level":"bad","accounts":3,"link":"/","text":"x","seen":{"by":"adam","note":"<seen>"},"silenced":{"by":"eve","until":"2026-11-27T07:00:00Z","reason":"<why>"}}]}`,
	}))
	for path, parts := range map[string][]string{
		"/limits": {"a.example", "&lt;new disks&gt;", "under way", "/limits/maintenance"},
		"/":       {"silenced until", "&lt;why&gt;", "seen by adam", "&lt;seen&gt;", `action="/concern"`},
	} {
		body := ask(site, "GET", path).Body.String()
		for _, part := range parts {
			if !strings.Contains(body, part) {
				t.Errorf("%s has no %q", path, part)
			}
		}
	}
}
