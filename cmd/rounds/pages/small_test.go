package pages

import (
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/rounds-dev/rounds/accounts/access"
)

// misplaced returns the elements of a page that stand where only words may: a form in a span, or a
// list in a heading.
func misplaced(page string) (found []string) {
	words := []string{"span", "small", "b", "code", "p", "h1", "h2", "button", "a"}
	blocks := []string{"form", "div", "ul", "ol", "dl", "table", "section", "p", "h1", "h2"}
	var open []string
	for z := html.NewTokenizer(strings.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return found
		case html.StartTagToken:
			name, _ := z.TagName()
			element := string(name)
			for _, around := range open {
				if slices.Contains(words, around) && slices.Contains(blocks, element) {
					found = append(found, element+" within "+around)
				}
			}
			if !slices.Contains([]string{"input", "meta", "link", "br", "img", "path", "rect", "option"}, element) {
				open = append(open, element)
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			for i, element := range slices.Backward(open) {
				if element == string(name) {
					open = open[:i]
					break
				}
			}
		}
	}
}

// everything answers the API's routes with something for each part of a page.
func everything() map[string]string {
	replies := countedReplies()
	replies["/v1/problems"] = someProblems
	replies["/v1/kinds"] = `{"kinds":[]}`
	replies["/v1/groups"] = `{"groups":[{"name":"crm","members":[{"name":"c1"}]}]}`
	replies["/v1/webhooks"] = `{"webhooks":[{"name":"audit","disabled":true}]}`
	replies["/v1/webhooks/audit/attempts"] = `{"attempts":[{"time":"2026-11-22T14:00:00Z","seconds":0.2,"account":"a","address":"192.0.2.1:443","status":500,"outcome":"failed","answer":"<i>busy\u202e"},{"time":"2026-11-22T14:00:00Z","outcome":"later"}]}`
	replies["/v1/webhooks/audit"] = `{"name":"audit","disabled":true,"standing":{"waiting_messages":3,"waiting":[{"account":"a","shard":3,"position":"6-0"}]}}`
	replies["/v1/dead"] = `{"dead":[{"dead_id":"3:5-0","group":"crm"}]}`
	replies["/v1/dead/3:5-0"] = `{"dead_id":"3:5-0","group":"crm","error":"the host answered 500 Internal Server Error","account":"a","id":"m"}`
	replies["/v1/accounts"] = `{"accounts":[{"id":"a","kind":"feed","state":{"place":"parked","reason":"gone: http_410: the host answered 410 Gone"}}]}`
	replies["/v1/accounts/a"] = `{"id":"a","kind":"feed"}`
	replies["/v1/accounts/a/schedule"] = `{"place":"scheduled","failures":1,"last_error":"transient: http_404: the host answered 404 Not Found"}`
	replies["/v1/accounts/a/timeline"] = `{"events":[{"event":"failed","text":"transient: timeout: the host took too long to answer"}]}`
	replies["/v1/messages"] = `{"messages":[]}`
	replies["/v1/limits"] = `{"limits":[],"down":[],"paused":[]}`
	replies["/v1/demo"] = `{"pollers":[{"state":"running","replica":"alice00000"}]}`
	return replies
}

// adminsSite is newSite for somebody who may do everything, in a demonstration.
func adminsSite(t *testing.T, inside http.HandlerFunc) http.Handler {
	t.Helper()
	d, err := New(Options{May: func(access.Principal, string) bool { return true }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Demo: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	pages := d.Handler(inside)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Principal{Name: "anna", Role: access.Admin})))
	})
}

func TestFormsStandWhereFormsMay(t *testing.T) {
	site := adminsSite(t, said(everything()))
	for _, path := range []string{"/", "/problems", "/accounts", "/account?id=a", "/messages", "/delivery", "/delivery?drop=3:5-0", "/delivery/letter?id=3:5-0", "/delivery/webhook?name=audit&skip=a"} {
		w := ask(site, "GET", path)
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if found := misplaced(w.Body.String()); len(found) > 0 {
			t.Errorf("%s: %q", path, found)
		}
	}
	body := ask(site, "GET", "/delivery/webhook?name=audit").Body.String()
	contains(t, body, `<code>&lt;i&gt;busy\u202e</code>`, "192.0.2.1:443", `<span class="badge bad">500</span>`, ">later</span>")
	if found := misplaced(`<h2><span class="actions"><form><button>Enable</button></form></span></h2><p>well</p>`); len(found) != 2 {
		t.Errorf("a form in a span: found %q", found)
	}
}

// What the service itself says of failures is in the visitor's language, also where it is stored.
func TestServiceTextsAreInTheVisitorsLanguage(t *testing.T) {
	site := adminsSite(t, said(everything()))
	for path, want := range map[string]string{
		"/account?id=a":             "主机回答 404 Not Found",
		"/account?id=a&x=timeline":  "主机过久没有回答",
		"/accounts":                 "主机回答 410 Gone",
		"/delivery/letter?id=3:5-0": "主机回答 500 Internal Server Error",
	} {
		if got := words(site, path, "Accept-Language", "zh"); !strings.Contains(got, want) || strings.Contains(got, "the host") {
			t.Errorf("%s: %q is not in %s", path, want, got)
		}
		if got := words(site, path, "Accept-Language", "en"); !strings.Contains(got, "the host") {
			t.Errorf("%s in English: %s", path, got)
		}
	}
}

// The page of an account that is gone leads to who deleted it.
func TestAnAccountThatIsGoneLeadsToTheTrail(t *testing.T) {
	gone := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"status":404,"detail":"no such account"}`)
	}
	for path, want := range map[string]bool{"/account?id=a%2Fb": true, "/account/edit?id=a%2Fb": true, "/account": false, "/delivery/webhook?name=a": false} {
		w := ask(adminsSite(t, gone), "GET", path)
		if w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), `href="/trail?account=a%2Fb"`) != want {
			t.Errorf("%s: %d, a link to the trail: %t", path, w.Code, !want)
		}
	}
}

// The button that kills a poller stands beside its name, where no width cuts it off.
func TestKillStandsBesideTheName(t *testing.T) {
	body := strings.Join(strings.Fields(ask(adminsSite(t, said(everything())), "GET", "/").Body.String()), " ")
	if !strings.Contains(body, `<td class="mono">alice00000</td><td><form method="post" action="/demo/kill">`) {
		t.Errorf("%s", body)
	}
}
