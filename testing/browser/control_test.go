package browser

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// strictPolicy is the policy of the service's pages.
const strictPolicy = "default-src 'self'"

// broken are pages with one fault each, which the named check must find, and no other.
var broken = []struct {
	name   string
	policy string
	body   string
	script string // served as /page.js
	kinds  []Kind // what is found of it
	says   string // is in a fault's text
}{
	{name: "nothing", policy: strictPolicy, body: `<p>All is well.</p>`},
	{name: "error in the console", policy: strictPolicy, script: `console.error("broken", 7)`, kinds: []Kind{console}, says: "broken 7"},
	{name: "warning in the console", policy: strictPolicy, script: `console.warn("strange")`, kinds: []Kind{console}, says: "strange"},
	{name: "exception", policy: strictPolicy, script: `setTimeout(() => { throw new Error("thrown") })`, kinds: []Kind{exception}, says: "thrown"},
	{name: "promise", policy: strictPolicy, script: `Promise.reject(new Error("rejected"))`, kinds: []Kind{exception}, says: "rejected"},
	{name: "inline script", policy: strictPolicy, body: `<script>window.__ran = 1</script>`, kinds: []Kind{console, policy}, says: "script-src"},
	{name: "event handler", policy: strictPolicy, body: `<img src="/nothing.png" alt="" onload="window.__ran = 1">`, kinds: []Kind{console, policy}, says: "script-src"},
	{name: "inline style", policy: strictPolicy, body: `<p style="color: navy">blue</p>`, kinds: []Kind{console, policy}, says: "style-src"},
	{name: "dialog", body: `<script>alert("hello")</script>`, kinds: []Kind{dialog}, says: "hello"},
	{name: "image from elsewhere", body: `<img src="{{elsewhere}}/beacon.png" alt="">`, kinds: []Kind{elsewhere}, says: "/beacon.png"},
	{name: "request to elsewhere", body: `<script>fetch("{{elsewhere}}/beacon", {mode: "no-cors"}).catch(() => {})</script>`, kinds: []Kind{elsewhere}, says: "/beacon"},
	{name: "frame from elsewhere", body: `<iframe src="{{elsewhere}}/frame" title="other"></iframe>`, kinds: []Kind{elsewhere}, says: "/frame"},
	{name: "image that is not there", policy: strictPolicy, body: `<img src="/missing.png" alt="">`, kinds: []Kind{answer}, says: "404"},
	{name: "too wide", policy: strictPolicy, body: `<pre>` + strings.Repeat("wide", 500) + `</pre>`, kinds: []Kind{overflow}, says: "in a window of 320"},
	{name: "too wide for a phone", body: `<style>p { width: 600px }</style><p>broad</p>`, kinds: []Kind{cut, overflow}, says: "in a window of 320"},
	{name: "cut", body: `<style>p { width: 100px; overflow: hidden; white-space: nowrap }</style><p>a text that is much longer than its place</p>`, kinds: []Kind{cut}, says: "hides a part"},
	{name: "cut by another", body: `<style>div { width: 100px; overflow: hidden } p { width: 250px }</style><div><p>a text that is much longer than its place, and on it goes</p></div>`, kinds: []Kind{cut}, says: "is cut by"},
	{name: "shortened", body: `<style>p { width: 100px; overflow: hidden; white-space: nowrap; text-overflow: ellipsis }</style><p>a text that is much longer than its place</p>`, kinds: []Kind{cut}, says: "no title"},
	{name: "out of sight", body: `<style>p { position: absolute; left: -500px }</style><p>nobody reads this</p>`, kinds: []Kind{cut}, says: "nobody reads this"},
	{name: "no label", policy: strictPolicy, body: `<input type="text">`, kinds: []Kind{access}, says: "label"},
	{name: "no name", policy: strictPolicy, body: `<button></button>`, kinds: []Kind{access}, says: "button-name"},
	{name: "low contrast", body: `<style>p { color: #aaa; background: #fff }</style><p>hard to read</p>`, kinds: []Kind{access}, says: "color-contrast"},
	{name: "low contrast in the dark", body: `<style>@media (prefers-color-scheme: dark) { p { color: #444; background: #222 } }</style><p>hard to read</p>`, kinds: []Kind{access}, says: "color-contrast"},
}

// testControls shows that each check finds its fault, and nothing where nothing is wrong.
func testControls(t *testing.T, b *Browser) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(elsewhere.Close)
	routes := http.NewServeMux()
	routes.HandleFunc("/nothing.png", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/gif")
		_, _ = io.WriteString(w, "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")
	})
	for i, page := range broken {
		routes.HandleFunc(fmt.Sprintf("/%d", i), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			if page.policy != "" {
				w.Header().Set("Content-Security-Policy", page.policy)
			}
			script := ""
			if page.script != "" {
				script = fmt.Sprintf(`<script src="/%d.js"></script>`, i)
			}
			_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><head><title>Control</title><meta name="viewport" content="width=device-width">%s</head><body><main><h1>Control</h1>%s</main></body></html>`,
				script, strings.ReplaceAll(page.body, "{{elsewhere}}", elsewhere.URL))
		})
		routes.HandleFunc(fmt.Sprintf("/%d.js", i), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, page.script)
		})
	}
	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)
	tab := open(t, b, server.URL)
	for i, page := range broken {
		try(t, func() error { return tab.Go(fmt.Sprintf("/%d", i)) }, func() error { return tab.Measure(320) })
		if i == 0 || slices.Contains(page.kinds, access) {
			inspect(t, tab)
		}
		found := tab.Faults()
		if i == 0 && len(found) > 0 {
			t.Errorf("%s: found %v", page.name, found)
		}
		var kinds []Kind
		said := page.says == ""
		for _, f := range found {
			said = said || strings.Contains(f.Text, page.says)
			if !slices.Contains(kinds, f.Kind) {
				kinds = append(kinds, f.Kind)
			}
		}
		slices.Sort(kinds)
		if !slices.Equal(kinds, page.kinds) || !said {
			t.Errorf("%s: found %v, want %v with %q", page.name, found, page.kinds, page.says)
		}
	}
}

// serve starts a server whose pages a function writes.
func serve(t *testing.T, page func(*http.Request) string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, page(r))
	}))
	t.Cleanup(server.Close)
	return server.URL
}
