package pages

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

const someProblems = `{"now":"2026-11-22T14:20:00Z","at":"2026-11-22T14:19:40Z","failing":12,"newly":3,"never_succeeded":1,"parked":2,"at_rest":4,"left_out":9,
"groups":[{"accounts":11,"failing":11,"newly":3,"kind":"feed","hosts":41,"cause":"http_404~1b2c3d4e","code":"http_404","text":"<script>alert(1)</script>",
"oldest":"2026-11-22T13:00:00Z","newest":"2026-11-22T14:00:00Z","examples":["a/<b>","..","c"],
"next":[{"code":"backs_off","accounts":1,"first":"2026-11-22T15:00:00Z","last":"2026-11-22T15:10:00Z","most_seconds":3600},{"code":"checked","accounts":2,"first":"2026-11-22T14:00:00Z"},{"code":"parks","after":16,"least":3,"worst":5},{"code":"parks","after":3,"over_seconds":600}],
"select":{"kind":["feed"],"cause":["http_404~1b2c3d4e"],"except_host":["a.example","b.example"]}},
{"accounts":2,"parked":2,"never_succeeded":2,"kind":"","host":"x","hosts":1,"cause":"auth~5e6f7a8b","code":"auth","text":"","oldest":"2026-11-20T13:00:00Z","newest":"2026-11-20T13:00:00Z","examples":[],
"next":[{"code":"probed","first":"2026-11-22T14:00:00Z"},{"code":"another"}]}],
"other":{"groups":5,"accounts":70},"late":{"at":"2026-11-22T14:00:00Z","accounts":6,"missed_slots_max":8,"example":"slow","kinds":[{"kind":"feed","accounts":6}]}}`

func TestProblemsShowsGroupsAndWhatCanBeDone(t *testing.T) {
	var asked string
	site := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/problems") && !r.URL.Query().Has("counts") { // the menu asks for counts
			asked = r.URL.RawQuery
		}
		answering(someProblems)(w, r)
	})
	w := ask(site, "GET", "/problems?state=newly&kind=feed")
	body := regexp.MustCompile(`\s+`).ReplaceAllString(w.Body.String(), " ")
	if w.Code != 200 || asked != "kind=feed&state=newly" {
		t.Fatalf("%d, asked %q", w.Code, asked)
	}
	for _, want := range []string{
		"&lt;script&gt;alert(1)&lt;/script&gt;", "41 hosts", `aria-current="true">newly failing 3<`, `href="/problems?kind=feed" aria-current`, "3 newly failing",
		"backs off, up to 1 h", "parks after 16 failures in a row; at 3 to 5 now", "parks after 3 refusals over at least 10 min", "is tried again soon", "unreadable records",
		"About 9 more accounts", "5 further groups have 70 accounts", "4 parked accounts are no problem", `href="/account?id=a%2F%3Cb%3E"`,
		`href="/v1/accounts:export?cause=http_404~1b2c3d4e&amp;except_host=a.example&amp;except_host=b.example&amp;kind=feed"`, "Only the kind feed.",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	// Accounts of a group without a selection cannot be selected, and a step that has passed is not
	// shown.
	if strings.Count(body, "accounts:export") != 1 || strings.Contains(body, "<script>alert") || strings.Contains(body, "is checked again") {
		t.Errorf("too much in\n%s", body)
	}
	if body := ask(site, "GET", "/problems?state=late").Body.String(); !strings.Contains(body, `href="/account?id=slow"`) || strings.Contains(body, "http_404") {
		t.Errorf("late:\n%s", body)
	}
	if body := ask(site, "GET", "/problems?state=asleep").Body.String(); !strings.Contains(body, "http_404") || asked != "" {
		t.Errorf("an unknown state: asked %q", asked)
	}
}

func TestProblemsSaysWhyItShowsNone(t *testing.T) {
	for want, reply := range map[string]string{
		"No monitor has looked at the accounts yet": `{"now":"2026-11-22T14:20:00Z","groups":[]}`,
		"No monitor has summed up for more than":    `{"now":"2026-11-22T14:20:00Z","at":"2026-11-22T14:00:00Z","groups":[]}`,
		"No account fails, and none is parked":      `{"now":"2026-11-22T14:20:00Z","at":"2026-11-22T14:19:59Z","groups":[]}`,
	} {
		if body := ask(newSite(t, answering(reply)), "GET", "/problems").Body.String(); !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
}

// What is parked is revived by a job, as other changes of many accounts.
func TestParkedGroupIsRevivedByAJob(t *testing.T) {
	site := newSite(t, answering(`{"now":"2026-11-22T14:20:00Z","at":"2026-11-22T14:19:59Z","parked":2,"groups":[{"accounts":2,"parked":2,"kind":"feed","hosts":1,"cause":"auth~5e6f7a8b","code":"auth",
"oldest":"2026-11-20T13:00:00Z","newest":"2026-11-20T13:00:00Z","examples":["a","b"],"next":[],"select":{"kind":["feed"],"cause":["auth~5e6f7a8b"]}}]}`))
	if body := ask(site, "GET", "/problems").Body.String(); !strings.Contains(body, `href="/accounts/bulk?cause=auth~5e6f7a8b&amp;do=retry&amp;kind=feed">Revive…</a>`) {
		t.Error(body)
	}
}
