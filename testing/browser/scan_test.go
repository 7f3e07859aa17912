package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/rounds-dev/rounds/testing/browser/scene"
	"github.com/rounds-dev/rounds/testing/processes"
)

// testScan signs a WeChat account in by a scan, by keys alone, and signs it in again without
// JavaScript. Nothing on the way tells the token or the name of the sign-in.
func (w *world) testScan(t *testing.T) {
	phone := w.scene.Third.WeChat
	code := func() string {
		t.Helper()
		open := phone.Codes()
		if len(open) == 0 {
			t.Fatal("there is no code")
		}
		return open[len(open)-1]
	}
	secrets := func(tab *Tab) {
		t.Helper()
		text, err := eval[string](tab, `location.href + document.documentElement.outerHTML`)
		if err != nil || strings.Contains(text, "token-") || strings.Contains(text, "logins/") {
			t.Errorf("a page has a secret, %v: %s", err, text)
		}
	}

	tab := open(t, w.browser, w.scene.URL)
	w.signIn(t, tab, scene.Token)
	try(t,
		func() error { return tab.Go("/accounts") },
		func() error { return tab.tabTo(`.head a[href="/account/weixin"]`) },
		func() error { return tab.typeTo(kb.Enter) },
		func() error { return tab.tabTo(`#id`) },
		func() error { return tab.Type("scanned") },
		func() error { return tab.tabTo(`details summary`) },
		func() error { return tab.Type(kb.Enter) },
		func() error { return tab.tabTo(`#base_url`) },
		func() error { return tab.Type("http://weixin.example") },
		func() error { return tab.typeTo(kb.Enter) },
		func() error { return tab.await(`document.querySelector(".code svg")`) },
		func() error { return tab.Measure(320, 1280) })
	inspect(t, tab)
	secrets(tab)
	phone.Expire(code())
	try(t, func() error { return tab.await(`/code 2 of 3/.test(document.getElementById("live-status").innerText)`) })
	phone.Scan(code(), "U", "4711")
	try(t,
		func() error { return tab.await(`document.activeElement.id === "digits"`) },
		func() error { return tab.Inspect(Names) },
		func() error { return tab.Type("4711") },
		func() error { return tab.typeTo(kb.Enter) })
	secrets(tab)
	phone.Confirm(code())
	try(t, func() error {
		return tab.await(`location.pathname === "/account" && document.readyState === "complete"`)
	})
	secrets(tab)
	sound(t, tab)
	if _, text := processes.Get(t, w.scene.URL+"/v1/accounts/scanned", scene.Token); !strings.Contains(text, "weixin-scanned") {
		t.Errorf("the account is %s", text)
	}

	still := open(t, w.browser, w.scene.URL)
	w.signIn(t, still, scene.Token)
	try(t,
		func() error { return still.allowScripts(false) },
		func() error { return still.Go("/account?id=scanned") },
		func() error { return still.Follow(`a[href="/account/weixin?id=scanned"]`) },
		func() error { return still.Fill("#base_url", "http://weixin.example") },
		func() error { return still.Submit("#base_url") },
		func() error { return still.Measure(320, 1280) })
	phone.Scan(code(), "U", "")
	try(t, func() error {
		return still.await(`/Confirm on the phone/.test(document.querySelector("main").innerText)`)
	})
	secrets(still)
	phone.Confirm(code())
	try(t, func() error { return still.await(`location.pathname === "/account"`) })
	sound(t, still)
	if a, err := w.scene.Calls.Get(t.Context(), "scanned"); err != nil || a.Kind != "weixin" {
		t.Errorf("got %+v, %v", a, err)
	}
	if err := w.scene.Calls.Remove(t.Context(), "scanned"); err != nil {
		t.Error(err)
	}
}
