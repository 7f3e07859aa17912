package pages

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
)

const (
	someSystem = `{"now":"2026-11-22T14:20:00Z","namespace":"press","store":"cluster <a>","shards":4,
"nodes":[{"name":"<b>n1","version":"7.0.15","up_seconds":3700,"memory_used":1048576,"memory_limit":2097152,"shards":3,"shard_numbers":[0,1,3],
"judged":[{"about":"memory","level":"good","code":"within","value":"50"},{"about":"persistence","level":"bad","code":"append_fails","value":"<i>err"},{"about":"eviction","level":"bad","code":"evicts","value":"allkeys-lru"},{"about":"replicas","level":"note","code":"none"}]},
{"name":"n2","away":true,"shard_numbers":[2],"judged":[]}],
"settings":[{"name":"ROUNDS_A","value":"1"},{"name":"ROUNDS_B","value":"<u>2","differ":true,"values":[{"value":"<u>2","processes":["p1","p2"]},{"value":"3","processes":["p3"]}]}],
"versions":[{"version":"v2","processes":2},{"version":"","processes":1}],
"processes":[{"name":"p1","roles":["api","poller"],"version":"v2","host":"<h>","since":"2026-11-22T13:00:00Z","last_heartbeat":"2026-11-22T14:19:59Z","alive":true},{"name":"p4","roles":["monitor"],"last_heartbeat":"2026-11-22T14:10:00Z"}]}`
	someLaw = `{"now":"2026-11-22T14:20:00Z","state":"violated","every_seconds":600,"last":{"by":"hand","began":"2026-11-22T14:00:00Z","at":"2026-11-22T14:01:00Z","accounts":1000,"unjudged":2,
"kinds":[{"kind":"lost","found":3,"repaired":1},{"kind":"orphan","found":1,"repaired":1}],"findings":[{"kind":"lost","shard":1,"id":"<s>a"},{"kind":"garbage","shard":2,"id":"x|y","repaired":true}],"shards_audited":4,"shards":4}}`
)

// systemAPI answers what the page of the service asks for, and notes the orders.
type systemAPI struct {
	law, reshard string
	refuse       map[string]string // "METHOD PATH" -> problem
	ordered      []string          // METHOD PATH?QUERY BODY
	audits       []string          // replies to audits, in their order
}

func (a *systemAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // of a test
	what := r.Method + " " + r.URL.RequestURI()
	if r.Method != http.MethodGet || r.URL.Path == "/v1/audit" {
		a.ordered = append(a.ordered, strings.TrimSpace(what+" "+string(body)))
	}
	if refusal, ok := a.refuse[r.Method+" "+r.URL.Path]; ok {
		w.Header().Set("Content-Type", "application/problem+json")
		status := http.StatusConflict
		if strings.Contains(refusal, "422") {
			status = http.StatusUnprocessableEntity
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, refusal)
		return
	}
	reply := map[string]string{"/v1/system": someSystem, "/v1/law": a.law, "/v1/reshard": a.reshard}[r.URL.Path]
	if strings.HasPrefix(r.URL.Path, "/v1/audit") {
		reply, a.audits = a.audits[0], a.audits[1:]
	}
	if reply == "" {
		reply = "{}"
	}
	_, _ = io.WriteString(w, reply)
}

// siteFor returns the pages for a visitor of a role.
func siteFor(t *testing.T, role access.Role, inside http.Handler) http.Handler {
	t.Helper()
	d, err := New(Options{
		May: func(p access.Principal, route string) bool {
			least := access.Viewer
			if !strings.HasPrefix(route, "GET ") || route == "GET /v1/trail" {
				least = access.Admin
			}
			return p.May(least)
		},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	pages := d.Handler(inside)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Principal{Name: "anna", Role: role})))
	})
}

// post sends a form, and returns the reply with its spaces joined.
func post(h http.Handler, path string, pairs ...string) (*httptest.ResponseRecorder, string) {
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w, regexp.MustCompile(`\s+`).ReplaceAllString(w.Body.String(), " ")
}

func contains(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func lacks(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, no := range all {
		if strings.Contains(text, no) {
			t.Errorf("%q in\n%s", no, text)
		}
	}
}

func TestSystemShowsServersSettingsAndTheLaw(t *testing.T) {
	api := &systemAPI{law: someLaw, reshard: `{"phase":"steady","from":4,"to":4}`}
	viewer := regexp.MustCompile(`\s+`).ReplaceAllString(ask(siteFor(t, access.Viewer, api), "GET", "/system").Body.String(), " ")
	contains(t, viewer,
		"cluster &lt;a&gt;", "&lt;b&gt;n1", "1 MiB of 2 MiB", "50 % of its memory is in use", "(&lt;i&gt;err)", "drops accounts when its memory is full (allkeys-lru)", "0–1, 3", ">away<",
		"is broken", "3 lost", "1 repaired", "&lt;s&gt;a", "by hand", "took 1 min", "2 could not be judged", `action="/system/audit"`, ">x|y<",
		"one differs between processes", "&lt;u&gt;2", "All 2 settings", "&lt;h&gt;", "unknown version", "Processes of several versions run", ">silent<", "4 shards")
	lacks(t, viewer, "<b>n1", "<i>err", "<u>2", "<s>a", "<h>", `action="/system/repair"`, `action="/system/reshard"`, `href="/trail"`, "x%7Cy")
	admin := ask(siteFor(t, access.Admin, api), "GET", "/system", "Accept-Language", "zh").Body.String()
	contains(t, admin, `action="/system/repair"`, `<div data-kept="reshard"><form method="post" action="/system/reshard"`, `href="/trail"`, "内存满时会淘汰账号")
}

// A page without the law, or without the state of the shards, is still of use.
func TestSystemWithoutTheLaw(t *testing.T) {
	api := &systemAPI{refuse: map[string]string{"GET /v1/law": `{"detail":"no"}`, "GET /v1/reshard": `{"detail":"no"}`}}
	w := ask(siteFor(t, access.Admin, api), "GET", "/system")
	if w.Code != 200 {
		t.Fatalf("%d", w.Code)
	}
	contains(t, w.Body.String(), "is not known now", "cannot be told now", "7.0.15")
	lacks(t, w.Body.String(), `action="/system/reshard"`)
	for state, want := range map[string]string{"never": "not audited yet", "first": "first audit running", "broken": "broke off", "old": "too long ago"} {
		api := &systemAPI{law: `{"state":"` + state + `","running":{"shards_audited":1,"shards":4}}`}
		contains(t, ask(siteFor(t, access.Viewer, api), "GET", "/system").Body.String(), want, "1 of 4 shards audited")
	}
}

// A change of the number of shards is tried first, and then begun with the number that
// was tried.
func TestShardsAreChangedStepByStep(t *testing.T) {
	api := &systemAPI{law: someLaw, reshard: `{"phase":"steady","from":4,"to":8,"accounts":9,"left":7,"room":[{"node":"<n>","need_bytes":1024,"free_bytes":2048},{"need_bytes":4096,"free_bytes":2048}]}`}
	site := siteFor(t, access.Admin, api)
	w, body := post(site, "/system/reshard", "shards", "8", "do", "try")
	if w.Code != 200 || api.ordered[0] != `POST /v1/reshard {"shards":8,"dry_run":true}` {
		t.Fatalf("%d, %q", w.Code, api.ordered)
	}
	contains(t, body, "7 accounts would move, from 4 to 8 shards", "&lt;n&gt;", "too little", `type="hidden" name="shards" value="8"`, "Change it to 8 shards", `name="force"`)
	for _, c := range []struct{ force, want string }{{"", `{"shards":8}`}, {"1", `{"shards":8,"force":true}`}} {
		w, _ = post(site, "/system/reshard", "shards", "8", "do", "begin", "force", c.force)
		if got := api.ordered[len(api.ordered)-1]; w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/system?said=resharding#shards" || got != "POST /v1/reshard "+c.want {
			t.Errorf("%d to %s, %q", w.Code, w.Header().Get("Location"), got)
		}
	}
	n := len(api.ordered)
	if w, body = post(site, "/system/reshard", "shards", "many", "do", "begin"); w.Code != 422 || len(api.ordered) != n {
		t.Errorf("%d, %q", w.Code, api.ordered)
	}
	contains(t, body, "must be a whole number", `value="many"`)
	api.refuse = map[string]string{"POST /v1/reshard": `{"status":422,"detail":"validation failed","errors":[{"location":"body.shards","message":"must be 1 to 16384"}]}`}
	if w, body = post(site, "/system/reshard", "shards", "0", "do", "try"); w.Code != 422 {
		t.Errorf("%d", w.Code)
	}
	contains(t, body, "must be 1 to 16384")
	api.refuse["POST /v1/reshard"] = `{"detail":"Redis has <1 MB left"}`
	if w, body = post(site, "/system/reshard", "shards", "8", "do", "begin"); w.Code != http.StatusConflict {
		t.Errorf("%d", w.Code)
	}
	contains(t, body, "Redis has &lt;1 MB left", `name="force"`)
	if w, _ = post(siteFor(t, access.Viewer, api), "/system/reshard", "shards", "many"); w.Code != http.StatusForbidden {
		t.Errorf("a viewer: %d", w.Code)
	}
	for _, what := range []string{"abort", "finish"} {
		if w, _ = post(site, "/system/reshard/"+what); w.Header().Get("Location") != "/system?said=reshard-"+what+"#shards" || api.ordered[len(api.ordered)-1] != "POST /v1/reshard:"+what {
			t.Errorf("%s: %d, %q", what, w.Code, api.ordered)
		}
	}
}

func TestShardsShowHowFarTheirChangeIs(t *testing.T) {
	for want, state := range map[string]string{
		"these replicas know the new shards: r1, r2": `{"phase":"moving","from":4,"to":8,"accounts":9,"left":9,"replicas_behind":["r1","r2"]}`,
		"None of 9 accounts":                         `{"phase":"moving","from":4,"to":8,"accounts":9,"left":9}`,
		"5 of 9 accounts have moved":                 `{"phase":"moving","from":4,"to":8,"accounts":9,"left":4}`,
		"All 9 accounts have moved":                  `{"phase":"moving","from":4,"to":8,"accounts":9,"unconfirmed":1}`,
		"still hold 70 messages":                     `{"phase":"draining","from":4,"to":8,"accounts":9,"old_messages":70}`,
	} {
		body := ask(siteFor(t, access.Admin, &systemAPI{law: someLaw, reshard: state}), "GET", "/system").Body.String()
		contains(t, body, `id="live-reshard"`) // the form comes back by itself when the change has ended
		contains(t, body, want, "4 → 8")
		lacks(t, body, `action="/system/reshard"`)
		if got, may := strings.Contains(body, "/system/reshard/abort"), strings.Contains(state, `"left":9`); got != may {
			t.Errorf("%s: it can be given up: %v", state, got)
		}
	}
}

// An audit goes on call by call, and its page shows the sum of all calls.
func TestAuditGoesOnToItsEnd(t *testing.T) {
	api := &systemAPI{law: someLaw, audits: []string{
		`{"accounts":20,"kinds":[{"kind":"lost","found":1,"repaired":1}],"findings":[{"kind":"lost","shard":0,"id":"<a>","repaired":true}],"shards_audited":1,"shards":4,"next":"c/1"}`,
		`{"accounts":30,"unjudged":1,"kinds":[{"kind":"lost","found":2,"repaired":1},{"kind":"garbage","found":1}],"findings":[{"kind":"garbage","shard":3,"id":"x"}],"shards_audited":4,"shards":4}`,
	}}
	w, body := post(siteFor(t, access.Admin, api), "/system/repair")
	if w.Code != 200 || strings.Join(api.ordered, ", ") != "POST /v1/audit:repair, POST /v1/audit:repair?cursor=c%2F1" {
		t.Fatalf("%d, %q", w.Code, api.ordered)
	}
	contains(t, body, "1 of 4 shards audited · 20 accounts", "4 of 4 shards audited · 50 accounts", "3 lost (2 repaired)", "2 findings are not repaired", "&lt;a&gt;", "1 could not be judged", "</html>")
	lacks(t, body, "<a>", `action="/system/repair"`)
	if w.Header().Get("Content-Encoding") != "" {
		t.Error("a page that is written as it goes is compressed")
	}
	api.audits = []string{`{"accounts":50,"shards_audited":4,"shards":4}`}
	_, body = post(siteFor(t, access.Viewer, api), "/system/audit")
	contains(t, body, "50 accounts, each in exactly one place")
	if got := api.ordered[len(api.ordered)-1]; got != "GET /v1/audit" {
		t.Errorf("ordered %q", got)
	}
	api.audits = []string{`{"accounts":20,"shards_audited":1,"shards":4,"next":"c"}`, "broken"}
	_, body = post(siteFor(t, access.Admin, api), "/system/audit")
	contains(t, body, "The audit stopped.", "could not go on", "</html>")
	api.refuse = map[string]string{"GET /v1/audit": `{"detail":"not now"}`}
	if w, body = post(siteFor(t, access.Admin, api), "/system/audit"); w.Code != http.StatusConflict {
		t.Errorf("refused at once: %d", w.Code)
	}
	contains(t, body, "not now")
	if w := ask(siteFor(t, access.Admin, api), "GET", "/system/audit"); w.Code != http.StatusNotFound {
		t.Errorf("GET: %d", w.Code)
	}
}

// When a visitor leaves, the audit stops.
func TestLeavingStopsTheAudit(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	calls := 0
	site := siteFor(t, access.Admin, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/audit" {
			_, _ = io.WriteString(w, "{}")
			return
		}
		if calls++; calls == 2 {
			leave()
		}
		if r.Context().Err() != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"accounts":20,"shards_audited":1,"shards":4,"next":"c"}`)
	}))
	w := httptest.NewRecorder()
	site.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/system/audit", nil))
	if calls != 2 {
		t.Errorf("the audit called %d times", calls)
	}
	contains(t, w.Body.String(), "1 of 4 shards audited · 20 accounts", "The audit stopped.")
}

func TestTrailShowsWhoChangedWhat(t *testing.T) {
	asked := ""
	site := siteFor(t, access.Admin, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/trail" {
			_, _ = io.WriteString(w, "{}")
			return
		}
		asked = r.URL.RawQuery
		if r.URL.Query().Get("since") == "x" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"status":422,"detail":"validation failed","errors":[{"location":"query.since","message":"must be one duration"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"entries":[{"time":"2026-11-22T14:00:00Z","by":"<b>anna","via":"key","address":"10.0.0.1","action":"pause-accounts","outcome":"done","accounts":["a","b","<i>c","d","e"],"counts":{"paused":5,"changed":4}},
{"time":"2026-11-22T13:00:00Z","by":"local","action":"put-account","outcome":"refused","status":422,"account":"x/y","fields":["config.url"],"subject":"webhook <u>","selector":"kind=feed"}],"next":"n1"}`)
	}))
	body := ask(site, "GET", "/trail?by=anna&account=a%26b&since=24h&other=1").Body.String()
	if asked != "account=a%26b&by=anna&limit=50&since=24h" {
		t.Errorf("asked %q", asked)
	}
	contains(t, body, "&lt;b&gt;anna", "a key", "pause-accounts", "&lt;i&gt;c", "and 2 more", "paused: 5", "changed: 4", ">refused<", "422", "config.url", "webhook <bdi>&lt;u&gt;</bdi>", "kind=feed",
		`href="/account?id=x%2Fy"`, `value="a&amp;b"`, `value="24h" selected`, "cursor=n1")
	lacks(t, body, "<b>anna", "<i>c", "<u>")
	contains(t, ask(site, "GET", "/trail", "Accept-Language", "zh-CN").Body.String(), "密钥 · 10.0.0.1", "已修改：4", "Webhook <bdi>&lt;u&gt;</bdi>")
	contains(t, ask(site, "GET", "/trail?since=x").Body.String(), "must be one duration")
	contains(t, ask(site, "GET", "/trail?cursor=n1").Body.String(), `rel="first"`)
}
