package browser

import (
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/browser/scene"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// world is what the tests share: one browser, and one service with sample accounts.
type world struct {
	browser *Browser
	scene   *scene.Scene
	failing []scene.Failing
}

// TestInBrowser does everything in one browser.
func TestInBrowser(t *testing.T) {
	w := &world{browser: start(t)}
	t.Run("controls", func(t *testing.T) { testControls(t, w.browser) })
	t.Run("payloads work", func(t *testing.T) { testPayloadsWork(t, w.browser) })
	t.Run("lists go on", func(t *testing.T) { testGoesOn(t, w.browser) })
	t.Run("killed poller controls", func(t *testing.T) { testKillsControls(t, w.browser) })
	if atNight {
		t.Run("killed poller", func(t *testing.T) { testKilledPoller(t, w.browser) })
	}
	w.start(t)
	t.Run("pages", w.testPages)
	t.Run("rights", w.testRights)
	h := w.hands(t)
	t.Run("actions", h.testActions)
	t.Run("small", w.testSmall)
	t.Run("keyboard", w.testKeyboard)
	t.Run("finder", w.testFinder)
	t.Run("views", w.testViews)
	t.Run("plots", w.testPlots)
	t.Run("links", w.testLinks)
	t.Run("scan", w.testScan)
	t.Run("answers", w.testAnswers)
	t.Run("revive", h.testRevive)
	t.Run("every page", h.testEveryPage)
	t.Run("payloads", w.testPayloads)
	t.Run("shards", w.testShards)
}

// start starts the service.
func (w *world) start(t *testing.T) {
	t.Helper()
	var err error
	w.scene, err = scene.Start(scene.Options{Redis: redistest.LookPath(t), Dir: t.TempDir(), Locked: true, Settings: map[string]string{
		"ROUNDS_FILES": t.TempDir(), "ROUNDS_LIMITS": "feed/" + longHost + " rate=1000/s burst=1000 concurrency=500",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.scene.Close(); err != nil {
			t.Error(err)
		}
	})
	w.failing, err = w.scene.Populate(t.Context(), 24, "every 10s")
	if err != nil {
		t.Fatal(err)
	}
	w.prepare(t)
}

func open(t *testing.T, b *Browser, origin string) *Tab {
	t.Helper()
	tab, err := b.Open(origin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tab.Close)
	return tab
}

// try fails the test at the first step with an error.
func try(t *testing.T, steps ...func() error) {
	t.Helper()
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

// sound reports every fault of the tab.
func sound(t *testing.T, tab *Tab) {
	t.Helper()
	for _, f := range tab.Faults() {
		t.Error(f)
	}
}

// visit loads a page and has every check look at it: its layout at all widths, and what
// axe-core finds in light and dark.
func visit(t *testing.T, tab *Tab, path string) {
	t.Helper()
	try(t, func() error { return tab.Go(path) }, func() error { return tab.Measure(widths...) })
	inspect(t, tab)
}

// inspect has axe-core look at the page in light and dark.
func inspect(t *testing.T, tab *Tab) {
	t.Helper()
	try(t,
		func() error { return tab.Inspect(Everything) },
		func() error { return tab.Darken(true) },
		func() error { return tab.Inspect(Contrast) },
		func() error { return tab.Darken(false) })
}

// guide is the documentation that the service itself serves.
var guide = []scene.Page{
	{Name: "docs", Path: "/docs"},
	{Name: "guide page", Path: "/docs/guide/zh-CN/signin"},
}

// testPages visits every page as a person with all rights: with JavaScript in English, and at night
// in Chinese, and without JavaScript.
func (w *world) testPages(t *testing.T) {
	tab := open(t, w.browser, w.scene.URL)
	w.signIn(t, tab, scene.Token)
	id := w.failing[3].ID
	pages := scene.Pages(id)
	for _, page := range pages {
		visit(t, tab, page.Path)
		w.judge(t, tab, page, "en")
	}
	if !atNight {
		return
	}
	try(t, func() error { return tab.Speak("zh-CN") })
	for _, page := range pages {
		try(t,
			func() error { return tab.Go(page.Path) },
			func() error { return tab.Measure(320) },
			func() error { return tab.Inspect(Names) })
		w.judge(t, tab, page, "zh")
	}
	try(t, func() error { return tab.Speak("en") }, func() error { return tab.allowScripts(false) })
	for _, page := range slices.Concat(pages, scene.Forms(id), guide) {
		try(t, func() error { return tab.Go(page.Path) }, func() error { return tab.Measure(320) })
		w.judge(t, tab, page, "")
	}
}

// judge reports what is wrong with the page that the tab shows. Its language must begin as
// the one given.
func (w *world) judge(t *testing.T, tab *Tab, page scene.Page, language string) {
	t.Helper()
	sound(t, tab)
	shown, err := eval[struct{ Path, Title, Language, Text string }](tab,
		`({path: location.pathname, title: document.title, language: document.documentElement.lang, text: document.querySelector("main")?.innerText ?? ""})`)
	if err != nil {
		t.Fatalf("%s: %v", page.Path, err)
	}
	if at, _, _ := strings.Cut(page.Path, "?"); shown.Path != at {
		t.Errorf("%s leads to %s", page.Path, shown.Path)
	}
	if shown.Title == "" || shown.Text == "" {
		t.Errorf("%s has the title %q and the text %.80q", page.Path, shown.Title, shown.Text)
	}
	if !strings.HasPrefix(shown.Language, language) {
		t.Errorf("%s is in %q, want %q", page.Path, shown.Language, language)
	}
}

// signIn signs the person of the tab in by the sign-in page, with the token or a key.
func (w *world) signIn(t *testing.T, tab *Tab, secret string) { t.Helper(); signIn(t, tab, secret) }

func signIn(t *testing.T, tab *Tab, secret string) {
	t.Helper()
	try(t, func() error { return tab.Go("/signin") }, func() error { return tab.Fill("#secret", secret) })
	if err := tab.Submit("#secret"); err != nil {
		t.Fatal(err)
	}
	sound(t, tab)
}
