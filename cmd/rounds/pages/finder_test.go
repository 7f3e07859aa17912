package pages

import (
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
)

// foundIn returns the addresses to which the finder leads, in their order.
func foundIn(t *testing.T, site http.Handler, text, language string) (addresses []string, body string) {
	t.Helper()
	w := ask(site, "GET", link("/finder", "q", text), "Accept-Language", language)
	if w.Code != http.StatusOK {
		t.Fatalf("%q: %d", text, w.Code)
	}
	body = w.Body.String()
	for _, m := range regexp.MustCompile(`data-to="([^"]*)"`).FindAllStringSubmatch(body, -1) {
		addresses = append(addresses, strings.ReplaceAll(m[1], "&amp;", "&"))
	}
	return addresses, body
}

// What the finder finds leads to a page; an action is the page with its form.
func TestFinder(t *testing.T) {
	d, err := New(Options{
		May: func(p access.Principal, _ string) bool { return p.May(access.Viewer) }, Log: slog.New(slog.DiscardHandler),
		Settings: []Setting{{"ROUNDS_CONCURRENCY", "how many checks run at once"}, {"ROUNDS_OTHER", "more about concurrency"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages := d.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/accounts/feed-1":
				_, _ = io.WriteString(w, `{"id":"feed-1","kind":"feed","state":{"place":"parked"}}`)
			case "/v1/accounts":
				_, _ = io.WriteString(w, `{"accounts":[{"id":"a-feed-1","kind":"feed","state":{"place":"scheduled"}},{"id":"feed-1"},{"id":"<b>feed-1","kind":"feed"}]}`)
			case "/v1/problems":
				_, _ = io.WriteString(w, `{"groups":[{"accounts":3,"kind":"feed","host":"news.example.org","cause":"http_404~1a","code":"http_404","text":"no <page>"},{"accounts":9,"host":"b.example.org","cause":"dns~2","code":"dns","text":"x"}]}`)
			case "/v1/activity":
				_, _ = io.WriteString(w, `{"hosts":[{"name":"news.example.org"},{"name":"busy.example.org"}]}`)
			case "/v1/stats":
				_, _ = io.WriteString(w, `{}`)
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		pages.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Principal{Name: "anna", Role: access.Viewer})))
	})
	for _, tt := range []struct {
		text, language string
		want           []string // in this order, among others
	}{
		{"", "en", []string{"/", "/problems", "/accounts", "/docs", "/account/new"}},
		{"feed-1", "en", []string{"/account?id=feed-1", "/account?id=a-feed-1", "/account?id=%3Cb%3Efeed-1", "/accounts?part=feed-1", "/messages?text=feed-1", "/docs/guide?q=feed-1"}},
		{"delivery", "en", []string{"/delivery"}},
		{"投递", "zh-CN", []string{"/delivery"}},
		{"delivery", "zh-CN", []string{"/delivery", "/docs/guide/zh-CN?q=delivery"}},
		{"a mailbox", "en", []string{"/account/mail"}},
		{"shards number", "en", []string{"/system#shards-title"}},
		{"EXAMPLE.org", "en", []string{"/problems?host=b.example.org", "/problems?host=news.example.org", "/accounts?host=busy.example.org", "/accounts?host=EXAMPLE.org"}},
		{"404", "en", []string{"/problems?cause=http_404~1a"}},
		{"no <page", "en", []string{"/problems?cause=http_404~1a"}},
		{"concurrency", "en", []string{settingsAt + "ROUNDS_CONCURRENCY", settingsAt + "ROUNDS_OTHER"}},
		{"team=press", "en", []string{"/accounts?label=team%3Dpress"}},
		{"https://a.example/feed", "en", []string{"/account/new?id=a.example%2Ffeed&kind=feed&url=https%3A%2F%2Fa.example%2Ffeed"}},
	} {
		got, body := foundIn(t, site, tt.text, tt.language)
		at := -1
		for _, want := range tt.want {
			i := slices.Index(got, want)
			if i <= at {
				t.Errorf("%q (%s): %s is at %d in %q", tt.text, tt.language, want, i, got)
			}
			at = i
		}
		if len(got) > 60 || strings.Contains(body, "<b>feed") || strings.Contains(body, "<page>") {
			t.Errorf("%q: %d found, %s", tt.text, len(got), body)
		}
	}
	if _, body := foundIn(t, site, strings.Repeat("x", mostID+1), "en"); strings.Contains(body, `id="found-accounts"`) {
		t.Error("no account has so long an id")
	}
}

// A viewer is led to no form that changes anything, and accounts that cannot be looked up are not said
// to be none.
func TestFinderKnowsRights(t *testing.T) {
	d, err := New(Options{May: func(_ access.Principal, route string) bool {
		return strings.HasPrefix(route, "GET ") && route != "GET /v1/trail"
	}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	site := d.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	got, _ := foundIn(t, site, "", "en")
	for _, other := range []string{"/account/new", "/trail", "/limits#maintenance", "/system#shards-title", "/administration#keys-of-api"} {
		if slices.Contains(got, other) {
			t.Errorf("%s is found", other)
		}
	}
	if _, body := foundIn(t, site, "a", "en"); !strings.Contains(body, "Not all accounts could be looked at.") {
		t.Error("it is not said that accounts could not be looked up")
	}
}
