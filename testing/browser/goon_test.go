package browser

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rights "github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/pages"
)

// slow is an API that needs several requests to look at everything, as with very many accounts and
// messages. Of each part it finds two, and none of anything that is named none.
type slow struct {
	refuses atomic.Int64 // the part at which it refuses; 0: none
}

// parts is how many requests it takes.
const parts = 4

func (s *slow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, next := 1, ""
	for _, name := range []string{"cursor", "before"} {
		if n, err := strconv.Atoi(r.URL.Query().Get(name)); err == nil {
			at = n
		}
	}
	if at < parts {
		next = fmt.Sprintf(`,"next":"%d"`, at+1)
	}
	found := func(one string) string {
		if r.URL.Query().Get("host") == "none" || r.URL.Query().Get("text") == "none" {
			return ""
		}
		return fmt.Sprintf(one, at, 1) + "," + fmt.Sprintf(one, at, 2)
	}
	looks := r.URL.Path == "/v1/accounts" || r.URL.Path == "/v1/messages:search"
	if looks && int64(at) == s.refuses.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	switch r.URL.Path {
	case "/v1/accounts":
		<-time.After(300 * time.Millisecond) // longer than a page waits, so that it is shown as it is
		_, _ = fmt.Fprintf(w, `{"accounts":[%s],"looked":5000%s}`, found(`{"id":"a-%d-%d","kind":"feed","state":{"place":"scheduled","last_success":"2026-11-27T00:00:00Z"}}`), next)
	case "/v1/messages:search":
		_, _ = fmt.Fprintf(w, `{"messages":[%s],"looked":5000,"of":20000,"reached":"2026-11-27T00:00:00Z"%s}`, found(`{"shard":1,"position":"%d-%d","account":"a","kind":"feed","id":"m","type":"t","data":{}}`), next)
	case "/v1/problems":
		_, _ = io.WriteString(w, `{"at":"2026-11-27T00:00:00Z","registered":20000}`)
	default:
		_, _ = io.WriteString(w, `{}`)
	}
}

// testGoesOn shows that a list goes on by itself until it is full or there is no more, has each row
// once, and keeps its link where it gets no answer.
func testGoesOn(t *testing.T, b *Browser) {
	api := &slow{}
	d, err := pages.New(pages.Options{May: func(rights.Principal, string) bool { return true }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	inside := d.Handler(api)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inside.ServeHTTP(w, r.WithContext(rights.With(r.Context(), rights.Principal{Name: "anna", Role: rights.Admin})))
	}))
	t.Cleanup(server.Close)
	tab := open(t, b, server.URL)
	const all = "1-1 1-2 2-1 2-2 3-1 3-2 4-1 4-2"
	accounts := `[...document.querySelectorAll("#list input[name=pick]")].map((e) => e.value.replace("a-", "")).join(" ")`
	messages := `[...document.querySelectorAll("#rows > li a[data-f=at]")].map((e) => decodeURIComponent(e.href).split(":").pop()).join(" ")`
	ended := `!document.getElementById("more").dataset.more`
	for _, tt := range []struct{ path, rows, looked string }{
		{"/accounts?host=h", accounts, ""},
		{"/messages?text=x", messages, "Looked at 20,000 of 20,000"},
	} {
		api.refuses.Store(0)
		try(t, func() error { return tab.Go(tt.path) }, func() error { return tab.await(ended) })
		text, err := eval[string](tab, tt.rows)
		said, saying := eval[string](tab, `document.getElementById("more").innerText`)
		if err != nil || saying != nil || text != all || !strings.Contains(said, tt.looked) || strings.Contains(said, "Next page") {
			t.Errorf("%s: %q, %v, and says %q, %v", tt.path, text, err, said, saying)
		}
		plain, err := eval[int](tab, `document.querySelectorAll("#list time:not([title]), #rows time:not([title])").length + [...document.querySelectorAll("#list time, #rows time")].filter((e) => e.textContent.endsWith("UTC")).length`)
		if err != nil || plain != 0 {
			t.Errorf("%s: %d times are not in the viewer's zone, %v", tt.path, plain, err)
		}
		nothing := strings.NewReplacer("host=h", "host=none", "text=x", "text=none").Replace(tt.path)
		try(t, func() error { return tab.Go(nothing) }, func() error { return tab.await(ended) },
			func() error {
				return tab.await(`!document.getElementById("none").hidden && document.getElementById("none").innerText`)
			})
		sound(t, tab)

		api.refuses.Store(3)
		tab.expect(http.StatusServiceUnavailable)
		try(t, func() error { return tab.Go(tt.path) }, func() error {
			return tab.await(`(` + tt.rows + `) === "1-1 1-2 2-1 2-2" && document.querySelector("#more a[rel=next]")` +
				` && performance.getEntriesByType("resource").some((e) => e.responseStatus === 503)`)
		})
		sound(t, tab)
	}

	// Whoever checks all rows checks those that came later, too.
	api.refuses.Store(0)
	try(t,
		func() error { return tab.Go("/accounts?host=h") },
		func() error { return tab.await(ended) },
		func() error { return tab.click("#pick-all") },
		func() error {
			return tab.await(`document.querySelectorAll("#list input[name=pick]:checked").length === 8 && /8$/.test(document.getElementById("picked").textContent)`)
		})
	sound(t, tab)
}
