package pages

import (
	"context"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/feed"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/redistest"

	"github.com/rounds-dev/rounds/poller/fetch"
)

// desk is the pages on a real API, for a user of this machine.
type desk struct {
	*testing.T
	ring     *circulate.Ring
	registry *accounts.Registry
	server   *httptest.Server
	tried    *trial.Report
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	checkers, err := poller.NewCheckers(feed.New(checktest.Client(t, fetch.Options{}), secrets.Source{}))
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{T: t, ring: ring, registry: accounts.NewRegistry(ring, checkers)}
	pages, err := New(Options{May: api.May, Log: slog.New(slog.DiscardHandler), Namespace: "press", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	served, err := api.New(api.Options{
		Ring: ring, Registry: d.registry, Pages: pages.Handler, Kinds: []strict.Kind{strict.Describe(feed.Kind, checkers[feed.Kind]), {Name: "own"}},
		Try: func(context.Context, trial.Request) (*trial.Report, error) { return d.tried, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	d.server = httptest.NewServer(served)
	working, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = served.RunJobs(working) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		pages.Close()
		served.Close()
		d.server.Close()
	})
	return d
}

func (d *desk) add(ids ...string) {
	d.Helper()
	for _, id := range ids {
		a := accounts.Account{ID: id, Kind: "feed", Config: []byte(`{"url":"https://example.com/feed.xml"}`), Labels: map[string]string{"team": "press"}}
		if _, err := d.registry.Create(d.Context(), a); err != nil {
			d.Fatal(err)
		}
	}
}

// get returns a page's status, where it leads, and its text.
func (d *desk) get(path string) (int, string, string) { return d.send(http.MethodGet, path, nil) }

// post sends a form.
func (d *desk) post(path string, pairs ...string) (int, string, string) {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Add(pairs[i], pairs[i+1])
	}
	return d.send(http.MethodPost, path, values)
}

func (d *desk) send(method, path string, values url.Values) (int, string, string) {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), method, d.server.URL+path, strings.NewReader(values.Encode()))
	if err != nil {
		d.Fatal(err)
	}
	if values != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := *d.server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	reply, err := client.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		d.Fatal(err)
	}
	return reply.StatusCode, reply.Header.Get("Location"), string(body)
}

// Without one of them, a link would select more accounts than it says.
func TestThePageKnowsEveryFilterOfTheAPI(t *testing.T) {
	if got, want := slices.Sorted(slices.Values(filterNames)), slices.Sorted(slices.Values(accounts.SelectorFields())); !slices.Equal(got, want) {
		t.Errorf("the page knows %q, the API %q", got, want)
	}
	if !slices.Equal(slices.Sorted(slices.Values(stateNames)), slices.Sorted(slices.Values(accounts.States()))) {
		t.Errorf("the page knows the states %q, the API %q", stateNames, accounts.States())
	}
	if !slices.Equal(slices.Sorted(slices.Values(recordFields)), []string{"cadence", "config", "id", "kind", "labels", "on_unknown", "priority", "retry_budget"}) {
		t.Errorf("fields of a record: %q", recordFields)
	}
}

func TestListOfAccounts(t *testing.T) {
	d := newDesk(t)
	if status, _, body := d.get("/accounts"); status != 200 || !strings.Contains(body, "There is no account yet") {
		t.Errorf("without accounts: %d\n%s", status, body)
	}
	hostile := `"><script>alert(1)</script>`
	d.add("a-1", "a-2", "/", "..", "new", hostile)
	_, _, body := d.get("/accounts")
	for _, want := range []string{`href="/account?id=%2F"`, `href="/account?id=.."`, "/account?id=new", html.EscapeString(hostile), `<th scope="col">Last error`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	if strings.Contains(body, "<script>alert") || strings.Contains(body, "Next page") {
		t.Error("an id is markup, or there is a page too many")
	}
	_, _, body = d.get("/accounts?prefix=a-&limit=1&col=labels&col=cadence")
	next := html.UnescapeString(regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(body)[1])
	if !strings.Contains(body, "a-1") == !strings.Contains(body, "a-2") || !strings.Contains(body, "team=press") || strings.Contains(body, `<th scope="col">Last error`) || !strings.Contains(next, "prefix=a-") {
		t.Errorf("the first page leads to %s\n%s", next, body)
	}
	if _, _, second := d.get(next); strings.Contains(second, `value="a-1"`) == strings.Contains(body, `value="a-1"`) || !strings.Contains(second, "First page") {
		t.Errorf("the second page\n%s", second)
	}
	if _, _, body := d.get("/accounts?prefix=a-&count=1"); !strings.Contains(body, "2 accounts match") {
		t.Errorf("not counted\n%s", body)
	}
	if _, _, body := d.get("/accounts?label=x&since=soon&cause=no~1&except_host=h"); !strings.Contains(body, "query.label") || !strings.Contains(body, "must be one duration") {
		t.Errorf("not refused\n%s", body)
	}
	for path, want := range map[string]string{
		"/accounts/filter?prefix=&kind=feed&kind=&state=&cols=1&col=kind&limit=25":                           "/accounts?col=kind&kind=feed&limit=25",
		"/accounts/filter?prefix=+a+&cols=1&col=kind&col=state&col=due&col=success&col=error&col=x&limit=50": "/accounts?col=kind&col=state&col=due&col=success&col=error&prefix=a",
		"/accounts/filter?cols=1":                         "/accounts?col=none",
		"/accounts/choose?kind=feed&do=pause&pick=a&pick": "/accounts/bulk?do=pause&id=a&id=",
		"/accounts/choose?kind=feed&do=pause":             "/accounts?kind=feed&said=accounts.none",
		"/accounts/choose?kind=feed&all=delete&pick=a":    "/accounts/bulk?do=delete&kind=feed",
		"/accounts/choose?all=nudge":                      "/accounts/bulk?all=true&do=nudge",
	} {
		if status, to, _ := d.get(path); status != 303 || to != want {
			t.Errorf("%s leads to %d %s, want %s", path, status, to, want)
		}
	}
	if status, _, _ := d.get("/accounts/choose?do=explode"); status != 422 {
		t.Errorf("an unknown action: %d", status)
	}
}

func TestManyAccountsAreChangedAfterAQuestion(t *testing.T) {
	d := newDesk(t)
	d.add("a-1", "a-2", "b-1")
	_, _, body := d.get("/accounts/bulk?do=pause&id=a-1&id=b-1")
	if !strings.Contains(body, "Pause 2 accounts") || !strings.Contains(body, `name="id" value="b-1"`) {
		t.Errorf("asked\n%s", body)
	}
	if _, _, body := d.get("/accounts/bulk?do=delete&prefix=zebra"); !strings.Contains(body, "No account is selected now") || strings.Contains(body, "for good</button>") {
		t.Errorf("of none\n%s", body)
	}
	for path, want := range map[string]int{"/accounts/bulk?do=pause": 422, "/accounts/bulk?do=explode&all=true": 422} {
		if status, _, _ := d.get(path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	for _, c := range []struct {
		form []string
		want []string
	}{
		{[]string{"do", "pause", "prefix", "a-"}, []string{"<dt>Paused</dt><dd><b>2</b></dd>", `value="undo"`}},
		{[]string{"do", "pause", "prefix", "a-"}, []string{"<dt>Needed no change</dt><dd>2<p>2 are paused:", ">a-2</bdi>"}},
		{[]string{"do", "nudge", "all", "true", "rate", "5"}, []string{"<dt>Nudged</dt><dd><b>1</b></dd>"}},
		{[]string{"do", "retry", "all", "true", "rate", "5"}, []string{"<dt>Tried again</dt><dd><b>1</b></dd>"}},
		{[]string{"do", "resume", "id", "a-1"}, []string{"<dt>Resumed</dt><dd><b>1</b></dd>"}},
		{[]string{"do", "set", "id", "a-1", "set.cadence", "every 7m", "set.priority", "low", "set.labels", "shop=1, desk=2", "set.unlabel", "team"},
			[]string{"<dt>Changed</dt><dd><b>1</b></dd>", "cadence: every 7m", "priority: low", "shop=1", "desk=2", "without the label team"}},
		{[]string{"do", "delete", "kind", "feed"}, []string{"<dt>Deleted</dt><dd><b>3</b></dd>"}},
	} {
		status, to, _ := d.post("/accounts/bulk", c.form...)
		if status != 303 || !strings.HasPrefix(to, "/job?id=") {
			t.Fatalf("%q leads to %d %s", c.form, status, to)
		}
		_, _, body := d.get(to)
		for _, want := range append(c.want, `<span class="good">Done</span>`) {
			if !strings.Contains(strings.ToLower(body), strings.ToLower(want)) {
				t.Errorf("%q: no %s in\n%s", c.form, want, body)
			}
		}
	}
	for _, form := range [][]string{{"do", "nudge", "all", "true", "rate", "0"}, {"do", "pause"}, {"do", "pause", "state", "on"}, {"do", "revive", "kind", "feed"}, {"do", "set", "all", "true"}} {
		if status, _, body := d.post("/accounts/bulk", form...); status != 422 || strings.Contains(body, "Done") {
			t.Errorf("%q: %d\n%s", form, status, body)
		}
	}
	// The form keeps what was typed.
	if status, _, body := d.post("/accounts/bulk", "do", "set", "all", "true", "set.cadence", "often", "set.labels", "a=b"); status != 422 || !strings.Contains(body, `value="often"`) || !strings.Contains(body, `value="a=b"`) || !strings.Contains(body, "<code>query.cadence</code>") {
		t.Errorf("%d\n%s", status, body)
	}
}

// The cadence of many accounts is changed and taken back, in two actions each.
func TestAChangeOfManyIsTakenBack(t *testing.T) {
	d := newDesk(t)
	d.add("a-1", "a-2", "b-1")
	_, to, _ := d.post("/accounts/bulk", "do", "set", "prefix", "a-", "set.cadence", "every 7m")
	id := strings.TrimPrefix(to, "/job?id=")
	if v, err := d.registry.Get(t.Context(), "a-2"); err != nil || v.Cadence != "every 7m" {
		t.Errorf("%+v, %v", v, err)
	}
	_, to, _ = d.post("/job", "do", "undo", "id", id)
	if _, _, body := d.get(to); !strings.Contains(body, "Take back: Set…") || !strings.Contains(body, "<dt>Taken back</dt><dd><b>2</b></dd>") {
		t.Errorf("%s\n%s", to, body)
	}
	if v, err := d.registry.Get(t.Context(), "a-2"); err != nil || v.Cadence != "" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, _, body := d.get("/job?id=" + id); strings.Contains(body, `value="undo"`) || !strings.Contains(body, "Taken back by") {
		t.Errorf("%s", body)
	}
	if _, _, body := d.get("/jobs"); strings.Count(body, "/job?id="+id) != 2 || !strings.Contains(body, "prefix") && !strings.Contains(body, "a-") {
		t.Errorf("%s", body)
	}
	for path, form := range map[int][]string{422: {"do", "explode", "id", id}, 409: {"do", "undo", "id", id}, 404: {"do", "stop", "id", "none"}} {
		if status, _, _ := d.post("/job", form...); status != path {
			t.Errorf("%q: %d, want %d", form, status, path)
		}
	}
	if _, _, body := d.get("/accounts?prefix=a-"); !strings.Contains(body, `href="/v1/accounts:export?prefix=a-"`) {
		t.Errorf("no export in\n%s", body)
	}
}

// OPML has the feeds among the accounts that the filters select, and the list says that it leaves out
// the others.
func TestTheSelectionIsExportedAsOPML(t *testing.T) {
	d := newDesk(t)
	d.add("a-1", "a-2", "b-1")
	for query, said := range map[string]bool{"prefix=a-": true, "kind=feed&prefix=a-": false, "kind=feed&kind=own&prefix=a-": true} {
		_, _, body := d.get("/accounts?" + query)
		link := regexp.MustCompile(`href="(/v1/accounts:export\?format=opml[^"]*)"`).FindStringSubmatch(body)
		if link == nil || strings.Contains(body, "feeds only: accounts of other kinds are not in OPML") != said {
			t.Fatalf("%s leads to %q\n%s", query, link, body)
		}
		if status, _, list := d.get(html.UnescapeString(link[1])); status != 200 || strings.Count(list, "xmlUrl=") != 2 || strings.Contains(list, "b-1") {
			t.Errorf("%s: %d\n%s", query, status, list)
		}
	}
	if _, _, body := d.get("/accounts?kind=own"); strings.Contains(body, "format=opml") {
		t.Errorf("of a kind without feeds\n%s", body)
	}
}

// An account that fails for a reason that does not count against it is shown as hindered, as on its
// own page, and not as one that is well.
func TestAccountsThatFailBlamelessly(t *testing.T) {
	list := `{"accounts":[{"id":"k","kind":"feed","state":{"place":"scheduled","failing":true,"last_error":"secret: secret X is nowhere"}},{"id":"ok","kind":"feed","state":{"place":"scheduled"}}]}`
	site := newSite(t, said(map[string]string{"/v1/accounts": list, "/v1/kinds": `{"kinds":[]}`, "/v1/stats": `{"accounts":{}}`, "/v1/accounts:count": `{"count":2,"complete":true}`}))
	got := strings.Join(strings.Fields(ask(site, "GET", "/accounts").Body.String()), " ")
	if strings.Count(got, `<span class="badge hindered">hindered</span><small>scheduled</small>`) != 1 || strings.Count(got, `<span class="badge scheduled">`) != 1 {
		t.Errorf("%s", got)
	}
}
