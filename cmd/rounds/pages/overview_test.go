package pages

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// Vendored files are those that were published, byte by byte.
func TestVendoredFilesHaveTheirChecksums(t *testing.T) {
	sums, err := assets.ReadFile("assets/vendor/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(sums), "# uPlot 1.6.32, MIT: ") {
		t.Errorf("version and licence are not told: %.60s", sums)
	}
	known := map[string]bool{"SHA256SUMS": true}
	for _, match := range regexp.MustCompile(`(?m)^([0-9a-f]{64})  (\S+)$`).FindAllStringSubmatch(string(sums), -1) {
		content, err := assets.ReadFile("assets/vendor/" + match[2])
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		if hex.EncodeToString(sum[:]) != match[1] {
			t.Errorf("%s was changed", match[2])
		}
		known[match[2]] = true
	}
	entries, err := assets.ReadDir("assets/vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !known[e.Name()] {
			t.Errorf("%s has no checksum", e.Name())
		}
	}
	if len(known) != 4 {
		t.Errorf("%d files", len(known))
	}
}

// said answers each path of the API with a text, and the others with 503.
func said(replies map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, ok := replies[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, body)
	}
}

// words returns the text of a page's main part, without markup, in one line.
func words(h http.Handler, path string, header ...string) string {
	body := ask(h, "GET", path, header...).Body.String()
	if _, main, ok := strings.Cut(body, "<main"); ok {
		body, _, _ = strings.Cut(main, "</main>")
	}
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, " ")
	return strings.Join(strings.Fields(text), " ")
}

const someStats = `{"accounts":{"registered":1000000,"scheduled":994112,"waiting":806,"claimed":3341,"parked":1741,"waiting_by_lane":{"urgent":2,"normal":790,"low":14}},
	"messages":1204,"overdue_seconds":75,"catch_up":{"seconds":180,"late_accounts":600,"asked_per_second":5000,"made_per_second":5551},"failing":{"accounts":2914},
	"staleness":{"seconds_p99":91,"seconds_max":300,"headroom":[{"kind":"mail","least_seconds":500000},{"kind":"wecom-kf","least_seconds":255600}]},
	"replicas":[{"name":"alice00000","alive":true,"host":"poll-1","version":"v0.3.0","concurrency":4096,"in_flight":1120,"held":18002,"checks_per_second":5551,"lateness_p99_seconds":0.084},
		{"name":"bob0000000","alive":false,"host":"<poll>","in_flight":3,"concurrency":256}],
	"processes":[{"roles":["poller","monitor"],"alive":true},{"roles":["api"],"alive":true},{"roles":["delivery"],"alive":false}]}`

const someHistory = `{"now":"2026-11-22T12:00:00Z","from":"2026-11-22T11:58:00Z","step_seconds":60,"points":3,"fields":[
	{"name":"checks_per_second","values":[16000,null,17000],"max":[16100,null,17100]},{"name":"messages_per_second","values":[1,2,3]},{"name":"failing_share","values":[0.002,0.0031,0.0042]},
	{"name":"lateness_p50_seconds","values":[0.03,0.034,0.038]},{"name":"lateness_p99_seconds","values":[0.05,0.088,0.07],"max":[0.06,0.1,0.07]}]}`

// The Overview says when late accounts are in time again, that they never are, or that it is
// not known yet.
func TestOverviewSaysWhenAccountsAreInTime(t *testing.T) {
	for want, stats := range map[string]string{
		"overdue 1 min 15 s in time again in about 3 min":                             `"overdue_seconds":75,"catch_up":{"seconds":180,"made_per_second":5551,"asked_per_second":5000}`,
		"overdue 1 min 15 s not with this capacity: 40 checks/s, 5,000 are asked for": `"overdue_seconds":75,"catch_up":{"never":true,"made_per_second":40,"asked_per_second":5000}`,
		"overdue 1 min 15 s when they are in time is not known yet":                   `"overdue_seconds":75`,
		"overdue 9 s all are claimed in time":                                         `"overdue_seconds":9`,
	} {
		site := newSite(t, said(map[string]string{"/v1/stats": `{"accounts":{"registered":3},` + stats + `}`}))
		if got := words(site, "/"); !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// A page that an outage of Redis prevents says since when, and loads again.
func TestPagesLoadAgainAfterAnOutage(t *testing.T) {
	since := time.Date(2026, 11, 22, 12, 0, 5, 0, time.UTC)
	d, err := New(Options{May: func(access.Principal, string) bool { return true }, Log: slog.New(slog.DiscardHandler), AwaySince: func() time.Time { return since }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	pages := d.Handler(said(nil))
	site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Principal{Name: "anna", Role: access.Viewer})))
	})
	w := ask(site, "GET", "/accounts")
	if w.Code != 503 || w.Header().Get("Refresh") != "5" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	for _, want := range []string{"since 2026-11-22 12:00:05 UTC", "This page loads again by itself."} {
		if got := words(site, "/accounts"); !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
}

func TestOverviewTellsWhatIsKnown(t *testing.T) {
	concerns := `{"healthy":false,"concerns":[{"code":"webhook_disabled","level":"bad","subject":"<crm>","messages":12,"seconds":1200,"link":"/delivery","text":"…"},
		{"code":"overdue","level":"warn","accounts":1,"seconds":75,"link":"/","text":"…"},{"code":"of_tomorrow","level":"note","link":"https://evil.example/","text":"something <new>"}]}`
	site := newSite(t, said(map[string]string{"/v1/stats": someStats, "/v1/history": someHistory, "/v1/concerns": concerns,
		"/v1/problems": `{"at":"2026-11-22T12:00:00Z","accounts":2914}`,
		"/v1/law":      `{"state":"kept","every_seconds":600,"last":{"at":"2026-11-22T11:57:00Z","accounts":1000000,"kinds":[]}}`}))
	for _, c := range []struct {
		language string
		want     []string
	}{
		{"en", []string{
			"1,000,000 registered accounts, parked ones included, each in exactly one place. 0 lost, 0 doubled.", "every 10 min",
			"urgent Webhook &lt;crm&gt; is disabled: 12 messages wait, the oldest for 20 min.", "warning 1 account is overdue, the longest for 1 min 15 s.", "Silence Replicas", "note Something &lt;new&gt;.",
			"checks a second 16,500 1,120 of 4,096 in flight · 18,002 held", "messages a second 2 1,204 kept", "failing checks 0.31 % 2,914 accounts fail or are parked for it as of 2026-11-22 12:00:00 UTC", "lateness p50 · p99 34 ms · 88 ms staleness p99 1 min 31 s",
			"overdue 1 min 15 s in time again in about 3 min", "least headroom 2 d 23 h wecom-kf · mail 5 d 18 h", "Checks a second now 17,000",
			"scheduled 994,112", "waiting 806 urgent 2 · normal 790 · low 14", "1 poller · 1 monitor · 1 API",
			"in flight held checks/s", "bob0000000 &lt;poll&gt; – 0 silent never", "alice00000 poll-1 v0.3.0 1,120 / 4,096 18,002 5,551 84 ms",
		}},
		{"zh", []string{"1,000,000 个已登记的账号（含停放的），每个恰好在一处。 丢失 0，重复 0。", "紧急 Webhook &lt;crm&gt; 已停用：12 条消息在等待，最久 20 分钟。", "每秒检查 16,500", "挂起 18,002 个"}},
	} {
		got := words(site, "/", "Accept-Language", c.language)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in\n%s", want, got)
			}
		}
		if strings.Contains(got, "%!") || strings.Contains(got, "evil") {
			t.Errorf("got %s", got)
		}
	}
}

func TestOverviewWithoutTheRest(t *testing.T) {
	site := newSite(t, said(map[string]string{"/v1/stats": `{"accounts":{}}`}))
	got := words(site, "/")
	if strings.Contains(got, "held") {
		t.Errorf("nothing is held: %s", got)
	}
	for _, want := range []string{"is not known now", "There are no charts", "checks a second –", "There are no accounts yet.", "No replica is alive", "failing checks –"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if w := ask(newSite(t, said(nil)), "GET", "/"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without stats: %d", w.Code)
	}
	bound := newSite(t, said(map[string]string{"/v1/stats": `{"labels":{"team":"<press>"},"accounts":{"registered":2,"scheduled":2}}`, "/v1/problems": `{"at":"2026-11-22T12:00:00Z","accounts":1}`}))
	if got := words(bound, "/"); !strings.Contains(got, "accounts with team=&lt;press&gt;") || !strings.Contains(got, "1 account fails or is parked for it") || strings.Contains(got, "overdue") || strings.Contains(got, "Replicas") {
		t.Error(got)
	}
	calm := newSite(t, said(map[string]string{"/v1/stats": `{"accounts":{}}`, "/v1/concerns": `{"healthy":true,"concerns":[]}`, "/v1/history": `{"fields":[]}`}))
	if got := words(calm, "/?span=week"); !strings.Contains(got, "Nothing is wrong now.") || !strings.Contains(got, "nothing yet") {
		t.Error(got)
	}
}

// An audit of some minutes ago does not make accounts look lost that were registered since.
func TestTheLawOfAnEarlierAudit(t *testing.T) {
	law := `{"state":"kept","every_seconds":600,"last":{"at":"2026-11-22T11:57:00Z","accounts":6,"shards_audited":4,"shards":4}}`
	for registered, want := range map[int]string{
		10: "The last audit found 6 registered accounts, parked ones included, each in exactly one place. 0 lost, 0 doubled. 10 accounts are registered now.",
		6:  "The last audit found 6 registered accounts, parked ones included, each in exactly one place. 0 lost, 0 doubled. audited",
	} {
		stats := fmt.Sprintf(`{"accounts":{"registered":%d}}`, registered)
		if got := words(newSite(t, said(map[string]string{"/v1/stats": stats, "/v1/law": law})), "/"); !strings.Contains(got, want) {
			t.Errorf("%d registered: %q is not in\n%.300s", registered, want, got)
		}
	}
}

func TestTheLawInEveryState(t *testing.T) {
	audit := `{"at":"2026-11-22T11:57:00Z","accounts":10,"unjudged":3,"shards_audited":1,"shards":4,"why":"redis","kinds":[{"kind":"lost","found":2},{"kind":"doubled","found":1,"repaired":1},{"kind":"orphan","found":5}]}`
	for state, want := range map[string]string{
		"kept": "10 registered accounts, parked ones included, each in exactly one place. 2 lost, 1 doubled.", "repaired": "the audit repaired what it found", "unjudged": "3 could not be judged",
		"flawed": "5 other findings.", "violated": "The law is broken: 2 accounts are in no place, 1 in several.", "broken": "Redis could not be reached.",
		"old": "too long ago", "first": "1 of 4 shards audited", "never": "There was no audit yet.", "of_tomorrow": "There was no audit yet.",
	} {
		law := fmt.Sprintf(`{"state":%q,"every_seconds":600,"last":%s,"running":%[2]s,"broken":%[2]s}`, state, audit)
		got := words(newSite(t, said(map[string]string{"/v1/stats": `{"accounts":{}}`, "/v1/law": law})), "/")
		if !strings.Contains(got, want) || strings.Contains(got, "law.") {
			t.Errorf("%s: %q is not in\n%.300s", state, want, got)
		}
	}
}

func TestConcernsAreSaidInEveryLanguage(t *testing.T) {
	languages, err := newLanguages(assets)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range languages {
		for _, code := range append(concern.Codes(), "of_a_later_version") {
			c := &api.Concern{Code: code, Subject: "<x>", Count: 3, Accounts: 2, Messages: 2, Seconds: -61, Share: 0.5, Value: "&v", PerMinute: 4, Text: "<later>"}
			if got := string(l.concern(c)); strings.Contains(got, "%!") || strings.Contains(got, "<x>") || strings.Contains(got, "&v") || strings.Contains(got, "<later>") || got == "" {
				t.Errorf("%s, %s: %s", l.Tag, code, got)
			}
		}
	}
	c := &api.Concern{Code: concern.DeadLetters, Messages: 1200, Seconds: 7500}
	for i, want := range []string{"1,200 messages could not be delivered (dead letters), the oldest 2 h 5 min old.", "有 1,200 条消息无法处理（死信），最早的已有 2 小时 5 分钟。"} {
		if got := string(languages[i].concern(c)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestPathsOfCharts(t *testing.T) {
	var values api.Values
	if err := json.Unmarshal([]byte(`[null,0,10,null,5,null]`), &values); err != nil {
		t.Fatal(err)
	}
	if got, want := curvePath(values, 10, false), "M120.0 100.0L240.0 0.0M480.0 50.0h1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := curvePath(values, 10, true), "M120.0 100.0L240.0 0.0L240.0 100L120.0 100ZM480.0 50.0h1L480.0 100L480.0 100Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if curvePath(nil, 1, true) != "" || curvePath([]float64{math.NaN()}, 1, false) != "" {
		t.Error("something is drawn of nothing")
	}
	for v, want := range map[float64]float64{0: 1, -1: 1, 0.00012: 0.00015, 7: 8, 9: 10, 10: 10, 16648: 20000} {
		if got := rounded(v); math.Abs(got-want) > want*1e-9 {
			t.Errorf("%v is rounded to %v, want %v", v, got, want)
		}
	}
}

func TestTheBarShowsEveryPlace(t *testing.T) {
	o := &overview{}
	o.Stats.Accounts.Scheduled, o.Stats.Accounts.Claimed, o.Stats.Accounts.Parked = 1_000_000, 1, 500_000
	if got := fmt.Sprint(o.Bar()); got != "[{scheduled 0 659} {claimed 659 8} {parked 667 333}]" {
		t.Error(got)
	}
	o.Stats.Accounts.Scheduled, o.Stats.Accounts.Waiting, o.Stats.Accounts.Claimed, o.Stats.Accounts.Parked = 1, 1_000_000, 1, 0
	if got := fmt.Sprint(o.Bar()); got != "[{scheduled 0 8} {waiting 8 984} {claimed 992 8}]" {
		t.Error(got)
	}
	o.Stats.Accounts.Parked = 2_000_000_000
	if got := fmt.Sprint(o.Bar()); got != "[{scheduled 0 8} {waiting 8 8} {claimed 16 8} {parked 24 976}]" {
		t.Error(got)
	}
	if got := (&overview{}).Bar(); len(got) != 0 {
		t.Error(got)
	}
}
