package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/testing/browser/scene"
)

// longHost is a host whose accounts have a limit of their own.
const longHost = "feedsofmanysmallpublishers.pressandbroadcastingcompanies.example"

// testSmall looks at what the widths and the keys of ordinary people once showed: a menu that fills a
// phone, a table wider than a tablet, an id as long as ids may be, and a checkbox far away.
func (w *world) testSmall(t *testing.T) {
	tab := open(t, w.browser, w.scene.URL)
	w.signIn(t, tab, scene.Token)

	try(t, func() error { return tab.Go("/") })
	replicas, err := eval[[]string](tab, `[...document.querySelectorAll("#live-replicas tbody td.mono")].map((e) => e.innerText)`)
	try(t, func() error { return err }, func() error { return tab.Go("/system") })
	for _, name := range replicas {
		if shown, err := eval[bool](tab, `[...document.querySelectorAll("#live-processes tbody td.mono")].some((e) => e.innerText === `+quoted(name)+`)`); err != nil || !shown {
			t.Errorf("the replica %s has another name among the processes, %v", name, err)
		}
	}
	if len(replicas) == 0 {
		t.Error("the Overview shows no replica")
	}

	const phone, tablet = 390, 768
	try(t, func() error { return tab.Go("/") }, func() error { return tab.Widen(phone) }, tab.drawn)
	if top, err := eval[float64](tab, `document.querySelector("main").getBoundingClientRect().top`); err != nil || top > 110 {
		t.Errorf("on a phone the page begins at %v pixels, %v", top, err)
	}

	long := strings.Repeat("w", 256)
	if _, err := w.scene.Calls.Add(t.Context(), accounts.Account{ID: long, Kind: "feed", Cadence: "every 1h", Config: []byte(`{"url":"http://` + longHost + `/said/many"}`)}, ""); err != nil {
		t.Fatal(err)
	}
	try(t,
		func() error { return tab.Go("/limits") },
		func() error {
			return tab.await(`/` + longHost + `/.test(document.querySelector("table.limits")?.innerText)`)
		},
		func() error { return tab.Measure(320, tablet, 970) })
	for _, page := range []string{"/account?id=", "/account/edit?id=", "/account/edit?as=json&id=", "/accounts?prefix="} {
		try(t, func() error { return tab.Go(page + long) }, func() error { return tab.Measure(320, phone, 1280) })
	}
	sound(t, tab)
	if err := w.scene.Calls.Remove(t.Context(), long); err != nil {
		t.Error(err)
	}

	try(t, func() error { return tab.Go("/accounts") })
	const most = 6
	for n := 1; ; n++ {
		try(t, func() error { return tab.Type(kb.Tab) })
		at, err := eval[string](tab, `document.activeElement.matches("#rows input[type=checkbox]") ? "there" : document.activeElement.getAttribute("href") ?? ""`)
		if err != nil {
			t.Fatal(err)
		}
		if at == "there" {
			break
		}
		if at == "#rows" {
			try(t, func() error { return tab.Type(kb.Enter) })
		}
		if n == most {
			t.Fatal(fmt.Errorf("the first checkbox is further than %d keys away, at %q", most, at))
		}
	}
	sound(t, tab)
}
