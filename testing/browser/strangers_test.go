package browser

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/testing/browser/scene"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// strangers is a service in which every field that a stranger fills has every payload.
type strangers struct {
	beacon string            // another origin
	ids    []string          // of the accounts
	wanted map[string]string // each payload's word that was not shown yet to its field
	pages  []scene.Page
}

// plant registers accounts with every payload as id, label and address, whose third
// parties answer with payloads, and a process that reports payloads about itself.
func (w *world) plant(t *testing.T) *strangers {
	t.Helper()
	s := &strangers{beacon: "http://elsewhere.example", wanted: make(map[string]string)}
	text := func(field string, i int) string {
		filled, mark := payloads[i].of(field, i, s.beacon)
		s.wanted[mark] = field
		return filled
	}
	var titles feedOf
	var messages []map[string]any
	for i := range payloads {
		said := fmt.Sprintf("stranger-%d", i)
		w.scene.Third.Say(said, scene.Answer{Status: http.StatusOK, Type: "application/json", Body: encoded(t, map[string]any{
			"error": map[string]string{"kind": "gone", "code": "gone", "message": text("Error", i)},
		})})
		address, _ := payloads[i].of("Address", i, s.beacon)
		a := accounts.Account{
			ID: text("Id", i), Kind: "http", Cadence: "every 5s", Labels: map[string]string{text("Label", i): text("Value", i)},
			Config: []byte(encoded(t, map[string]string{"url": "http://crm.example/said/" + said + "?" + strings.ReplaceAll(address, " ", "+")})),
		}
		_, err := w.scene.Calls.Add(t.Context(), a, "")
		if err == nil {
			text("Address", i)
		} else { // it cannot be an address
			a.Config = fmt.Appendf(nil, `{"url":"http://crm.example/said/%s"}`, said)
			_, err = w.scene.Calls.Add(t.Context(), a, "")
		}
		if err != nil {
			t.Fatalf("%s: %v", payloads[i].name, err)
		}
		s.ids = append(s.ids, a.ID)
		titles.Items = append(titles.Items, itemOf{Title: text("Title", i), Link: payloads[i].link(i, s.beacon), GUID: fmt.Sprint("stranger/", i)})
		messages = append(messages, map[string]any{
			"id": text("Message", i), "type": text("Type", i), "time": time.Now().UTC().Format(time.RFC3339),
			"data": map[string]any{text("Name", i): text("Data", i)},
		})
	}
	rss, err := xml.Marshal(titles)
	if err != nil {
		t.Fatal(err)
	}
	w.scene.Third.Say("titles", scene.Answer{Status: http.StatusOK, Type: "application/rss+xml", Body: string(rss)})
	w.scene.Third.Say("messages", scene.Answer{Status: http.StatusOK, Type: "application/json", Body: encoded(t, map[string]any{"messages": messages, "next_cursor": 1, "has_more": false})})
	for id, kind := range map[string]string{"titles": "feed", "messages": "http"} {
		a := accounts.Account{ID: "stranger-" + id, Kind: kind, Cadence: "every 1h", Config: fmt.Appendf(nil, `{"url":"http://crm.example/said/%s"}`, id)}
		if _, err := w.scene.Calls.Add(t.Context(), a, ""); err != nil {
			t.Fatal(err)
		}
		s.ids = append(s.ids, a.ID)
	}
	w.attend(t, text)
	return s
}

// link returns the payload as the link of a feed's entry.
func (p payload) link(i int, beacon string) string {
	address, _ := p.of("Link", i, beacon)
	return address
}

type feedOf struct {
	XMLName xml.Name `xml:"rss"`
	Version string   `xml:"version,attr"`
	Title   string   `xml:"channel>title"`
	Items   []itemOf `xml:"channel>item"`
}

type itemOf struct {
	Title string `xml:"title"`
	Link  string `xml:"link"`
	GUID  string `xml:"guid"`
}

// attend has processes report payloads as their host and version.
func (w *world) attend(t *testing.T, text func(field string, i int) string) {
	t.Helper()
	ring, err := circulate.Open(t.Context(), redistest.Connect(t, w.scene.Server), circulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range payloads {
		about := encoded(t, accounts.ProcessReport{Host: text("Host", i), Version: text("Version", i), Since: time.Now()})
		if _, err := ring.Roster().Attend(t.Context(), circulate.Process{Name: circulate.NewReplica(), Roles: "poller"}, []byte(about)); err != nil {
			t.Fatal(err)
		}
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// testPayloads shows everything that strangers wrote on every page, and as the page's own
// address. Nothing of it may run, load, or become a part of the page, and every field must
// have been shown somewhere.
func (w *world) testPayloads(t *testing.T) {
	s := w.plant(t)
	if err := w.scene.Await(t.Context(), func() bool { return w.parked(t) >= len(payloads) }); err != nil {
		t.Fatalf("the strangers' accounts are not checked: %v", err)
	}
	tab := open(t, w.browser, w.scene.URL)
	w.signIn(t, tab, scene.Token)
	s.pages = scene.Pages(s.ids[0])
	for _, page := range s.pages {
		s.look(t, tab, page.Path, true)
	}
	// Lists show all accounts. These have a page each, some of them a form as well.
	for i, id := range s.ids {
		if i%8 == 1 || i >= len(payloads) {
			s.look(t, tab, "/account?id="+url.QueryEscape(id), i%16 == 1)
		}
		if i%12 == 5 {
			s.look(t, tab, "/account/edit?id="+url.QueryEscape(id), false)
		}
	}
	// The page of all messages shows the latest, and other accounts' have come since.
	for _, id := range s.ids[len(payloads):] {
		s.look(t, tab, "/messages?account="+url.QueryEscape(id), false)
	}
	s.reflect(t, tab)
	// Last, because the index of ids may be a minute old.
	if err := w.scene.Await(t.Context(), func() bool { return w.found(t, "<") }); err != nil {
		t.Fatalf("the strangers' ids are not found: %v", err)
	}
	s.find(t, tab)
	missing := make(map[string]int)
	for _, field := range s.wanted {
		missing[field]++
	}
	for field, n := range missing {
		if n > len(payloads)-8 {
			t.Errorf("%d of %d payloads of the field %s are on no page", n, len(payloads), field)
		}
	}
}

// found tells whether a part of an id finds an account.
func (w *world) found(t *testing.T, part string) bool {
	t.Helper()
	page, err := w.scene.Calls.List(t.Context(), client.Query{Selector: accounts.Selector{Parts: []string{part}}, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Accounts) > 0
}

func (w *world) parked(t *testing.T) int {
	t.Helper()
	stats, err := w.scene.Calls.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stats.Accounts.Parked
}

// look visits a page and judges it, and again after scripts have replaced its live parts.
func (s *strangers) look(t *testing.T, tab *Tab, path string, measured bool) {
	t.Helper()
	try(t, func() error { return tab.Go(path) })
	shown, err := eval[[]string](tab, `[...new Set(document.documentElement.outerHTML.match(/Zq[A-Za-z]+[0-9]{2}/g))]`)
	if err != nil {
		t.Fatal(err)
	}
	for _, mark := range shown {
		delete(s.wanted, mark)
	}
	try(t, tab.Settle)
	if measured {
		try(t, func() error { return tab.Measure(320, 1280) })
	}
	s.judge(t, tab, path)
}

// judge reports what a payload does on the page that the tab shows.
func (s *strangers) judge(t *testing.T, tab *Tab, path string) {
	t.Helper()
	for _, script := range []string{ranScript, straysScript} {
		found, err := eval[[]string](tab, script)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			t.Errorf("%s: %s", path, f)
		}
	}
	sound(t, tab)
}

// find has the finder find the strangers' accounts, and their errors.
func (s *strangers) find(t *testing.T, tab *Tab) {
	t.Helper()
	try(t, func() error { return tab.Go("/") }, func() error { return tab.control('k') })
	for _, text := range []string{"<", `"`, "'", "&", "javascript:", "gone"} {
		try(t,
			func() error { return tab.Fill("#finder-text", text) },
			func() error {
				return tab.await(`[...document.querySelectorAll("#found [role=option]")].some((e) => e.dataset.to === "/accounts?" + new URLSearchParams({ part: ` + quoted(text) + ` }))`)
			})
		if n, err := eval[int](tab, `document.querySelectorAll("#found [data-to^='/account?']").length`); err != nil || text == "<" && n == 0 {
			t.Errorf("the finder finds %d accounts of strangers, %v", n, err)
		}
		s.judge(t, tab, "the finder of "+text)
	}
}

// reflect puts payloads into the parameters of addresses: those that the pages' own forms
// name, and those of the shell. First all have one, then one alone.
func (s *strangers) reflect(t *testing.T, tab *Tab) {
	t.Helper()
	for n, page := range s.pages {
		try(t, func() error { return tab.Go(page.Path) })
		names, err := eval[[]string](tab, `[...document.querySelectorAll("form:not([method=post]) [name]")].map((e) => e.name)`)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, "said", "next", "cursor")
		slices.Sort(names)
		names = slices.Compact(names)
		all := url.Values{}
		for i, name := range names {
			text, _ := payloads[(n*5+i)%len(payloads)].of("Query", i, s.beacon)
			all.Set(name, text)
		}
		one := names[n%len(names)]
		at, _, _ := strings.Cut(page.Path, "?")
		for _, query := range []url.Values{all, {one: all[one]}} {
			for _, status := range []int64{400, 404, 422} { // a refusal is a page as well
				tab.expect(status)
			}
			s.look(t, tab, at+"?"+query.Encode(), false)
		}
	}
}

// testPayloadsWork shows that the checks of testPayloads find each payload that runs or
// loads, on a page that falls for it, and a text that turns others.
func testPayloadsWork(t *testing.T, b *Browser) {
	tab := open(t, b, serve(t, func(r *http.Request) string {
		var i int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &i); err != nil {
			return ""
		}
		text, _ := payloads[i].of("Control", i, "http://elsewhere.example")
		return "<!doctype html><html lang=en><body>" + fmt.Sprintf(cmp.Or(payloads[i].in, inText+"<p>beside <i>%[1]s</i></p>"), text)
	}))
	for i, p := range payloads {
		if p.quiet && p.name != "direction" {
			continue
		}
		if err := tab.Go(fmt.Sprintf("/%d", i)); err != nil {
			continue // the page went elsewhere
		}
		script := ranScript
		if p.quiet {
			script = straysScript
		}
		found, err := eval[[]string](tab, script)
		if err == nil && len(found) == 0 && len(tab.Faults()) == 0 {
			t.Errorf("%s is not found", p.name)
		}
	}
}
