package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/rounds-dev/rounds/testing/browser/scene"
	"github.com/rounds-dev/rounds/testing/processes"
)

// testKeyboard goes the whole way of somebody without a mouse: from the Overview to an
// account that fails, reads why, corrects its address, and sees that it was checked.
func (w *world) testKeyboard(t *testing.T) {
	f := w.failing[1] // a page of HTML where the feed should be
	w.summedUp(t, f.ID)
	tab := open(t, w.browser, w.scene.URL)
	w.signIn(t, tab, scene.Token)
	account := `a[href="/account?id=` + f.ID + `"]`
	step := func(name string, steps ...func() error) {
		t.Helper()
		for _, s := range steps {
			if err := s(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		sound(t, tab)
	}
	press := func(keys string) func() error { return func() error { return tab.Type(keys) } }
	tabTo := func(selector string) func() error { return func() error { return tab.tabTo(selector) } }
	await := func(expression string) func() error { return func() error { return tab.await(expression) } }
	loaded := ` && document.readyState === "complete"`

	step("the Overview", func() error { return tab.Go("/") })
	step("the page of what fails", tabTo(`nav a[href="/problems"]`), press(kb.Enter), await(`location.pathname === "/problems"`+loaded))
	step("the account", tabTo(account), press(kb.Enter), await(`location.pathname === "/account"`+loaded))
	step("why it fails", await(`/not a feed|no feed|HTML/i.test(document.querySelector("main").innerText)`))
	step("its form", tabTo(`main a[href^="/account/edit"]`), press(kb.Enter), await(`location.pathname === "/account/edit"`+loaded))
	step("its address", tabTo(`input[value="`+f.URL+`"]`), tab.selectAll, press(f.Right))
	step("save", press(kb.Enter), await(`location.pathname === "/account"`+loaded))
	step("it is checked", tabTo(`form[action*="/account/"] button, form[action*="nudge"] button`), press(kb.Enter),
		await(`/recovered after/.test(document.querySelector("main").innerText)`))

	got, err := w.scene.Calls.Get(t.Context(), f.ID)
	if err != nil || !strings.Contains(string(got.Config), f.Right) {
		t.Errorf("the account is %+v, %v", got, err)
	}
}

// summedUp waits until an account is on the page of what fails. A monitor sums that up every
// 45 s, and to ask all the time, or to look at a live page, would cost more than to wait.
func (w *world) summedUp(t *testing.T, id string) {
	t.Helper()
	asked := 0
	if err := w.scene.Await(t.Context(), func() bool {
		if asked++; asked%10 != 1 {
			return false
		}
		_, text := processes.Get(t, w.scene.URL+"/problems", scene.Token)
		return strings.Contains(text, id)
	}); err != nil {
		t.Fatalf("%s is on no page: %v", id, err)
	}
}
