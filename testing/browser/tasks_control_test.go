package browser

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/browser/scene"
)

// testTasksControls shows that a person finds what is missing from a page, and what only the mouse reaches.
func testTasksControls(t *testing.T, b *Browser) {
	const patience = 300 * time.Millisecond
	page := func(body string) string {
		return `<!doctype html><html lang="en"><head><title>Control</title><meta name="viewport" content="width=device-width"></head><body><a class="skip" href="#main">Skip</a><main id="main" tabindex="-1">` + body + `</main></body></html>`
	}
	for _, test := range []struct {
		name, body  string
		mouse, keys string // what is said of it; empty: the task is done
	}{
		{"a link", `<a id="go" href="/there">Go</a>`, "", ""},
		{"a link behind others", strings.Repeat(`<a href="/elsewhere">Other</a> `, mostMoves+1) + `<p><a id="go" href="/there">Go</a>`, "", "the focus is not there"},
		{"no link", `<a href="/there">Go</a>`, "look: not within", "look: not within"},
		{"a hidden link", `<a id="go" href="/there" hidden>Go</a>`, "look: not within", "look: not within"},
		{"a link that leads elsewhere", `<a id="go" href="/elsewhere">Go</a>`, "look: not within", "look: not within"},
		{"a link that is covered", `<div style="position: relative"><a id="go" href="/there">Go</a><div style="position: absolute; inset: 0"></div></div>`, "it is under", ""},
		{"a link for the mouse alone", `<span id="go" onclick="location = '/there'">Go</span>`, "", "the focus is not there"},
		{"a link out of reach", `<a id="go" href="/there" tabindex="-1">Go</a>`, "", "the focus is not there"},
		{"a link without a sign of the focus", `<style>a:focus { outline: none }</style><a id="go" href="/there">Go</a>`, "", "does not show it"},
	} {
		tab := open(t, b, serve(t, func(r *http.Request) string {
			if r.URL.Path == "/there" {
				return page("there")
			}
			return page(test.body)
		}))
		for _, keys := range []bool{false, true} {
			p := &person{tab: tab, keys: keys, patience: patience}
			try(t, func() error { return tab.Go("/") })
			p.choose("#go")
			p.at("/there")
			want := test.mouse
			if keys {
				want = test.keys
			}
			switch {
			case want == "" && p.err != nil:
				t.Errorf("%s, by keys %t: %.300v", test.name, keys, p.err)
			case want != "" && (p.err == nil || !strings.Contains(p.err.Error(), want)):
				t.Errorf("%s, by keys %t: %.300v, want %q", test.name, keys, p.err, want)
			}
			if p.actions > 1 || want == "" && p.actions != 1 {
				t.Errorf("%s, by keys %t: %d actions", test.name, keys, p.actions)
			}
		}
		tab.Close()
	}
}

// testMissingLink removes a link from the page of an account: the task that needs it must fail.
func (o *office) testMissingLink(t *testing.T) {
	tab := open(t, o.browser, o.scene.URL)
	signIn(t, tab, scene.Token)
	for _, broken := range []bool{false, true} {
		if broken {
			try(t, func() error {
				return tab.onEveryPage(`new MutationObserver(() => document.querySelector('#live-messages a[href^="/messages?account="]')?.remove()).observe(document, { childList: true, subtree: true })`)
			})
		}
		s := &shift{T: t, office: o, person: &person{tab: tab, patience: time.Second}}
		s.messagesOfOne()
		if (s.err != nil) != broken || (s.took == 0) != broken {
			t.Errorf("the link is removed: %t, and the task says %.300v after %v", broken, s.err, s.took)
		}
	}
}
