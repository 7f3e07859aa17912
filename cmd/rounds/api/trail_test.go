package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// trail returns the entries that a query selects, the latest first.
func (f *fixture) trail(query string) []TrailEntry {
	f.Helper()
	var page TrailPage
	f.call("GET", "/v1/trail?"+query, "", 200, &page)
	return page.Entries
}

// Every route that changes something leaves an entry, whatever its answer, except for those
// in untrailed.
func TestEveryChangeLeavesAnEntry(t *testing.T) {
	f := newFixture(t, withEverything(t))
	spared := untrailed()
	walked := 0
	for _, route := range f.api.serving.Load().routes {
		method, path, _ := strings.Cut(route, " ")
		if method == http.MethodGet || signing()[route] != "" { // TestSigningLeavesAnEntry tests these
			continue
		}
		walked++
		before := len(f.trail("limit=1000"))
		path = strings.NewReplacer("{id}", "news", "{name}", "one").Replace(path)
		f.do(f.request(method, path, "{}"))
		entries := f.trail("limit=1000")
		_, none := spared[route]
		switch delete(spared, route); {
		case none && len(entries) != before:
			t.Errorf("%s: leaves an entry, and is said not to", route)
		case none:
		case len(entries) != before+1:
			t.Errorf("%s: leaves %d entries", route, len(entries)-before)
		case strings.Contains(entries[0].Action, "/"), entries[0].By != access.LocalName, entries[0].Via != "local",
			entries[0].Address != "127.0.0.1", entries[0].Outcome == "", entries[0].Time.IsZero():
			t.Errorf("%s: leaves %+v", route, entries[0])
		}
	}
	if walked < 20 || len(spared) > 0 {
		t.Errorf("%d routes were walked, and these are spared that there are not: %v", walked, spared)
	}
}

// withTrailLog returns an option that writes entries to the log that the test reads.
func withTrailLog(t *testing.T) func(*Options) {
	return func(o *Options) {
		var err error
		if o.Trail, err = trail.New(o.Ring, trail.Options{Log: o.Log}); err != nil {
			t.Fatal(err)
		}
	}
}

// brief returns an entry as one line.
func brief(e TrailEntry) string {
	text := fmt.Sprint(e.Action, " ", e.Outcome)
	add := func(name, value string) {
		if value != "" {
			text += " " + name + "=" + value
		}
	}
	if e.Outcome != trail.Done {
		add("status", fmt.Sprint(e.Status))
	}
	add("account", e.Account)
	add("accounts", strings.Join(e.Accounts, ","))
	add("subject", e.Subject)
	add("selector", e.Selector)
	add("fields", strings.Join(e.Fields, ","))
	for _, name := range slices.Sorted(maps.Keys(e.Counts)) {
		add(name, fmt.Sprint(e.Counts[name]))
	}
	return text
}

func TestWhatEntriesSay(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		withEverything(t)(o)
		withTrailLog(t)(o)
	})
	const secret = "s3cr3t-value"
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/v1/accounts", `{"id":"a","kind":"web","config":{"url":"` + secret + `"},"labels":{"team":"x"}}`, "create-account done account=a"},
		{"POST", "/v1/accounts", `{"id":"a","kind":"web","config":{"url":"x"}}`, "create-account refused status=409 account=a"},
		{"POST", "/v1/accounts", `{"id":`, "create-account refused status=400"},
		{"POST", "/v1/accounts", `{"id":"new","kind":"none"}`, "create-account refused status=422 account=new"},
		{"POST", "/v1/accounts", `{"id":"` + secret + `\n","kind":"web"}`, "create-account refused status=422"},
		{"PUT", "/v1/accounts/a", `{"kind":"web","config":{"url":"y","key":"` + secret + `"},"labels":{"team":"x"},"cadence":"every 1h"}`, "put-account done account=a fields=cadence,config.key,config.url"},
		{"PUT", "/v1/accounts/a", `{"kind":"web","config":{"url":"y","key":"` + secret + `"},"labels":{"team":"x"},"cadence":"every 1h"}`, "put-account done account=a unchanged=1"},
		{"PUT", "/v1/accounts/b%2F", `{"kind":"plain"}`, "put-account done account=b/ created=1"},
		{"PUT", "/v1/accounts/%2F", `{"kind":"plain"}`, "put-account done account=/ created=1"},
		{"PATCH", "/v1/accounts/a", `{"labels":{"team":"` + secret + `"},"priority":"low"}`, "patch-account done account=a fields=labels.team,priority"},
		{"PATCH", "/v1/accounts/a", `{"` + secret + `":1}`, "patch-account refused status=422 account=a"},
		{"POST", "/v1/accounts/a/pause", "", "pause-account done account=a"},
		{"POST", "/v1/accounts/a/nudge", "", "nudge-account refused status=409 account=a"},
		{"POST", "/v1/accounts/a/resume", "", "resume-account done account=a"},
		{"DELETE", "/v1/accounts/none", "", "delete-account refused status=404 account=none"},
		{"POST", "/v1/accounts:import?from=now", `{"id":"c","kind":"plain"}` + "\n" + `{"id":"d","kind":"plain","x":"` + secret + `"}` + "\n" + `{"id":"a","kind":"plain"}` + "\n", "import-accounts failed status=200 created=1 failed=1 lines=3 updated=1"},
		{"POST", "/v1/accounts:import", "name,kind\n" + secret + ",plain\n", "import-accounts refused status=200"},
		{"POST", "/v1/accounts:pause?kind=plain&prefix=a&prefix=c&dry_run=false", "", "pause-accounts done selector=kind=plain prefix=a prefix=c changed=2 matched=2"},
		{"POST", "/v1/accounts:resume?all=true", "", "resume-accounts done selector=all changed=2 matched=4 unchanged=2"},
		{"POST", "/v1/accounts:delete", "", "delete-accounts refused status=422"},
		{"POST", "/v1/parked:revive", `{"ids":["a","none"]}`, "revive-parked done accounts=a,none not_found=1 skipped=1"},
		{"POST", "/v1/parked:revive", `{"reason":"auth","kind":"web"}`, "revive-parked done selector=kind=web reason=auth"},
		{"POST", "/v1/keys", `{"name":"press","role":"editor","labels":{"team":"x"}}`, "create-key done subject=key press"},
		{"DELETE", "/v1/keys/press", "", "revoke-key done subject=key press"},
		{"DELETE", "/v1/groups/none", "", "delete-group refused status=404 subject=group none"},
		{"POST", "/v1/webhooks/crm/enable", "", "enable-webhook refused status=404 subject=webhook crm"},
		{"POST", "/v1/webhooks/crm/retry", `{"account":"a"}`, "retry-webhook refused status=404 account=a subject=webhook crm"},
		{"POST", "/v1/dead:drop", `{"ids":["x"]}`, "drop-dead refused status=422"},
		{"POST", "/v1/dead:replay", `{"group":"crm"}`, "replay-dead done subject=dead letters crm"},
		{"POST", "/v1/audit:repair", "", "repair-audit done audited=4"},
		{"POST", "/v1/reshard", `{"shards":8}`, "reshard done shards=8"},
		{"POST", "/v1/reshard:abort", ``, "abort-resharding done"},
		{"DELETE", "/v1/accounts/b%2F", "", "delete-account done account=b/"},
	} {
		f.do(f.request(c.method, c.path, c.body))
		if got := brief(f.trail("limit=1")[0]); got != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.method, c.path, got, c.want)
		}
	}
	if strings.Contains(f.logs.String(), secret) || strings.Contains(fmt.Sprint(f.trail("limit=1000")), secret) {
		t.Error("a value of a record stands in the log or the trail")
	}
	if !strings.Contains(f.logs.String(), `msg=ordered action=pause-accounts outcome=done by=local via=local addr=127.0.0.1 selector="kind=plain prefix=a prefix=c" changed=2 matched=2`) {
		t.Errorf("the log has %s", f.logs.String())
	}
}

// Signing in or out leaves an entry. A refused sign-in leaves none.
func TestSigningLeavesAnEntry(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = rightToken })
	added := f.api.serving.Load().routes
	for route := range signing() {
		if !slices.Contains(added, route) && route != "GET /signin/callback" { // exists only with an identity provider
			t.Errorf("%s: there is no such route", route)
		}
	}
	cookie := f.signIn(rightToken)
	f.bear(cookie, "DELETE", "/v1/session")
	r := f.request("POST", "/v1/session", "")
	r.Header.Set("Authorization", "Bearer wrong")
	f.do(r)
	f.bear(cookie, "DELETE", "/v1/session")
	got := f.trail("")
	if len(got) != 2 || brief(got[0]) != "sign-out done" || got[0].Via != "session" || brief(got[1]) != "sign-in done" || got[1].By != access.TokenName {
		t.Errorf("got %+v", got)
	}
}

// Dry runs, unknown routes and requests without a principal leave no entry.
func TestNoEntry(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = "secret" })
	f.call("PUT", "/v1/accounts/a", `{"kind":"plain"}`, 201, nil)
	f.call("POST", "/v1/parked:revive", `{"reason":"auth","dry_run":true}`, 200, nil)
	f.call("POST", "/v1/reshard", `{"shards":8,"dry_run":true}`, 200, nil)
	f.do(f.request("POST", "/v1/accounts:pause?all=true&dry_run=true", ""))
	f.call("POST", "/v1/accounts/a/other", "", 404, nil)
	f.call("PUT", "/v1/accounts/a/pause", "", 405, nil)
	f.token = "wrong"
	f.call("DELETE", "/v1/accounts/a", "", 401, nil)
	f.token = "secret"
	if got := f.trail(""); len(got) != 1 || got[0].By != access.TokenName || got[0].Via != "token" {
		t.Errorf("got %+v", got)
	}
	// A dry run that is refused leaves an entry.
	f.call("POST", "/v1/reshard", `{"shards":0,"dry_run":true}`, 422, nil)
	if got := f.trail(""); len(got) != 2 || got[0].Outcome != trail.Refused {
		t.Errorf("got %+v", got)
	}
}

func TestTrailPages(t *testing.T) {
	f := newFixture(t, nil)
	for i := range 5 {
		f.call("PUT", fmt.Sprint("/v1/accounts/n", i), `{"kind":"plain"}`, 201, nil)
	}
	f.call("POST", "/v1/accounts/n1/pause", "", 200, nil)
	var page TrailPage
	f.call("GET", "/v1/trail?limit=4&by=local&since=1h", "", 200, &page)
	if len(page.Entries) != 4 || page.Looked != 4 || page.Next == "" || page.Back.IsZero() {
		t.Errorf("got %+v", page)
	}
	next := page.Next
	page = TrailPage{}
	f.call("GET", "/v1/trail?limit=4&by=local&since=1h&cursor="+next, "", 200, &page)
	if len(page.Entries) != 2 || brief(page.Entries[1]) != "put-account done account=n0 created=1" {
		t.Errorf("got %+v", page)
	}
	page = TrailPage{}
	f.call("GET", "/v1/accounts/n1/trail", "", 200, &page)
	if len(page.Entries) != 2 || page.Looked != 6 || brief(page.Entries[0]) != "pause-account done account=n1" {
		t.Errorf("got %+v", page)
	}
	if got := f.trail("account=n1"); len(got) != 2 {
		t.Errorf("got %+v", got)
	}
	f.call("GET", "/v1/accounts/none/trail", "", 404, nil)
	var p problemBody
	for _, c := range [][2]string{{"/v1/trail?cursor=x", "query.cursor"}, {"/v1/trail?since=x", "query.since"}, {"/v1/trail?since=-1h", "query.since"}, {"/v1/trail?limit=0", "query.limit"}, {"/v1/accounts/n1/trail?cursor=x", "query.cursor"}} {
		if f.call("GET", c[0], "", 422, &p); len(p.Errors) != 1 || p.Errors[0].Location != c[1] {
			t.Errorf("%s: %+v", c[0], p)
		}
	}
}

// A change that was cut off has an unknown outcome.
func TestOutcomesThatNobodyKnows(t *testing.T) {
	f := newFixture(t, nil)
	h := f.api.trailed(map[string]string{"POST /x": "x"}, "POST /x", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") }))
	func() {
		defer func() { _ = recover() }()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(access.With(t.Context(), access.Local()), "POST", "/x", nil))
	}()
	if got := f.trail("limit=1"); got[0].Outcome != trail.Unknown || got[0].Action != "x" {
		t.Errorf("a panic: %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "POST", "http://localhost/v1/accounts/a/pause", nil))
	if got := f.trail("limit=1"); brief(got[0]) != "pause-account unknown status=503 account=a" {
		t.Errorf("a caller that went: %+v", got)
	}
	for _, c := range []struct {
		done accounts.Progress
		err  error
		want trail.Outcome
	}{
		{accounts.Progress{Changed: 1}, nil, trail.Done},
		{accounts.Progress{Changed: 1, Unknown: 1}, context.DeadlineExceeded, trail.Unknown},
		{accounts.Progress{Changed: 1, Failed: 1}, accounts.ErrNotFound, trail.Failed},
	} {
		_, draft := trail.Begin(t.Context(), trail.Entry{})
		noteBulk(draft, c.done, c.err)
		if e, _ := draft.Close(trail.Done, 200); e.Outcome != c.want {
			t.Errorf("%+v, %v: got %s", c.done, c.err, e.Outcome)
		}
	}
}

// While Redis is unreachable, the log has the entry.
func TestTrailWithoutRedis(t *testing.T) {
	f := newFixture(t, withTrailLog(t))
	if err := f.redis.Close(); err != nil {
		t.Fatal(err)
	}
	f.call("POST", "/v1/accounts/a/pause", "", 503, nil)
	f.call("GET", "/v1/trail", "", 503, nil)
	if !strings.Contains(f.logs.String(), "msg=ordered action=pause-account outcome=failed by=local via=local addr=127.0.0.1 account=a status=503") {
		t.Errorf("the log has %s", f.logs.String())
	}
}
