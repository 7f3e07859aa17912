package pages

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	summary "github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A list goes on until it is full or a while has passed. It then says how far it is, and its links
// lead on from there to the last account, with no page of nothing in between.
func TestAListIsFilledByItself(t *testing.T) {
	for _, tt := range []struct {
		takes time.Duration // of each call of the API, which looks at 5,000 of 300,000 accounts
		each  int           // rows that each call finds
		pages int
	}{
		{time.Millisecond, 0, 1},
		{time.Millisecond, 2, 3},
		{100 * time.Millisecond, 0, 30}, // of 60 calls, two a page
		{100 * time.Millisecond, 20, 30},
		{time.Second, 0, 60},
	} {
		synctest.Test(t, func(t *testing.T) {
			const calls, step = 60, 5000
			site := newSite(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/v1/accounts":
					time.Sleep(tt.takes)
					at, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
					limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
					var rows []string
					for i := range min(tt.each, limit) {
						rows = append(rows, fmt.Sprintf(`{"id":"a-%d-%d","state":{"place":"scheduled"}}`, at, i))
					}
					next := ""
					if at+1 < calls {
						next = fmt.Sprintf(`,"next":"%d"`, at+1)
					}
					_, _ = fmt.Fprintf(w, `{"accounts":[%s],"looked":%d%s}`, strings.Join(rows, ","), step, next)
				case "/v1/problems":
					_, _ = io.WriteString(w, `{"at":"2026-11-22T14:00:00Z","registered":300000}`)
				default:
					_, _ = io.WriteString(w, `{}`)
				}
			})
			looked, pages := 0, 0
			for path := "/accounts?host=h"; path != ""; pages++ {
				began := time.Now()
				body := ask(site, "GET", path).Body.String()
				if took := time.Since(began); took > fillFor+tt.takes {
					t.Errorf("%v: a page took %v", tt, took)
				}
				if strings.Contains(body, "No account matches") != (tt.each == 0 && !strings.Contains(body, `rel="next"`)) {
					t.Errorf("%v: what matches nothing is said too early or never", tt)
				}
				if said := regexp.MustCompile(`Looked at ([0-9,]+) of 300,000`).FindStringSubmatch(body); said != nil {
					n, _ := strconv.Atoi(strings.ReplaceAll(said[1], ",", ""))
					if n <= looked {
						t.Errorf("%v: %d were looked at, and before %d", tt, n, looked)
					}
					if looked = n; !strings.Contains(body, "data-more=") {
						t.Errorf("%v: it does not go on by itself", tt)
					}
				}
				path = ""
				if next := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(body); next != nil {
					path = html.UnescapeString(next[1])
				}
			}
			if pages < tt.pages-2 || pages > tt.pages+2 {
				t.Errorf("%v: %d pages", tt, pages)
			}
			if tt.each == 0 && tt.pages > 1 && looked < calls*step-4*step {
				t.Errorf("%v: it says at last that %d were looked at", tt, looked)
			}
		})
	}
}

// What is asked for the rest of a page has only so many rows.
func TestTheRestOfAPageFillsIt(t *testing.T) {
	d := newDesk(t)
	for i := range 9 {
		d.add(fmt.Sprint("a-", i))
	}
	_, _, body := d.get("/accounts?part=A-&rest=4")
	if n := strings.Count(body, `name="pick" value="a-`); n != 4 || !strings.Contains(body, `rel="next"`) || strings.Contains(regexp.MustCompile(`href="[^"]*" rel="next"`).FindString(body), "rest=") {
		t.Errorf("%d rows\n%s", n, body)
	}
}

// The live rows are those that the page was opened with, each in its place.
func TestLiveRowsStayInTheirPlaces(t *testing.T) {
	d := newDesk(t)
	d.add("a-1", "a-2", "a-3", "b")
	_, _, body := d.get("/accounts?part=a-&col=kind&col=state")
	at := html.UnescapeString(regexp.MustCompile(`data-live="([^"]*)"`).FindStringSubmatch(body)[1])
	ids := regexp.MustCompile(`name="pick" value="([^"]*)"`)
	order := fmt.Sprint(ids.FindAllStringSubmatch(body, -1))
	if err := d.registry.Delete(t.Context(), "a-2"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.registry.Pause(t.Context(), "a-3"); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.server.URL+"/live"+at, nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := d.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	rows := ""
	for lines := bufio.NewScanner(reply.Body); lines.Scan() && lines.Text() != "event: looked"; {
		if strings.Contains(lines.Text(), "live-rows") {
			rows = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\"`, `"`).Replace(lines.Text())
		}
	}
	if got := fmt.Sprint(ids.FindAllStringSubmatch(rows, -1)); got != order {
		t.Errorf("the rows are %s, and were %s", got, order)
	}
	if !strings.Contains(rows, "deleted") || !strings.Contains(rows, "paused") || strings.Contains(rows, `value="b"`) {
		t.Errorf("they show\n%s", rows)
	}
}

// The menu costs few commands of Redis, whatever the number of shards.
func TestTheMenuCostsFewCommands(t *testing.T) {
	var commands atomic.Int64
	server := &faketime.Faulty{Server: redistest.Embedded(t)}
	server.Set(func(s faketime.Step) faketime.Fate {
		if s.At == faketime.Send || s.At == faketime.Call {
			commands.Add(1)
		}
		return faketime.Healthy
	})
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 64})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() (n int64, body string) {
		pages, err := New(Options{May: api.May, Log: slog.New(slog.DiscardHandler), Namespace: "press", Version: "v1"})
		if err != nil {
			t.Fatal(err)
		}
		defer pages.Close()
		served, err := api.New(api.Options{Ring: ring, Registry: accounts.NewRegistry(ring, nil), Pages: pages.Handler})
		if err != nil {
			t.Fatal(err)
		}
		defer served.Close()
		before := commands.Load()
		w := httptest.NewRecorder()
		served.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/account/new", nil))
		return commands.Load() - before, w.Body.String()
	}
	if n, _ := ask(); n < 16*64 {
		t.Errorf("the control: without a summary it costs %d commands", n)
	}
	if err := summary.Store(t.Context(), ring, summary.Summary{At: time.Now(), Registered: 41_000}); err != nil {
		t.Fatal(err)
	}
	if n, body := ask(); n > 20 || !strings.Contains(body, "41,000") {
		t.Errorf("it costs %d commands\n%s", n, body)
	}
}

// A column that sorts is a link, and names the order that the list is in. The order stays from page
// to page, and in the form that filters.
func TestColumnsSort(t *testing.T) {
	asked := ""
	site := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/accounts" {
			asked = r.URL.Query().Get("sort")
			_, _ = io.WriteString(w, `{"accounts":[{"id":"a","state":{"place":"scheduled"}}],"looked":1,"next":"n"}`)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	})
	for _, c := range []struct{ at, sort, want string }{
		{"/accounts?kind=feed&limit=1", "", `<th scope="col"><a href="/accounts?kind=feed&amp;limit=1&amp;sort=due"`},
		{"/accounts?kind=feed&limit=1&sort=due&cursor=n", "due", `<th scope="col" aria-sort="ascending"><a href="/accounts?kind=feed&amp;limit=1"`},
		{"/accounts?limit=1&sort=due", "due", `href="/accounts?cursor=n&amp;limit=1&amp;sort=due"`},
		{"/accounts?limit=1&sort=due", "due", `<input type="hidden" name="sort" value="due">`},
		{"/accounts?limit=1&sort=failures&col=failures", "failures", `<th scope="col" class="n" aria-sort="descending">`},
	} {
		body := ask(site, "GET", c.at).Body.String()
		if !strings.Contains(body, c.want) || asked != c.sort {
			t.Errorf("%s asks for sort=%s and has no %s", c.at, asked, c.want)
		}
	}
}
