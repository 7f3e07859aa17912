package pages

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
)

const someMessage = `{"account":"a/<b>","kind":"feed","id":"<i>1</i>","type":"\"><img src=x>","time":"2026-11-22T14:20:00Z","shard":3,"position":"1795226313819-0",
"data":{"title":"\u003cscript\u003ealert(1)\u003c/script\u003e","link":"https://evil.example/","literal":"\\u003c"}}`

func TestMessagesShowsAPageOfThem(t *testing.T) {
	var asked url.Values // what a page asked first
	site := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/messages" && r.URL.Query().Get("limit") == "50" {
			asked = r.URL.Query()
		}
		answering(`{"messages":[`+someMessage+`],"next":"OLDER","end":"END","more":true}`)(w, r)
	})
	body := ask(site, "GET", "/messages?account=a%2F%3Cb%3E&type=x").Body.String()
	if asked.Get("before") != "now" || asked.Get("account") != "a/<b>" || asked.Get("type") != "x" || asked.Has("kind") || asked.Get("limit") != "50" {
		t.Errorf("asked %v", asked)
	}
	for _, want := range []string{
		`href="/message?at=3%3A1795226313819-0"`, `href="/account?id=a%2F%3Cb%3E"`, "&lt;i&gt;1&lt;/i&gt;", "&lt;script&gt;alert(1)", `literal&#34;: &#34;\\u003c`,
		`data-after="END"`, `data-filter="account=a%2F%3Cb%3E&amp;type=x"`, `href="/messages?account=a%2F%3Cb%3E&amp;before=OLDER&amp;type=x"`, "https://evil.example/",
		`<template id="row">`, "js/messages.js",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	for _, bad := range []string{"<script>alert", "<img", `href="https://evil`, "rel=\"prev\""} {
		if strings.Contains(body, bad) {
			t.Errorf("%q in\n%s", bad, body)
		}
	}
	body = ask(site, "GET", "/messages?before=P").Body.String()
	if asked.Get("before") != "P" || !strings.Contains(body, `href="/messages?after=END"`) || strings.Contains(body, "data-after") || strings.Contains(body, `id="tail"`) {
		t.Errorf("an older page, asked %v:\n%s", asked, body)
	}
	body = ask(site, "GET", "/messages?after=P&kind=feed").Body.String()
	if asked.Get("after") != "P" || asked.Has("before") || !strings.Contains(body, `href="/messages?before=P&amp;kind=feed"`) || !strings.Contains(body, `href="/messages?after=OLDER&amp;kind=feed"`) {
		t.Errorf("a newer page, asked %v:\n%s", asked, body)
	}
}

// The API looks at some thousands of messages only, and those of one account may be further back.
func TestMessagesLooksOnUntilThePageIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		const each = 300 * time.Millisecond
		found := 0
		site := newSite(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/messages" {
				answering(`{}`)(w, r)
				return
			}
			asked = append(asked, r.URL.Query().Get("before")+" "+r.URL.Query().Get("limit"))
			time.Sleep(each)
			_, _ = fmt.Fprintf(w, `{"messages":[%s],"next":"N%d","end":"E%[2]d","more":true}`, strings.TrimSuffix(strings.Repeat(someMessage+",", found), ","), len(asked))
		})
		for _, test := range []struct {
			path  string
			found int // in each call
			want  []string
			next  string
		}{
			{"/messages?account=a", 20, []string{"now 50", "N1 30", "N2 10"}, "before=N3"},
			{"/messages?account=a", 0, []string{"now 50", "N1 50", "N2 50", "N3 50"}, "before=N4"}, // a second has passed
			{"/messages?kind=feed&before=P", 50, []string{"P 50"}, "before=N1"},
			{"/messages", 0, []string{"now 50"}, "before=N1"},
		} {
			asked, found = nil, test.found
			body := ask(site, "GET", test.path).Body.String()
			if !slices.Equal(asked, test.want) || !strings.Contains(body, test.next) {
				t.Errorf("%s asks %q, want %q", test.path, asked, test.want)
			}
			if strings.Contains(body, "data-after") && !strings.Contains(body, `data-after="E1"`) {
				t.Errorf("%s goes on after another message than the first one that was looked at", test.path)
			}
		}
	})
}

func TestMessageShowsWhatHasBecomeOfIt(t *testing.T) {
	large := strings.Repeat("é", 40_000)
	reply := strings.TrimSuffix(strings.Replace(someMessage, `"literal"`, `"large":"`+large+`","literal"`, 1), "}") + `,"written":"2026-11-22T14:20:01Z","delivery":[
{"group":"crm","state":"pending","deliveries":2,"consumer":"reader0000","idle_seconds":61},{"group":"webhook.audit","webhook":"audit","state":"dead","deliveries":8,"dead_id":"3:5-0","error":"answered <b>400</b>"},
{"group":"late","state":"unread"},{"group":"old","state":"done"},{"group":"other","state":"skipped"}]}`
	asked := ""
	site := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/messages/") {
			asked = r.URL.Path
		}
		answering(reply)(w, r)
	})
	body := ask(site, "GET", "/message?at=3:1795226313819-0").Body.String()
	for _, want := range []string{
		"delivered 2 times, last 1 min 1 s ago, to reader0000", `href="/delivery/letter?id=3%3A5-0"`, "answered &lt;b&gt;400", `href="/delivery/webhook?name=audit"`, "has not come to it", "or older than the group",
		"for another group", `href="/message/data?at=3%3A1795226313819-0"`, "This is its beginning",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%.3000s", want, body)
		}
	}
	if asked != "/v1/messages/3:1795226313819-0" || strings.Contains(body, "<script>alert") || len(body) > 2*messageWhole {
		t.Errorf("asked %s, %d bytes", asked, len(body))
	}
	w := ask(site, "GET", "/message/data?at=3:1795226313819-0")
	if w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || w.Header().Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(w.Body.String(), large) || !strings.Contains(w.Body.String(), "<script>alert(1)</script>") {
		t.Errorf("as text: %v, %.100s", w.Header(), w.Body)
	}
	asked = ""
	for _, at := range []string{"", "..", "../accounts", "3:1-1/../..", "x"} {
		for _, path := range []string{"/message?at=", "/message/data?at="} {
			if w := ask(site, "GET", path+url.QueryEscape(at)); w.Code != http.StatusNotFound || asked != "" {
				t.Errorf("%s%s: %d, asked %q", path, at, w.Code, asked)
			}
		}
	}
}

func TestDataIsCutAtWholeCharacters(t *testing.T) {
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc…", "aéé": "aé…", "ééé": "é…"} {
		if got := cut(text, 3); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for data, want := range map[string]string{`"\u003c\\u003c\u0026\"\u00e9"`: `"<\\u003c&\"\u00e9"`, `\`: `\`, "\"\xff\"": "\"�\"", `"\u00`: `"\u00`} {
		if got := unescaped([]byte(data)); got != want {
			t.Errorf("%s: %s, want %s", data, got, want)
		}
	}
}

// newRecorded returns the pages for an operator, and what they order.
func newRecorded(t *testing.T, reply func(method, path string) string) (site http.Handler, orders *[]string) {
	t.Helper()
	orders = &[]string{}
	inner := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body := make([]byte, 1000)
			n, _ := r.Body.Read(body)
			*orders = append(*orders, r.URL.Path+" "+string(body[:n]))
		}
		answering(reply(r.Method, r.URL.Path))(w, r)
	})
	return inner, orders
}

func pressed(h http.Handler, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r = r.WithContext(access.With(r.Context(), access.Principal{Name: "anna", Role: access.Admin, Via: access.ViaSession}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestDeliveryShowsGroupsWebhooksAndLetters(t *testing.T) {
	site, _ := newRecorded(t, func(_, path string) string {
		switch path {
		case "/v1/groups":
			return `{"groups":[{"name":"crm","lag":1234,"pending":2,"oldest_unread_seconds":7200,"oldest_pending_seconds":5,"members":[{"name":"reader0000","shards":4,"pending":2,"oldest_pending_seconds":5,"silent_seconds":0.5,"error":"no <table>"}]},
{"name":"idle","lag":1,"pending":0,"members":[]},{"name":"webhook.audit","lag":0}]}`
		case "/v1/webhooks":
			return `{"webhooks":[{"name":"audit","standing":{"last_status":400,"last_outcome":"rejected","last_attempt":"2026-11-22T14:20:00Z","breaker":"closed","waiting_messages":12}},
{"name":"gone","disabled":true,"since":"2026-11-22T14:00:00Z","reason":"410"},{"name":"away","standing":{"breaker":"open","last_outcome":"unreachable","last_attempt":"2026-11-22T14:20:00Z"}},{"name":"lone","group":{"name":"webhook.lone","lag":3,"oldest_unread_seconds":60}}]}`
		case "/v1/dead":
			return `{"dead":[{"dead_id":"3:5-0","group":"crm","error":"<script>x</script>","deliveries":8,"origin":"4-0","account":"a","id":"m1","type":"t","shard":3,"position":"1795226313819-0"}],"next":"N","total":1500}`
		}
		return `{}`
	})
	body := ask(site, "GET", "/delivery?group=crm").Body.String()
	for _, want := range []string{
		"1,234", "2 h", `<small class="warn">no &lt;table&gt;</small>`, "reads 4 shards, 2 pending", "nobody reads", "late", "some messages wait", "disabled", "not reachable", "no process delivers", "not reached",
		"1,500 in all groups", "&lt;script&gt;x", `href="/delivery/letter?id=3%3A5-0"`, `name="id" value="3:5-0"`, `href="/delivery?cursor=N&amp;group=crm"`, "Drop all", `value="enable"`, `value="retry"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(body, "<script>x") || strings.Count(body, "<b>webhook.audit</b>") > 0 {
		t.Errorf("too much in\n%s", body)
	}
}

// It shows in both languages which groups and endpoints ask for events.
func TestDeliveryShowsWhoAsksForEvents(t *testing.T) {
	site, _ := newRecorded(t, func(_, path string) string {
		switch path {
		case "/v1/groups":
			return `{"groups":[{"name":"crm","events":true},{"name":"idle"}]}`
		case "/v1/webhooks/asks":
			return `{"name":"asks","group":{"name":"webhook.asks","events":true}}`
		case "/v1/webhooks/other":
			return `{"name":"other","group":{"name":"webhook.other"}}`
		}
		return `{}`
	})
	const says, saysZH = "messages, and events that say what becomes of sends", "消息，以及说明发送结果的事件"
	for lang, want := range map[string]string{
		"en": `<b>crm</b> <span class="badge" title="` + says + `">events</span>`,
		"zh": `<b>crm</b> <span class="badge" title="` + saysZH + `">事件</span>`,
	} {
		if body := ask(site, "GET", "/delivery", "Accept-Language", lang).Body.String(); strings.Count(body, want) != 1 || !strings.Contains(body, "<b>idle</b></td>") {
			t.Errorf("in %s no %q in\n%s", lang, want, body)
		}
	}
	for lang, want := range map[string]string{"en": "<dt>Gets</dt><dd>" + says, "zh": "<dt>接收</dt><dd>" + saysZH} {
		if body := ask(site, "GET", "/delivery/webhook?name=asks", "Accept-Language", lang).Body.String(); !strings.Contains(body, want) {
			t.Errorf("in %s no %q in\n%s", lang, want, body)
		}
		if body := ask(site, "GET", "/delivery/webhook?name=other", "Accept-Language", lang).Body.String(); strings.Contains(body, want) {
			t.Errorf("in %s there is %q in\n%s", lang, want, body)
		}
	}
}

// Where endpoints are named and no process delivers, the page names the role that is missing, and
// not the setting that is there.
func TestDeliveryNamesTheMissingRole(t *testing.T) {
	for concerns, want := range map[string]string{
		`[{"code":"no_delivery_role","level":"warn","link":"/delivery","text":"t"}]`: "no process has the role delivery",
		`[]`: "No webhook endpoint has got a message",
	} {
		site, _ := newRecorded(t, func(_, path string) string {
			if path == "/v1/concerns" {
				return `{"concerns":` + concerns + `}`
			}
			return `{}`
		})
		body := ask(site, "GET", "/delivery").Body.String()
		if !strings.Contains(body, want) || strings.Contains(body, "no process has the role delivery") && strings.Contains(body, "No webhook endpoint") {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
}

func TestDeliveryDoesWhatItsFormsAsk(t *testing.T) {
	round := 0
	site, orders := newRecorded(t, func(method, path string) string {
		if method == "POST" && path == "/v1/dead:drop" {
			if round++; round == 1 {
				return `{"dropped":1000,"next":"N"}`
			}
			return `{"dropped":3}`
		}
		if path == "/v1/dead:replay" {
			return `{"replayed":1,"not_found":1}`
		}
		return `{}`
	})
	for _, c := range []struct {
		path string
		form url.Values
		to   string
		want []string
	}{
		{"/delivery/letters", url.Values{"do": {"replay"}, "id": {"3:5-0", "3:6-0"}, "back": {"/delivery?group=crm"}}, "/delivery?group=crm&said=replayed_some", []string{`/v1/dead:replay {"ids":["3:5-0","3:6-0"]}`}},
		{"/delivery/letters", url.Values{"do": {"drop"}, "back": {"//evil.example"}}, "/?said=none_chosen", nil},
		{"/delivery/all", url.Values{"do": {"drop"}, "group": {"crm"}}, "/delivery?said=dropped", []string{`/v1/dead:drop {"group":"crm"}`, `/v1/dead:drop {"cursor":"N","group":"crm"}`}},
		{"/delivery/webhook", url.Values{"do": {"retry"}, "name": {"audit"}, "account": {"a b"}}, "/delivery/webhook?name=audit&said=retried", []string{`/v1/webhooks/audit/retry {"account":"a b"}`}},
		{"/delivery/webhook", url.Values{"do": {"skip"}, "name": {"audit"}}, "/delivery/webhook?name=audit&said=skipped", []string{`/v1/webhooks/audit/skip {"all":true}`}},
		{"/delivery/webhook", url.Values{"do": {"enable"}, "name": {"a/b"}}, "/delivery/webhook?name=a%2Fb&said=enabled", []string{`/v1/webhooks/a/b/enable `}},
	} {
		*orders = nil
		w := pressed(site, c.path, c.form)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != c.to || fmt.Sprint(*orders) != fmt.Sprint(c.want) {
			t.Errorf("%s %v: %d to %s, ordered %q", c.path, c.form, w.Code, w.Header().Get("Location"), *orders)
		}
	}
	*orders = nil
	for path, form := range map[string]url.Values{
		"/delivery/letters": {"do": {"read"}, "id": {"3:5-0"}}, "/delivery/all": {"do": {"drop"}}, "/delivery/webhook": {"do": {"remove"}, "name": {"audit"}},
	} {
		if w := pressed(site, path, form); w.Code != http.StatusUnprocessableEntity || len(*orders) > 0 {
			t.Errorf("%s %v: %d, ordered %q", path, form, w.Code, *orders)
		}
	}
}

// Skip and Drop name what they touch, and touch nothing before the visitor is sure, nor another message
// that came meanwhile.
func TestSkipAndDropNameWhatTheyTouch(t *testing.T) {
	site, orders := newRecorded(t, func(_, path string) string {
		if path == "/v1/dead/3:5-0" {
			return `{"dead_id":"3:5-0","group":"crm","error":"<b>x</b>","account":"a<c","id":"m1","shard":3,"position":"5-0"}`
		}
		return `{"name":"audit","standing":{"waiting_messages":3,"waiting_accounts":2,"waiting":[{"account":"a/b","shard":3,"position":"6-0","behind":2,"error":"<i>no</i>"}]}}`
	})
	w := pressed(site, "/delivery/letters", url.Values{"do": {"drop"}, "id": {"3:5-0"}, "back": {"/delivery?group=crm"}})
	asks := w.Header().Get("Location")
	if asks != "/delivery?back=%2Fdelivery%3Fgroup%3Dcrm&drop=3%3A5-0" || len(*orders) > 0 {
		t.Errorf("to %s, ordered %q", asks, *orders)
	}
	got := ask(site, "GET", asks).Body.String()
	for _, want := range []string{"<code>m1</code>", "of <b>a&lt;c</b>, for <b>crm</b>", "&lt;b&gt;x", `name="sure" value="yes"`, "Drop it for good", `href="/delivery?group=crm"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	pressed(site, "/delivery/letters", url.Values{"do": {"drop"}, "id": {"3:5-0"}, "sure": {"yes"}})
	if fmt.Sprint(*orders) != `[/v1/dead:drop {"ids":["3:5-0"]}]` {
		t.Errorf("ordered %q", *orders)
	}

	*orders = nil
	got = ask(site, "GET", "/delivery/webhook?name=audit&skip=a%2Fb").Body.String()
	for _, want := range []string{"Skip this message?", "<b>a/b</b>", `name="at" value="3:6-0"`, `href="/message?at=3%3A6-0"`, "The first message for <b>audit</b> of each of 2 accounts"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := ask(site, "GET", "/delivery/webhook?name=audit&skip=%3Cnone").Body.String(); !strings.Contains(got, "No message of &lt;none waits any more.") || strings.Contains(got, `name="at"`) {
		t.Errorf("none waits:\n%s", got)
	}
	for at, want := range map[string]string{"3:5-0": "said=not_skipped", "": "said=not_skipped", "3:6-0": "said=skipped"} {
		w := pressed(site, "/delivery/webhook", url.Values{"do": {"skip"}, "name": {"audit"}, "account": {"a/b"}, "at": {at}})
		if to := w.Header().Get("Location"); !strings.HasSuffix(to, want) || (len(*orders) > 0) != (at == "3:6-0") {
			t.Errorf("the message at %q: to %s, ordered %q", at, to, *orders)
		}
		*orders = nil
	}
}

func TestLetterAndWebhook(t *testing.T) {
	site, _ := newRecorded(t, func(_, path string) string {
		if path == "/v1/dead/3:5-0" {
			return `{"dead_id":"3:5-0","group":"crm","error":"<b>x</b>","deliveries":8,"origin":"4-0","account":"a","id":"m1","shard":3,"position":"1795226313819-0","data":{"a":1}}`
		}
		return `{"name":"audit","standing":{"processes":2,"breaker":"open","breaker_until":"2026-11-22T14:30:00Z","waiting_messages":3,"waiting_accounts":1,"attempt":2,"max_deliveries":8,"waiting":[{"account":"a/b","shard":3,"position":"5-0","attempt":2,"behind":2,"error":"<i>no</i>"}]}}`
	})
	body := ask(site, "GET", "/delivery/letter?id=3:5-0").Body.String()
	if !strings.Contains(body, `href="/message?at=3%3A4-0"`) || !strings.Contains(body, "&lt;b&gt;x") || !strings.Contains(body, `value="replay"`) {
		t.Errorf("letter:\n%s", body)
	}
	if w := ask(site, "GET", "/delivery/letter?id=.."); w.Code != http.StatusNotFound {
		t.Errorf("no letter: %d", w.Code)
	}
	body = ask(site, "GET", "/delivery/webhook?name=audit").Body.String()
	for _, want := range []string{"open: nothing is sent", "3 messages · accounts: 1", "2 of 8 deliveries have failed", "&lt;i&gt;no", `name="account" value="a/b"`, "Skip all"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
}

func TestLimitsShowsUseAndWhoWaits(t *testing.T) {
	site, _ := newRecorded(t, func(_, path string) string {
		if path == "/v1/credentials" {
			return `{"credentials":[{"owner":"wecom-kf|ww1|https://x","kind":"wecom-kf","name":"ww1","at":"https://x","id":"1","state":"refused","reason":"40001","retry":"2026-11-22T15:00:00Z"},{"owner":"<b>other","id":"2","state":"valid","fetched":"2026-11-22T14:00:00Z","expires":"2026-11-22T16:00:00Z","refresh":"2026-11-22T15:50:00Z"}],"next":"50"}`
		}
		return `{"now":"2026-11-22T14:20:00Z","limits":[{"name":"feed/<i>","kind":"feed","rate_key":"<i>","every_seconds":90,"burst":2,"taken":2,"asked":60,"denied":58,"waiting":1234,"until":"2026-11-22T15:20:00Z"},
{"name":"http","kind":"http","every_seconds":0.01,"burst":1,"concurrency":5,"running":3,"asked":1}],"more":7,"paused":[{"owner":"wecom-kf|ww1|https://x","kind":"wecom-kf","name":"ww1","at":"https://x","until":"2026-11-22T14:25:00Z","reason":"45009"}],"more_paused":0,"down":[{"name":"http/down.example","kind":"http","rate_key":"down.example","state":"down","since":"2026-11-22T14:20:00Z","next":"2026-11-22T14:25:00Z","reason":"http_503"},{"name":"egress/berlin","kind":"egress","rate_key":"berlin","state":"down","since":"2026-11-22T14:20:00Z","next":"2026-11-22T14:25:00Z","reason":"proxy"},{"name":"http/far.example (via paris)","kind":"http","rate_key":"far.example","way":"paris","state":"down","since":"2026-11-22T14:20:00Z","next":"2026-11-22T14:25:00Z"}],"more_down":0}`
	})
	body := ask(site, "GET", "/limits").Body.String()
	for _, want := range []string{
		"&lt;i&gt;", "40 an hour", "about 1,234 checks", "2 of 2 starts", "100 a second", "3 of 5 running", "the whole kind", "7 more are left out", "45009", "secret refused", "&lt;b&gt;other", `href="/limits?cursor=50"`, "<b>berlin</b> <small>way out</small>", "<b>far.example</b> <small>http · Way out <code>paris</code></small>",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
}

const someFiles = `"files":[{"n":0,"name":"<b>cat.png","type":"image/png","size":2048,"state":"kept","url":"/v1/messages/3:1795226313819-0/files/0","thumbnail":"/v1/messages/3:1795226313819-0/files/0/thumbnail"},
{"n":1,"state":"waiting","url":"/v1/messages/3:1795226313819-0/files/1"},{"n":2,"name":"old.pdf","state":"lost","reason":"the third party <has> it no more"},
{"n":3,"name":"later.pdf","state":"demand","url":"/v1/messages/3:1795226313819-0/files/3"}]`

// The files of a message are listed where the message is: by name, size and state, images small, and
// a link only where there is something to read.
func TestFilesAreShown(t *testing.T) {
	message := strings.TrimSuffix(someMessage, "}") + "," + someFiles + "}"
	site := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/messages":
			answering(`{"messages":[`+message+`],"next":"N","end":"E"}`)(w, r)
		case strings.HasPrefix(r.URL.Path, "/v1/dead/"):
			answering(strings.TrimSuffix(message, "}")+`,"dead_id":"3:5-0","group":"crm","error":"no","deliveries":8,"origin":"1-1"}`)(w, r)
		default:
			answering(message)(w, r)
		}
	})
	talk := newTalkSite(t, access.Viewer)
	talk.talk = strings.Replace(someTalk, `"shard":7`, someFiles+`,"shard":7`, 1)
	_, said := talk.page(t, "GET", "/account?id=a", nil)
	for name, body := range map[string]string{
		"messages": ask(site, "GET", "/messages").Body.String(), "message": ask(site, "GET", "/message?at=3:1795226313819-0").Body.String(),
		"letter": ask(site, "GET", "/delivery/letter?id=3:5-0").Body.String(), "talk": said,
	} {
		for _, want := range []string{
			`<img src="/v1/messages/3:1795226313819-0/files/0/thumbnail" alt="" loading="lazy"`, `<a href="/v1/messages/3:1795226313819-0/files/0" download><bdi>&lt;b&gt;cat.png</bdi></a>`, "2 KiB image/png",
			"<bdi>File 2</bdi>", "being fetched", "<bdi>old.pdf</bdi>", "the third party &lt;has&gt; it no more", `files/3" download><bdi>later.pdf`, "not fetched yet",
		} {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %q in\n%s", name, want, body)
			}
		}
		for _, bad := range []string{"<b>cat", `href="/v1/messages/3:1795226313819-0/files/1"`, `href=""`} {
			if strings.Contains(body, bad) {
				t.Errorf("%s: %q in\n%s", name, bad, body)
			}
		}
	}
	talk.talk = strings.Replace(talk.talk, `{"item_list":[{"text_item":{"text":"Are you <b>there?"}}]}`, `{"media":"key"}`, 1)
	if _, said := talk.page(t, "GET", "/account?id=a", nil); strings.Contains(said, `<span class="text">{`) {
		t.Errorf("a message that is only a file shows its data:\n%s", said)
	}
}
