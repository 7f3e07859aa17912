package browser

import (
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/rounds-dev/rounds/testing/browser/scene"
)

// testViews saves a view of accounts under a name, comes back to it, and removes it.
func (w *world) testViews(t *testing.T) {
	tab := open(t, w.browser, w.scene.URL)
	w.signIn(t, tab, scene.Token)
	const name = `fails <b>失败</b>`
	chip := `[...document.querySelectorAll(".views a")].find((a) => a.textContent === ` + quoted(name) + `)`
	try(t,
		func() error { return tab.Go("/accounts?kind=feed&state=failing") },
		func() error { return tab.click(".views summary") },
		func() error { return tab.Fill(`.views input[name=name]`, name) },
		func() error { return tab.Measure(320, 1280) },
		func() error { return tab.Submit(`.views button[value=save]`) },
		func() error { return tab.await(chip + `?.getAttribute("aria-current") === "true"`) },
		func() error { return tab.Go("/accounts") },
		func() error { return tab.await(chip + ` && !` + chip + `.hasAttribute("aria-current")`) })
	inspect(t, tab)
	try(t,
		func() error { return tab.tabTo(".views a") },
		func() error { return tab.typeTo(kb.Enter) },
		func() error {
			return tab.await(`document.getElementById("f-kind").value === "feed" && document.getElementById("f-state").value === "failing"`)
		},
		func() error { return tab.click(".views summary") },
		func() error { return tab.Submit(`.views button[value=remove]`) },
		func() error {
			return tab.await(`document.readyState === "complete" && document.querySelector(".said") && !` + chip)
		})
	sound(t, tab)
}
