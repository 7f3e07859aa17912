package pages

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/savedview"
)

const someViews = `{"views":[{"name":"<press>","of":"accounts","query":{"state":["failing"],"label":["a=b","c=d"]}},{"name":"refunds","of":"messages","query":{"text":["refund"]}}]}`

// viewing returns the pages of a service with someViews, for a visitor with some rights, and the calls
// of the API that change something.
func viewing(t *testing.T, may func(route string) bool) (http.Handler, *[]string) {
	t.Helper()
	d, err := New(Options{May: func(_ access.Principal, route string) bool { return may(route) }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	calls := &[]string{}
	pages := d.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet:
			body, _ := io.ReadAll(r.Body)
			*calls = append(*calls, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
			if !may(r.Method + " /v1/views/{name}") {
				w.WriteHeader(http.StatusForbidden)
			}
		case r.URL.Path == "/v1/views":
			_, _ = io.WriteString(w, someViews)
		default:
			_, _ = io.WriteString(w, `{}`)
		}
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Principal{Name: "anna", Role: access.Viewer})))
	}), calls
}

// Each list shows its own views and marks the one that it shows. A query without a name can be saved.
func TestViewsAreShown(t *testing.T) {
	all := func(string) bool { return true }
	looks := func(route string) bool { return strings.HasPrefix(route, "GET ") }
	for _, tt := range []struct {
		path      string
		may       func(string) bool
		has, none []string
	}{
		{"/accounts", all, []string{`href="/accounts?label=a%3Db&amp;label=c%3Dd&amp;state=failing"`, "&lt;press&gt;"}, []string{"refunds", `value="save"`, `aria-current="true"`}},
		{"/accounts?label=c%3Dd&label=a%3Db&state=failing&limit=25", all, []string{`aria-current="true"><bdi>&lt;press&gt;`, `value="remove"`}, []string{`value="save"`}},
		{"/accounts?kind=feed&sort=due&col=kind&cursor=x", all, []string{`name="query" value="col=kind&amp;kind=feed&amp;sort=due"`}, []string{`value="remove"`}},
		{"/accounts?kind=feed", looks, []string{"&lt;press&gt;"}, []string{`action="/views"`}},
		{"/accounts?kind=feed", func(route string) bool { return route != routeViews }, nil, []string{`action="/views"`, "&lt;press&gt;"}},
		{"/messages?text=refund", all, []string{`aria-current="true"><bdi>refunds`}, []string{"&lt;press&gt;"}},
		{"/messages?kind=feed&before=1", all, []string{`name="query" value="kind=feed"`}, nil},
	} {
		site, _ := viewing(t, tt.may)
		body := ask(site, "GET", tt.path).Body.String()
		_, main, _ := strings.Cut(body, "<main")
		main, _, _ = strings.Cut(main, `id="list"`)
		for _, part := range tt.has {
			if !strings.Contains(main, part) {
				t.Errorf("%s has no %q in %s", tt.path, part, main)
			}
		}
		for _, part := range tt.none {
			if strings.Contains(main, part) {
				t.Errorf("%s has %q", tt.path, part)
			}
		}
	}
}

func TestViewsAreSavedAndRemoved(t *testing.T) {
	for _, tt := range []struct {
		form   string
		may    bool
		status int
		to     string
		call   string
	}{
		{"do=save&of=accounts&name=+new+&query=kind%3Dfeed%26sort%3Ddue", true, 303, "/accounts?kind=feed&said=views.saved&sort=due", `PUT /v1/views/new {"of":"accounts","query":{"kind":["feed"],"sort":["due"]}}`},
		{"do=save&of=messages&name=a%2Fb&query=text%3Dx", true, 303, "/messages?said=views.saved&text=x", `PUT /v1/views/a%2Fb {"of":"messages","query":{"text":["x"]}}`},
		{"do=save&of=messages&name=%3Cpress%3E&query=text%3Dx", true, 409, "", ""},
		{"do=save&of=accounts&name=&query=kind%3Dfeed", true, 422, "", ""},
		{"do=save&of=accounts&name=&query=kind%3Dfeed", false, 403, "", `PUT /v1/views/- {"of":"accounts","query":{"kind":["feed"]}}`},
		{"do=remove&of=accounts&name=new&query=kind%3Dfeed", true, 303, "/accounts?kind=feed&said=views.removed", "DELETE /v1/views/new"},
		{"do=odd&of=accounts&name=new", true, 422, "", ""},
		{"do=save&query=%25zz", true, 400, "", ""},
	} {
		site, calls := viewing(t, func(route string) bool { return tt.may || strings.HasPrefix(route, "GET ") })
		r := httptest.NewRequest("POST", "/views", strings.NewReader(tt.form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		if w.Code != tt.status || w.Header().Get("Location") != tt.to || tt.call != "" && !slices.Equal(*calls, []string{tt.call}) || tt.call == "" && len(*calls) > 0 {
			t.Errorf("%s: %d to %q, calls %q", tt.form, w.Code, w.Header().Get("Location"), *calls)
		}
	}
}

// What a list can save, the API takes.
func TestWhatIsSavedIsKnown(t *testing.T) {
	query := url.Values{"sort": {"due"}, "col": {"kind"}}
	for _, name := range filterNames {
		query[name] = []string{map[string]string{"state": "failing", "label": "a=b", "since": "1h", "until": "2h"}[name]}
		if query[name][0] == "" {
			query[name] = []string{"x"}
		}
	}
	if v := (savedview.View{Name: "a", Of: "accounts", Query: query}); v.Validate() != nil {
		t.Error(v.Validate())
	}
	for _, name := range slices.Concat(filtersOfMessages(), searchedMessages()) {
		if !slices.Contains(savedview.Parameters("messages"), name) {
			t.Errorf("messages: %s is not known", name)
		}
	}
}
