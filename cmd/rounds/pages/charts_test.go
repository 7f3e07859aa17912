package pages

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

const someActivity = `{"now":"2026-01-02T12:00:30Z","from":"2026-01-02T11:58:00Z","step_seconds":60,"points":2,
"whole":{"checks":[10,null],"failures":[1,null],"messages":[3,null],"lateness_seconds":[0.5,null],"lateness_most_seconds":[700,null],"duration_seconds":[0.1,null],"duration_most_seconds":[9,null]},
"kinds":[{"name":"feed","checks":10,"failures":1,"curve":[10,0]}],"hosts":[{"name":"news.example.org","checks":8,"curve":[8,0]}],"labels":[{"name":"team=press","checks":2,"curve":[2,0]}],
"noisiest":[{"name":"loud <&>","checks":4,"messages":3,"curve":[4,0]}],"slowest":[{"name":"slow","checks":1,"duration_most_seconds":9,"curve":[1,0]}],
"shards":[{"first":0,"last":1,"lateness_seconds":[0.5,null],"lateness_most_seconds":[700,null]},{"first":2,"last":3,"lateness_seconds":[900,900],"lateness_most_seconds":[901,900]}],
"marks":[{"at":"2026-01-02T11:58:30Z","what":"death","subject":"alice00000"}]}`

func TestChartsLeadToWhoeverIsNoisy(t *testing.T) {
	t.Parallel()
	replies, asked := everything(), ""
	replies["/v1/activity"] = someActivity
	site := adminsSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/activity" {
			asked = r.URL.RawQuery
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, replies[r.URL.Path])
	})
	page := ask(site, "GET", "/charts?figure=messages&of=host:news.example.org").Body.String()
	for _, want := range []string{
		`<form method="post" action="/account/pause"><button name="id" value="loud &lt;&amp;&gt;" aria-label="Pause loud &lt;&amp;&gt;">`,
		`href="/account?id=loud&#43;%3C%26%3E"`, `href="/accounts?host=news.example.org"`, `href="/accounts?label=team%3Dpress"`,
		`class="heat0" d="M0 0h1v1h-1z"`, `class="heat4" d="M0 1h2v1h-2z"`, `<path class="mark death" d="M150.0 0V100">`,
		`from=2026-01-02T11%3A59%3A00Z`, `<bdi class="mono">host:news.example.org</bdi>`, `went silent`,
	} {
		if !strings.Contains(strings.ReplaceAll(page, `"/>`, `">`), want) {
			t.Errorf("%s is not in the page", want)
		}
	}
	if !strings.Contains(asked, "figure=messages") || !strings.Contains(asked, "of=host%3Anews.example.org") || !strings.Contains(asked, "from=1h") {
		t.Errorf("asked for %s", asked)
	}
	if found := misplaced(page); len(found) > 0 {
		t.Error(found)
	}
	ask(site, "GET", "/charts?from=2026-01-02T11:58:00Z&to=2026-01-02T11:59:00Z")
	if !strings.Contains(asked, "from=2026-01-02T11%3A58%3A00Z&to=2026-01-02T11%3A59%3A00Z") && !strings.Contains(asked, "to=2026-01-02T11%3A59%3A00Z") {
		t.Errorf("asked for %s", asked)
	}
}

func TestChartsOfATimeNobodyKnows(t *testing.T) {
	t.Parallel()
	site := adminsSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/activity" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"status":422,"detail":"x","errors":[{"location":"query.from","message":"must be before to"}]}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, everything()[r.URL.Path])
	})
	if reply := ask(site, "GET", "/charts?from=x"); reply.Code != http.StatusOK || !strings.Contains(reply.Body.String(), "Nothing is known of this time") {
		t.Errorf("%d %s", reply.Code, reply.Body)
	}
}

// A moment leads to the accounts that have failed since, and to the messages that were found in it.
func TestAMomentLeadsToItsLists(t *testing.T) {
	t.Parallel()
	replies := everything()
	replies["/v1/activity"], replies["/v1/problems"] = someActivity, `{"now":"2026-01-02T12:00:30Z"}`
	site := adminsSite(t, said(replies))
	page := ask(site, "GET", "/charts?from=2026-01-02T11:58:00Z&to=2026-01-02T12:00:00Z").Body.String()
	const in = "?from=2026-01-02T11%3A58%3A00Z&amp;to=2026-01-02T12%3A00%3A00Z"
	for _, want := range []string{`href="/charts/failing` + in, `href="/messages` + in} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not in the page", want)
		}
	}
	if strings.Contains(ask(site, "GET", "/charts").Body.String(), "/charts/failing") {
		t.Error("nobody has chosen a moment")
	}
	for query, want := range map[string]string{
		"?from=2026-01-02T11:58:00Z&to=2026-01-02T12:00:00Z": "/accounts?since=30s&state=failing&until=2m30s",
		"?from=2026-01-02T12:00:00Z&to=2026-01-02T12:01:00Z": "/accounts?state=failing&until=30s",
		"?from=2026-01-02T12:05:00Z&to=2026-01-02T12:06:00Z": "/accounts?state=failing&until=1s",
		"?from=1h&to=2026-01-02T12:06:00Z":                   "",
	} {
		if got := ask(site, "GET", "/charts/failing"+query); got.Header().Get("Location") != want {
			t.Errorf("%s leads to %d %q, want %q", query, got.Code, got.Header().Get("Location"), want)
		}
	}
}
