package pages

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	someRecord = `{"id":"a/<b>?","kind":"feed","config":{"url":"https://x.example/<script>","headers":{"X-Key":{"secret":"PRESS_KEY"},"Empty":{}},"list":[1,{"secret":"S"}]},
"cadence":"every 5m","priority":"urgent","labels":{"team":"<i>"},"revision":3,"created":"2026-11-20T08:00:00Z","updated":"2026-11-22T08:00:00Z","state":{"place":"scheduled"}}`
	someSchedule = `{"id":"x","now":"2026-11-22T14:20:00Z","shard":7,"place":"scheduled","due":"2026-11-22T14:23:00Z","rule":"backoff","due_rule":"backoff","cadence":"every 5m",
"slots":["2026-11-22T14:23:00Z","2026-11-22T14:28:00Z"],"failures":4,"failures_left":12,"strikes":1,"last_success":"2026-11-22T14:01:00Z","checks":["transient","new-mark","more","ok"],
"last_error":"http_404: <b>no</b>","last_error_at":"2026-11-22T14:19:00Z","warning":"moved","retention_seconds":259200,"headroom_seconds":86400}`
	someTimeline = `{"events":[{"id":"1","time":"2026-11-22T14:19:00Z","event":"failed","count":10,"text":"http_404: <b>no</b>"},{"id":"2","time":"2026-11-22T14:18:00Z","event":"found","count":1},
{"id":"3","time":"2026-11-22T14:17:00Z","event":"changed","by":"cms","fields":["cadence","config.<u>"]},{"id":"4","time":"2026-11-22T14:16:00Z","event":"requeued","text":"REPLICA<1>"},
{"id":"5","time":"2026-11-22T14:15:00Z","event":"parked","text":"paused","by":"ann"},{"id":"6","time":"2026-11-22T14:14:00Z","event":"resumed","text":"backfill"},{"id":"7","time":"2026-11-22T14:13:00Z","event":"unheard","text":"of"},
{"id":"8","time":"2026-11-22T14:12:00Z","event":"nudged","count":5000}],"looked":99,"back":"2026-11-22T14:00:00Z","next":"CURSOR"}`
	foundOfAccount = `{"messages":[{"account":"x","id":"m1","type":"item","data":{"title":"A <title> of\nnews"},"shard":7,"position":"1795360488588-0"},{"id":"m2","data":{"n":1},"shard":7,"position":"odd"}]}`
)

// accountSite returns the pages on an API that has one account, and the calls that it got.
func accountSite(t *testing.T, role access.Role, schedule string) (http.Handler, *[]string) {
	t.Helper()
	var calls []string
	inside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls = append(calls, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		path := r.URL.EscapedPath()
		switch {
		case strings.HasSuffix(path, "/schedule"):
			answering(schedule)(w, r)
		case strings.HasSuffix(path, "/timeline"):
			answering(someTimeline)(w, r)
		case strings.HasSuffix(path, "/checks"):
			answering(`{"checks":[{"time":"2026-11-22T14:00:00Z","seconds":1.5,"outcome":"transient","error":"http_500: <i>no","status":500,"bytes":2048,"messages":0},{"time":"2026-11-22T13:00:00Z","outcome":"ok","messages":3}]}`)(w, r)
		case path == "/v1/messages":
			answering(foundOfAccount)(w, r)
		case strings.HasPrefix(path, "/v1/accounts/"):
			answering(someRecord)(w, r)
		default:
			answering(`{}`)(w, r)
		}
	})
	d, err := New(Options{May: func(p access.Principal, route string) bool {
		return strings.HasPrefix(route, "GET ") || p.Role >= access.Editor
	}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	pages := d.Handler(inside)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Principal{Name: "anna", Role: role, Via: access.ViaSession})))
	}), &calls
}

func TestAccountShowsWhereItIsAndWhy(t *testing.T) {
	site, calls := accountSite(t, access.Editor, someSchedule)
	w := ask(site, "GET", link("/account", "id", "a/<b>?"))
	body := strings.Join(strings.Fields(w.Body.String()), " ")
	for _, want := range []string{
		"a/&lt;b&gt;?", "a pause after a failure", "4 failures in a row; 12 more park it", "http_404: &lt;b&gt;no&lt;/b&gt;", "failure 10 in a row", "1 message", "by cms",
		"cadence, config.&lt;u&gt;", "REPLICA&lt;1&gt;", "paused", "by ann", "resumed with a backfill", "unheard: of", "within 5 s", `href="/account?cursor=CURSOR&amp;id=a%2F%3Cb%3E%3F"`,
		"headers.X-Key", "PRESS_KEY", "https://x.example/&lt;script&gt;", "headers.Empty", `[1,{&#34;secret&#34;:&#34;S&#34;}]`, "team=&lt;i&gt;", "keeps messages for 3 d; 1 d are left",
		"A &lt;title&gt; of news", `{&#34;n&#34;:1}`, `title="new-mark"`, "another address for good", `<span class="bad">failed</span><small><bdi>http_500: &lt;i&gt;no</bdi></small></td><td class="n">1.5 s</td><td class="n">500</td><td class="n">2 KiB</td><td class="n">0</td>`,
		`<span class="good">succeeded</span></td><td class="n">`, `action="/account/check"`, `action="/account/pause"`, `action="/account/delete"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(body, "<script>") || strings.Contains(body, `action="/account/resume"`) {
		t.Errorf("too much in\n%s", body)
	}
	if first := (*calls)[0]; first != "GET /v1/accounts/a%2F%3Cb%3E%3F" {
		t.Errorf("asked for %s", first)
	}
	if !slices.Contains(*calls, "GET /v1/messages?account=a%2F%3Cb%3E%3F&before=now&limit=6") {
		t.Errorf("asked for %q", *calls)
	}
	viewer, _ := accountSite(t, access.Viewer, someSchedule)
	if body := ask(viewer, "GET", "/account?id=x").Body.String(); strings.Contains(body, `action="/account/`) || strings.Contains(body, "/account/edit") {
		t.Errorf("a viewer may not act:\n%s", body)
	}
	if w := ask(site, "GET", "/account"); w.Code != http.StatusNotFound {
		t.Errorf("without an id: %d", w.Code)
	}
}

func TestAccountInOtherPlaces(t *testing.T) {
	for schedule, want := range map[string][]string{
		`{"place":"waiting","since":"2026-11-22T14:20:00Z","rule":"priority","due_rule":"cadence","lanes":{"lane":"low","ahead":12,"urgent":3,"normal":40,"low":13,"before":60,"estimate_seconds":7.5}}`: {
			"12 accounts are ahead of it in the low lane", "about 7.5 s", "3 urgent, 40 normal and 13 low", "the next slot of its cadence"},
		`{"place":"waiting","rule":"priority","due_rule":"more","lanes":{"kind":"web","ahead":1,"lane":"normal"}}`: {"one account of the kind web", "waits for a replica"},
		`{"place":"waiting","rule":"priority","due_rule":"more","lanes":{"ahead":0}}`:                              {"too far behind to be found", "It is due."},
		`{"place":"claimed","replica":"R<1>","since":"2026-11-22T14:20:00Z","rule":"claimed","due_rule":"probe"}`:  {"by the replica <code>R&lt;1&gt;</code>", "the next failure parks it again"},
		`{"place":"claimed","replica":"R<1>","since":"2026-11-22T14:20:00Z","rule":"claimed","due_rule":"cadence","hold_seconds":35}`: {
			"call held", "calls since", "each call may be held by the third party for up to 35 s, until something comes", "by the replica <code>R&lt;1&gt;</code>"},
		`{"place":"parked","since":"2026-11-22T14:20:00Z","rule":"auth","due_rule":"auth","reason":"auth: auth: <b>"}`: {"<bdi>auth: &lt;b&gt;</bdi>", "refuses its credential", `action="/account/resume"`, `value="backfill"`},
		`{"place":"parked","since":"2026-11-22T14:20:00Z","rule":"paused","due_rule":"cadence","reason":"paused"}`:     {"paused since", "waits to be resumed"},
		`{"place":"scheduled","now":"2026-11-22T14:20:00Z","due":"2026-11-22T14:20:00Z","rule":"!","due_rule":"!"}`: {
			"no replica has claimed it yet", "not checked yet", "<dd>!", `>not checked yet</span></h1>`},
		`{"place":"scheduled","rule":"backoff","failures":1,"failures_left":2,"parks":{"rule":"auth","after":3,"over_seconds":600,"from":"2026-11-22T14:30:00Z"}}`: {
			"one failure; 2 more refusals of its credential park it", "Parked after 3 refusals over at least 10 min", "not before <time"},
		`{"place":"scheduled","rule":"retry-after","last_error":"http_429: slow down","never_succeeded":true}`:                                                   {"hindered", "told it to wait", "never"},
		`{"place":"scheduled","rule":"cadence","way":"berlin","way_down":{"name":"egress/berlin","state":"down","since":"2026-11-22T14:12:00Z","reason":"<i>"}}`: {"Down: checks and sends wait for a probe", "&lt;i&gt;"},
		`{"place":"scheduled","rule":"down","way":"berlin-<1>"}`:                                                                                                 {"Way out", "<code>berlin-&lt;1&gt;</code>"},
	} {
		site, _ := accountSite(t, access.Editor, schedule)
		w := ask(site, "GET", "/account?id=x")
		body := strings.Join(strings.Fields(w.Body.String()), " ")
		for _, part := range want {
			if w.Code != http.StatusOK || !strings.Contains(body, part) {
				t.Errorf("%s: %d, no %q in\n%s", schedule, w.Code, part, body)
			}
		}
	}
}

func TestAccountActions(t *testing.T) {
	for path, want := range map[string]struct{ call, to string }{
		"/account/check":             {"POST /v1/accounts/%2E%2E/nudge", "/account?id=..&said=account.checked"},
		"/account/pause":             {"POST /v1/accounts/%2E%2E/pause", "/account?id=..&said=account.paused"},
		"/account/resume?from=now":   {`POST /v1/accounts/%2E%2E/resume {"from":"now"}`, "/account?id=..&said=account.resumed"},
		"/account/resume?from=<odd>": {`POST /v1/accounts/%2E%2E/resume {"from":"\u003codd\u003e"}`, "/account?id=..&said=account.resumed"},
		"/account/delete":            {"DELETE /v1/accounts/%2E%2E", "/accounts?said=account.deleted"},
	} {
		site, calls := accountSite(t, access.Editor, someSchedule)
		path, query, _ := strings.Cut(path, "?")
		form, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		form.Set("id", "..")
		r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != want.to || len(*calls) != 1 || (*calls)[0] != want.call {
			t.Errorf("%s: %d to %q, calls %q", path, w.Code, w.Header().Get("Location"), *calls)
		}
	}
}

// A live page asks for the timeline and the messages only when the account has changed, or
// after a while.
func TestLiveAccountAsksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, calls := accountSite(t, access.Editor, someSchedule)
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		site.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/live/account?id=x", nil).WithContext(ctx))
		count := make(map[string]int)
		for _, call := range *calls {
			path, _, _ := strings.Cut(call, "?")
			count[path]++
		}
		if count["GET /v1/accounts/x"] != 8 || count["GET /v1/accounts/x/timeline"] != 2 || count["GET /v1/messages"] != 2 || count["GET /v1/accounts/x/checks"] != 4 {
			t.Errorf("asked %v", count)
		}
	})
}

func TestManyFindsAreOneEvent(t *testing.T) {
	at := time.Unix(1795360488, 0)
	var events []api.TimelineEvent
	for i, c := range "ffxfffx" {
		e := api.TimelineEvent{ID: string(c), Event: "failed", Count: 1, Time: at.Add(-time.Duration(i) * time.Minute)}
		if c == 'f' {
			e.Event, e.Count = "found", 2
		}
		events = append(events, e)
	}
	got := folded(events)
	if len(got) != 5 || got[0].Checks != 0 || got[3].Checks != 3 || got[3].Count != 6 || !got[3].Since.Equal(at.Add(-5*time.Minute)) || got[4].Event != "failed" {
		t.Errorf("%+v", got)
	}
	if events[3].Count != 2 {
		t.Errorf("the events themselves have changed: %+v", events)
	}
}

func TestFactsOfConfigs(t *testing.T) {
	for config, want := range map[string][]fact{
		``:                           nil,
		`{}`:                         nil,
		`"text"`:                     {{"", "text", ""}},
		`{"a":{"secret":"S","b":1}}`: {{"a.secret", "S", ""}, {"a.b", "1", ""}},
		`{"a":{"b":{"c":{"d":1}}}}`:  {{"a.b.c", `{"d":1}`, ""}},
		`{"z":1,"a":null,"b":[]}`:    {{"z", "1", ""}, {"a", "", ""}, {"b", "[]", ""}},
		"{\"a\u202e\":\"\u202egnp.exe\\u001b[2J\",\"b\":[\"\u2066\"],\"c\":{\"secret\":\"\u200fS\"}}": {{`a\u202e`, `\u202egnp.exe\u001b[2J`, ""}, {"b", `["\u2066"]`, ""}, {"c", "", `\u200fS`}},
		`{"a":"` + strings.Repeat("x", 500) + `"}`:                                                    {{"a", strings.Repeat("x", factText) + "…", ""}},
	} {
		if got := factsOf(json.RawMessage(config)); !slices.Equal(got, want) {
			t.Errorf("%.40s: %+v, want %+v", config, got, want)
		}
	}
	many := make(map[string]int)
	for i := range 500 {
		many[strings.Repeat("x", i+1)] = i
	}
	config, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(factsOf(config)); n != factsMost {
		t.Errorf("%d fields of 500, want %d", n, factsMost)
	}
}
