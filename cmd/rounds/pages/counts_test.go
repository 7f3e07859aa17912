package pages

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// A shownTwice is a number that stands in several places. Each place is a page, and a pattern whose
// group finds the number there.
type shownTwice struct {
	name   string
	places [][2]string
}

// numbersShownTwice returns the numbers that more than one place shows.
func numbersShownTwice() []shownTwice {
	inMenu := func(page, entry string) [2]string {
		return [2]string{page, `<span>` + entry + `</span><span class="count(?: bad)?">([\d,]+)<`}
	}
	chip := func(state string) [2]string { return [2]string{"/problems", `>` + state + ` ([\d,]+)</a>`} }
	return []shownTwice{
		{"problems", [][2]string{
			inMenu("/", "Problems"), inMenu("/problems", "Problems"), inMenu("/accounts", "Problems"),
			{"/", `<a href="/problems">([\d,]+) accounts fail or are parked for it</a>`}, chip("all"),
		}},
		{"time of the problems", [][2]string{
			{"/", `parked for it</a> as of <time datetime="([^"]+)"`}, {"/problems", `as of <time datetime="([^"]+)"`},
		}},
		{"accounts", [][2]string{
			inMenu("/", "Accounts"), inMenu("/accounts", "Accounts"), inMenu("/problems", "Accounts"),
			{"/", `Where they are <small>([\d,]+) accounts`}, {"/", `found ([\d,]+) registered accounts, parked ones included`}, {"/accounts", `<h1>Accounts <small>([\d,]+)<`},
		}},
		{"processes", [][2]string{
			{"/", ` · ([\d,]+) process`}, {"/problems", ` · ([\d,]+) process`}, {"/accounts", ` · ([\d,]+) process`},
		}},
	}
}

// differing returns the places of a number that show another one than the first place does.
func (n *shownTwice) differing(site http.Handler) (found []string) {
	first := ""
	for i, place := range n.places {
		body := html.UnescapeString(strings.Join(strings.Fields(ask(site, "GET", place[0]).Body.String()), " "))
		match := regexp.MustCompile(place[1]).FindStringSubmatch(body)
		switch {
		case match == nil:
			found = append(found, fmt.Sprintf("%s does not show %s", place[0], place[1]))
		case i == 0:
			first = match[1]
		case match[1] != first:
			found = append(found, fmt.Sprintf("%s shows %s, %s shows %s", n.places[0][0], first, place[0], match[1]))
		}
	}
	return found
}

// countedReplies are the answers of the API in one state of the service. The scan of all accounts is
// from another time than the summary of problems.
func countedReplies() map[string]string {
	const counts = `"at":"2026-11-22T14:19:40Z","accounts":9000,"failing":4488,"newly":3,"parked":4512`
	return map[string]string{
		"/v1/stats":    strings.Replace(someStats, `"failing":{"accounts":2914}`, `"failing":{"accounts":2250}`, 1),
		"/v1/problems": `{"now":"2026-11-22T14:20:00Z",` + counts + `,"groups":[]}`,
		"/v1/law":      `{"state":"kept","last":{"at":"2026-11-22T11:57:00Z","accounts":1000000,"kinds":[]}}`,
		"/v1/accounts": `{"accounts":[]}`, "/v1/kinds": `{"kinds":[]}`,
	}
}

func TestANumberIsTheSameWhereverItStands(t *testing.T) {
	site := newSite(t, said(countedReplies()))
	for _, n := range numbersShownTwice() {
		if found := n.differing(site); len(found) > 0 {
			t.Errorf("%s: %s", n.name, strings.Join(found, "; "))
		}
	}
}

// The comparison finds a number that one place has from another summary or another moment.
func TestAWrongNumberIsFound(t *testing.T) {
	for route, c := range map[string]struct{ number, reply string }{
		"/v1/problems?counts=true": {"problems", `{"at":"2026-11-22T14:18:55Z","accounts":8997}`},
		"/v1/law":                  {"accounts", `{"state":"kept","last":{"at":"2026-11-22T11:57:00Z","accounts":999999,"kinds":[]}}`},
	} {
		right := said(countedReplies())
		site := newSite(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RequestURI() == route {
				answering(c.reply)(w, r)
				return
			}
			right(w, r)
		})
		for _, n := range numbersShownTwice() {
			if found := n.differing(site); n.name == c.number && len(found) == 0 {
				t.Errorf("another reply of %s: found %q", route, found)
			}
		}
	}
}
