package browser

import (
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/rounds-dev/rounds/testing/browser/scene"
)

// testFinder finds an account, a setting and a page with the keyboard alone, from different pages and
// in both languages.
func (w *world) testFinder(t *testing.T) {
	tab := open(t, w.browser, w.scene.URL)
	w.signIn(t, tab, scene.Token)
	const (
		option = `document.getElementById(document.activeElement.getAttribute("aria-activedescendant"))`
		closed = `!document.getElementById("finder").open`
	)
	ctrlK := func() error { return tab.control('k') }
	press := func(keys string) func() error { return func() error { return tab.Type(keys) } }
	await := func(expression string) func() error { return func() error { return tab.await(expression) } }
	leads := func(to string) func() error {
		return await(option + `?.dataset.to === ` + quoted(to) + ` && ` + option + `.getAttribute("aria-selected") === "true"`)
	}

	id := w.failing[3].ID
	try(t, func() error { return tab.Go("/limits") }, ctrlK, leads("/"))
	inspect(t, tab) // the dialog with its list
	try(t, press(id), leads("/account?id="+id), await(`document.getElementById("finder-said").textContent`),
		press(kb.Enter), await(`location.pathname + location.search === `+quoted("/account?id="+id)+` && document.readyState === "complete"`))

	// Enter right after a letter is about that text, not about what is still shown.
	other := w.failing[4].ID
	try(t, ctrlK, leads("/"), press(other+kb.Enter), await(`location.search !== `+quoted("?id="+id)+` && document.readyState === "complete"`))
	if at, err := eval[string](tab, `location.pathname + location.search`); err != nil || at != "/account?id="+other {
		t.Errorf("Enter leads to %s, %v", at, err)
	}

	// In a field as anywhere else; arrows choose, and the first follows the last.
	setting := "/docs/guide/operations?lang=en#ROUNDS_CONCURRENCY"
	try(t, func() error { return tab.Go("/accounts") }, press("/"), ctrlK, press("rounds_concurrency"), leads(setting),
		press(kb.ArrowUp), await(option+`?.dataset.to.startsWith("/docs/guide?q=")`), press(kb.ArrowDown), leads(setting),
		press(kb.Enter), await(`location.hash === "#ROUNDS_CONCURRENCY" && document.querySelector("tr:target code")?.textContent === "ROUNDS_CONCURRENCY"`))

	try(t, func() error { return tab.Speak("zh-CN") }, func() error { return tab.Go("/system") }, ctrlK, press("投递"), leads("/delivery"))
	inspect(t, tab)
	try(t, press(kb.Escape), await(closed), ctrlK, await("!("+closed+")"), press("delivery"), leads("/delivery"),
		press(kb.Enter), await(`location.pathname === "/delivery" && document.readyState === "complete"`))
	sound(t, tab)
}
