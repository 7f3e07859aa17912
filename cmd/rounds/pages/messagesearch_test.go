package pages

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// A search finds its messages without JavaScript, over several pages if it must look far.
func TestMessagesAreSearched(t *testing.T) {
	var asked []url.Values
	site := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/messages" {
			t.Error("a search follows the messages")
		}
		if r.URL.Path != "/v1/messages:search" {
			answering(`{}`)(w, r)
			return
		}
		asked = append(asked, r.URL.Query())
		messages, next := strings.TrimSuffix(strings.Repeat(someMessage+",", 2*(len(asked)%2)), ","), fmt.Sprintf(`,"next":"N%d"`, len(asked))
		if len(asked) == 3 {
			next = ""
		}
		_, _ = fmt.Fprintf(w, `{"messages":[%s],"looked":4000,"of":12000,"reached":"2026-11-22T14:20:00Z"%s}`, messages, next)
	})
	const form = "/messages?text=%22%3E%3Cscript%3E&sender=ann&type=x&kind=&from=24h&to=1h"
	path, pages, rest := form, 0, ""
	for ; path != ""; pages++ {
		body := ask(site, "GET", path).Body.String()
		if want := fmt.Sprintf("Looked at %d,000 of 12,000", 4*(pages+1)); !strings.Contains(body, want) || !strings.Contains(body, `value="&#34;&gt;&lt;script&gt;"`) {
			t.Fatalf("no %q in\n%s", want, body)
		}
		for _, bad := range []string{"<script>alert", `"><script>`, "<img", "data-after", `id="tail"`} {
			if strings.Contains(body, bad) {
				t.Errorf("%q in\n%s", bad, body)
			}
		}
		found := strings.Count(body, `href="/message?at=3%3A1795226313819-0"`)
		if want := 2 * (len(asked) % 2); found != want || strings.Contains(body, `id="none">None of those`) == (pages != 1) {
			t.Errorf("page %d has %d messages\n%s", pages, found, body)
		}
		if path = ""; pages < 2 {
			path = html.UnescapeString(regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(body)[1])
		} else if strings.Contains(body, `rel="next"`) || strings.Contains(body, "data-more") {
			t.Errorf("it goes on at the end\n%s", body)
		}
		if pages == 0 {
			rest = html.UnescapeString(regexp.MustCompile(`data-more="([^"]*)"`).FindStringSubmatch(body)[1])
		}
	}
	for i, before := range []string{"", "N1", "N2"} {
		q := asked[i]
		if q.Get("text") != `"><script>` || q.Get("sender") != "ann" || q.Get("type") != "x" || q.Has("kind") || q.Get("from") != "24h" || q.Get("to") != "1h" ||
			q.Get("before") != before || q.Get("limit") != "50" || q.Get("wait") == "" || q.Has("looked") {
			t.Errorf("asked %v", q)
		}
	}
	if body := ask(site, "GET", rest).Body.String(); asked[3].Get("limit") != "48" || asked[3].Get("before") != "N1" || !strings.Contains(body, "Looked at 8,000") {
		t.Errorf("the rest of the page: %v\n%s", asked[3], body)
	}
}

// A key with labels is not told how many messages there are.
func TestASearchWithinLabelsSaysNoCounts(t *testing.T) {
	site := newSite(t, answering(`{"messages":[],"reached":"2026-11-22T14:20:00Z","next":"N"}`))
	body := ask(site, "GET", "/messages?text=x&looked=7").Body.String()
	if !strings.Contains(body, "A part of the stored messages") || strings.Contains(body, "Looked at") || !strings.Contains(body, "data-more") {
		t.Errorf("%s", body)
	}
	site = newSite(t, answering(`{"messages":[]}`))
	body = ask(site, "GET", "/messages?text=x").Body.String()
	if !strings.Contains(body, "No message matches") || strings.Contains(body, "looked at") || strings.Contains(body, "data-more") {
		t.Errorf("%s", body)
	}
}

// What is wrong with a search is said beside its form, which keeps what was typed.
func TestAWrongSearchKeepsItsForm(t *testing.T) {
	site := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/messages:search" {
			answering(`{}`)(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"status":422,"detail":"validation failed","errors":[{"location":"query.from","message":"must be <b>","value":"yesterday"}]}`)
	})
	body := ask(site, "GET", "/messages?text=x&from=yesterday").Body.String()
	for _, want := range []string{`role="alert"`, "query.from", "must be &lt;b&gt;", `value="yesterday"`, `value="x"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(body, `id="rows"`) {
		t.Errorf("it shows messages\n%s", body)
	}
}
