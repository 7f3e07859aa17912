package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/testing/browser/scene"
	"github.com/rounds-dev/rounds/testing/processes"
)

// hands do what a person with all rights does on the pages, with the mouse and the keys of
// one tab. What came of it is asked of the API.
type hands struct {
	*world
	t   *testing.T
	tab *Tab
}

// many are the accounts that are changed together.
var many = []string{"many-1", "many-2", "many-3", "many-4", "many-5", "many-6"}

// prepare registers the accounts that the hands work with.
func (w *world) prepare(t *testing.T) {
	t.Helper()
	w.says("tail")
	w.scene.Third.Say("gone", scene.Answer{Status: http.StatusGone, Type: "text/plain", Body: "gone"})
	w.scene.Third.Say("many", scene.Answer{Status: http.StatusOK, Type: "application/rss+xml", Body: emptyFeed})
	register := func(id, kind, url string) {
		_, err := w.scene.Calls.Add(t.Context(), accounts.Account{ID: id, Kind: kind, Cadence: "every 1h", Config: fmt.Appendf(nil, `{"url":%q}`, url)}, "")
		if err != nil {
			t.Fatal(err)
		}
	}
	register("hand-tail", "http", "http://crm.example/said/tail")
	register("hand-gone", "feed", "http://gone.example/said/gone")
	for _, id := range many {
		register(id, "feed", "http://many.example/said/many")
	}
}

const emptyFeed = `<rss version="2.0"><channel><title>nothing</title></channel></rss>`

// says has the connector /said/NAME answer with messages that have these ids and are as new as
// the answer. An id that begins with old- is an hour old.
func (w *world) says(name string, ids ...string) {
	messages := []map[string]any{}
	for _, id := range ids {
		at := time.Now().Add(time.Minute)
		if strings.HasPrefix(id, "old-") {
			at = at.Add(-time.Hour)
		}
		messages = append(messages, map[string]any{"id": id, "type": "text", "time": at.UTC().Format(time.RFC3339), "data": map[string]string{"text": id}})
	}
	body, _ := json.Marshal(map[string]any{"messages": messages, "next_cursor": strings.Join(ids, ","), "has_more": false}) // maps of texts can be encoded
	w.scene.Third.Say(name, scene.Answer{Status: http.StatusOK, Type: "application/json", Body: string(body)})
}

// hands signs in and returns the hands.
func (w *world) hands(t *testing.T) *hands {
	t.Helper()
	h := &hands{world: w, t: t, tab: open(t, w.browser, w.scene.URL)}
	w.signIn(t, h.tab, scene.Token)
	return h
}

// testActions does what the dashboard offers, and asks the API what came of it.
func (h *hands) testActions(t *testing.T) {
	for _, part := range []struct {
		name string
		do   func()
	}{
		{"keys", h.keys}, {"one account", h.one}, {"edit", h.edit}, {"many accounts", h.many}, {"moving", h.moving},
		{"messages", h.messages}, {"webhook", h.webhook}, {"dead letters", h.letters}, {"audit", h.audit},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			h.t = t
			part.do()
			sound(t, h.tab)
		}) {
			return // the others begin where it should have ended
		}
	}
}

func (h *hands) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *hands) open(path string)      { h.t.Helper(); h.must(h.tab.Go(path)) }
func (h *hands) click(selector string) { h.t.Helper(); h.must(h.tab.click(selector)) }

// goes clicks on what leads to a page at a path.
func (h *hands) goes(selector, path string) {
	h.t.Helper()
	h.must(h.tab.clickTo(selector))
	if at := h.shows(`location.pathname`); at != path {
		h.t.Fatalf("a click on %s leads to %s, want %s:\n%.600s", selector, at, path, h.shows(`document.body.innerText`))
	}
}

// writes clicks into a field and types what it holds from then on.
func (h *hands) writes(selector, text string) {
	h.t.Helper()
	h.click(selector)
	h.must(h.tab.selectAll())
	h.must(h.tab.Type(text))
}

// shows returns the value of an expression in the page as a text.
func (h *hands) shows(expression string) string {
	h.t.Helper()
	text, err := eval[string](h.tab, "String("+expression+")")
	h.must(err)
	return text
}

// reads fails the test unless the page has a text in what a selector finds.
func (h *hands) reads(selector, text string) {
	h.t.Helper()
	if found := h.shows(`document.querySelector(` + quoted(selector) + `)?.innerText`); !strings.Contains(found, text) {
		h.t.Errorf("%s shows %.300q, want %q", selector, found, text)
	}
}

// named has axe-core look for controls without a name on a page that nothing else visits.
func (h *hands) named() {
	h.t.Helper()
	h.must(h.tab.Inspect(Names))
	sound(h.t, h.tab)
}

// until waits for what the API tells.
func (h *hands) until(what string, so func() bool) {
	h.t.Helper()
	if err := h.scene.Await(h.t.Context(), so); err != nil {
		h.t.Fatalf("%s: %v, and the page shows\n%.800s", what, err, h.shows(`document.body.innerText`))
	}
}

func (h *hands) account(id string) api.Account {
	h.t.Helper()
	a, err := h.scene.Calls.Get(h.t.Context(), id)
	h.must(err)
	return a
}

// exists reports whether an account is registered.
func (h *hands) exists(id string) bool {
	h.t.Helper()
	status, text := processes.Get(h.t, h.scene.URL+"/v1/accounts/"+id, scene.Token)
	if status != http.StatusOK && status != http.StatusNotFound {
		h.t.Fatalf("%s: %d %s", id, status, text)
	}
	return status == http.StatusOK
}

// found returns the ids of an account's messages, the newest first.
func (h *hands) found(account string) []string {
	h.t.Helper()
	var page struct{ Messages []struct{ ID string } }
	h.read("/v1/messages?before=now&account="+account, &page)
	var ids []string
	for _, m := range page.Messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// finds waits until an account has a message.
func (h *hands) finds(account, id string) {
	h.t.Helper()
	h.until(account+" finds "+id, func() bool { return slices.Contains(h.found(account), id) })
}

// read gets a path of the API.
func (h *hands) read(path string, into any) {
	h.t.Helper()
	status, text := processes.Get(h.t, h.scene.URL+path, scene.Token)
	if err := json.NewDecoder(bytes.NewBufferString(text)).Decode(into); err != nil || status != http.StatusOK {
		h.t.Fatalf("%s: %d %.200s, %v", path, status, text, err)
	}
}

// keys searches with a key, opens the list of keys, goes to a page by two keys, and switches
// the language.
func (h *hands) keys() {
	h.open("/accounts")
	h.must(h.tab.stroke("/"))
	h.must(h.tab.Type("many-3"))
	h.must(h.tab.typeTo("\r"))
	if at := h.shows(`location.pathname + location.search`); at != "/account?id=many-3" {
		h.t.Errorf("a search for many-3 leads to %s", at)
	}
	h.must(h.tab.stroke("?"))
	if h.shows(`document.getElementById("keys").open`) != "true" {
		h.t.Error("? does not open the list of keys")
	}
	h.must(h.tab.Type("\x1b"))
	if h.shows(`document.getElementById("keys").open`) != "false" {
		h.t.Error("Esc does not close the list of keys")
	}
	h.must(h.tab.typeTo("gp"))
	if at := h.shows(`location.pathname`); at != "/problems" {
		h.t.Errorf("g and p lead to %s", at)
	}
	language := `document.documentElement.lang`
	h.goes(`.foot a[hreflang^=zh]`, "/problems")
	h.goes(`nav a[href="/trail"], nav a[href="/system"]`, "/system")
	if l := h.shows(language); !strings.HasPrefix(l, "zh") {
		h.t.Errorf("after a switch to Chinese the next page is in %s", l)
	}
	h.goes(`.foot a[hreflang="en"]`, "/system")
	if l := h.shows(language); l != "en" {
		h.t.Errorf("after a switch back to English the page is in %s", l)
	}
	// What a live block replaces in the middle of a click must not swallow it.
	h.open("/delivery")
	h.must(h.tab.await(`window.__looked > 0`))
	release, err := h.tab.press(`#live-menu a[href="/accounts"]`)
	h.must(err)
	_, err = h.scene.Calls.Add(h.t.Context(), accounts.Account{ID: "hand-more", Kind: "feed", Cadence: "every 1h", Config: []byte(`{"url":"http://many.example/said/many"}`)}, "")
	h.must(err)
	h.must(h.tab.await(`window.__looked > 1`))
	h.must(release())
	if at := h.shows(`location.pathname`); at != "/accounts" {
		h.t.Errorf("a slow click on Accounts leads to %s", at)
	}
}
