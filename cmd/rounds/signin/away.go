package signin

import (
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/locale"
)

// awayReload is after how many seconds the page about an outage loads again.
const awayReload = 5

// Away answers a browser with 503 and a page that says that Redis cannot be used, for what
// reason and since when, and that loads again by itself until that is over. A zero time is
// not shown. It is for requests that cannot be authenticated meanwhile.
func Away(w http.ResponseWriter, r *http.Request, reason string, since time.Time) {
	page, err := template.ParseFS(assets, "assets/away.html")
	if err != nil {
		http.Error(w, reason, http.StatusServiceUnavailable)
		return
	}
	t := textFor(r)
	reason = locale.Asked(r.Header).Translate(reason)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", t.Lang)
	h.Set("Vary", "Accept-Language")
	h.Set("Content-Security-Policy", policy)
	h.Set("Refresh", fmt.Sprint(awayReload))
	h.Set("Retry-After", fmt.Sprint(awayReload))
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = page.Execute(w, struct { // a caller that has gone needs no answer
		T      text
		Reason string
		Since  time.Time
	}{t, reason, since.UTC()})
}

// Style serves the style sheet of the pages.
func Style(w http.ResponseWriter, r *http.Request) { css(w, r) }
