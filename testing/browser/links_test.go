package browser

import (
	"fmt"
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/rounds-dev/rounds/testing/browser/scene"
)

// testLinks follows a link in a page of another site, as in a chat or in a ticket, and one of another
// port of this machine. Who is signed in comes to the page, and who is not to the sign-in.
func (w *world) testLinks(t *testing.T) {
	const to = "/problems?since=1h"
	page := http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(out, `<!doctype html><title>chat</title><a id="link" href="%s">look</a>`, html.EscapeString(w.scene.URL+to))
	})
	neighbour := httptest.NewServer(page)
	t.Cleanup(neighbour.Close)
	listener, err := net.Listen("tcp", "127.0.0.2:0") // another site, and not only another port
	if err != nil {
		t.Fatal(err)
	}
	chat := &httptest.Server{Listener: listener, Config: &http.Server{Handler: page, ReadHeaderTimeout: time.Minute}}
	chat.Start()
	t.Cleanup(chat.Close)
	for _, signedIn := range []bool{true, false} {
		tab := open(t, w.browser, w.scene.URL)
		want := `location.pathname === "/signin" && new URLSearchParams(location.search).get("next") === "` + to + `"`
		if signedIn {
			w.signIn(t, tab, scene.Token)
			want = `location.pathname + location.search === "` + to + `" && document.querySelector("nav a")` // the page that leads on has no menu
		}
		for _, from := range []string{chat.URL, neighbour.URL} {
			try(t,
				func() error { return tab.do(chromedp.Navigate(from)) },
				func() error { return tab.await(`document.getElementById("link")`) },
				func() error {
					return tab.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("link").click()`))
				},
				func() error { return tab.await(want) })
		}
	}
}
