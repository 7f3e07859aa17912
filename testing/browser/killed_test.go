package browser

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/demo"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/testing/processes"
)

// pollerVariable has the test binary act as a poller of a demo.
const pollerVariable = "ROUNDS_TEST_BROWSER_POLLER"

// TestMain has what happens in the browser run without the race detector: the service's own tests
// make the same requests with it.
func TestMain(m *testing.M) {
	var err error
	switch told := os.Getenv(replicaVariable); {
	case told != "":
		err = runReplica(told)
	case os.Getenv(pollerVariable) != "":
		err = demo.RunPoller(context.Background(), os.Stdin, os.Stdout, service.Options{}, hasten)
	default:
		os.Exit(processes.Apart(m, "TestInBrowser", "TestTasks").Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// hasten has a process find the death of another one sooner.
func hasten(s *settings.Settings) {
	s.Poller.HeartbeatInterval, s.Monitor.DeadAfter, s.Monitor.SweepInterval = 500*time.Millisecond, 3*time.Second, 500*time.Millisecond
	s.API.Addr = "127.0.0.1:0"
}

// said keeps what a demo prints.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write keeps a text. It never fails.
func (s *said) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

// dashboard returns where the dashboard is, once the demo has said so.
func (s *said) dashboard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := regexp.MustCompile(`Dashboard +(http://127\.0\.0\.1:\d+)/`).FindSubmatch(s.text.Bytes()); found != nil {
		return string(found[1])
	}
	return ""
}

// showing is a demo and what the tests need of it.
type showing struct {
	*testing.T
	calls   *client.Client
	one     *Tab // the Overview, which is live
	another *Tab // accounts
	lawless string
}

// demonstrate starts a demo in this process. Its pollers are processes of their own.
func demonstrate(t *testing.T, b *Browser) *showing {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended, out := make(chan error, 1), &said{}
	go func() {
		ended <- demo.Run(ctx, demo.Options{
			Service: service.Options{Version: "test"},
			Program: func(...string) (*exec.Cmd, error) {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), pollerVariable+"=1")
				return cmd, nil
			},
			Ready: func(ctx context.Context, base string) error {
				for status(ctx, base+"/readyz") != http.StatusOK && ctx.Err() == nil {
					time.Sleep(50 * time.Millisecond)
				}
				return ctx.Err()
			},
			Show: func(api.Message) error { return nil }, Change: hasten, Out: out, Err: out,
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	d := &showing{T: t}
	d.await("the address of the dashboard", func() bool { return out.dashboard() != "" })
	d.calls = client.New(out.dashboard(), "")
	t.Cleanup(d.calls.Close)
	d.one, d.another = open(t, b, out.dashboard()), open(t, b, out.dashboard())
	return d
}

func status(ctx context.Context, address string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// await waits until something is so. It looks seldom: the machine has other tests.
func (d *showing) await(what string, so func() bool) {
	d.Helper()
	for end := time.Now().Add(3 * time.Minute); !so(); time.Sleep(300 * time.Millisecond) {
		if time.Now().After(end) {
			shown := ""
			if d.one != nil {
				shown, _ = eval[string](d.one, `document.body.innerText`)
			}
			d.Fatalf("waited in vain for %s, and the page shows\n%.1500s", what, shown)
		}
	}
}

// law returns how good the page says that the law is: the class of its line, such as good or bad.
func law(tab *Tab) (string, error) {
	return eval[string](tab, `document.querySelector("#live-law .law")?.className.replace("law", "").trim() ?? "missing"`)
}

// killable returns the pollers that the page has a button for.
func killable(tab *Tab) ([]string, error) {
	return eval[[]string](tab, `[...document.querySelectorAll('form[action="/demo/kill"] button')].map((button) => button.value)`)
}

// row is an account in the list.
type row struct{ ID, Replica, Success string }

// listed returns the accounts that the page lists, with who has claimed them and when a check last
// succeeded.
func listed(tab *Tab) ([]row, error) {
	return eval[[]row](tab, `[...document.querySelectorAll("tbody tr")].map((tr) => ({
  id: tr.querySelector("td.id a").textContent,
  replica: tr.querySelector("td:last-child").textContent,
  success: tr.querySelector("td.time time")?.dateTime ?? "",
}))`)
}

// back reports whether all of the accounts are listed, and checks of all have succeeded since.
func back(rows []row, ids []string, since time.Time) bool {
	for _, id := range ids {
		i := slices.IndexFunc(rows, func(r row) bool { return r.ID == id })
		if i < 0 {
			return false
		}
		if at, err := time.Parse(time.RFC3339Nano, rows[i].Success); err != nil || !at.After(since) {
			return false
		}
	}
	return len(ids) > 0
}

// green looks at the line of the law, and keeps what it finds if that is not good.
func (d *showing) green() bool {
	d.Helper()
	class, err := law(d.one)
	if err != nil {
		d.Fatal(err)
	}
	if class != "good" && d.lawless == "" {
		d.lawless, _ = eval[string](d.one, `document.querySelector("#live-law")?.innerText ?? ""`)
		d.lawless = class + ": " + d.lawless
	}
	return class == "good"
}

// testKilledPoller kills a poller with the button of the Overview. The page shows that another has
// its accounts, that every account is in exactly one place all the while, and at last a poller in
// its place.
func testKilledPoller(t *testing.T, b *Browser) {
	d := demonstrate(t, b)
	try(t, func() error { return d.one.Go("/") })
	buttons := func() []string {
		d.Helper()
		names, err := killable(d.one)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	d.await("three pollers", func() bool { return len(buttons()) == 3 })
	d.await("a first audit", func() bool { return d.green() })
	d.lawless = "" // from here on it must be good

	var victim string
	var lost []string
	d.await("a poller that holds accounts", func() bool {
		page, err := d.calls.List(t.Context(), client.Query{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		held := make(map[string][]string)
		for _, a := range page.Accounts {
			if by := a.State.Replica; by != "" && strings.HasPrefix(a.ID, "shop-") { // those do not fail
				if held[by] = append(held[by], a.ID); len(held[by]) > len(lost) {
					victim, lost = by, held[by]
				}
			}
		}
		return len(lost) > 0 && slices.Contains(buttons(), victim)
	})
	killed := time.Now()
	try(t, func() error { return d.one.clickTo(fmt.Sprintf(`button[value=%q]`, victim)) })
	if names := buttons(); slices.Contains(names, victim) {
		t.Errorf("after the kill there are buttons for %q", names)
	}
	chosen := url.Values{"id": lost, "col": {"success", "replica"}}
	d.await("the accounts of the killed poller", func() bool {
		d.green()
		try(t, func() error { return d.another.Go("/accounts?" + chosen.Encode()) })
		rows, err := listed(d.another)
		if err != nil {
			t.Fatal(err)
		}
		return back(rows, lost, killed)
	})
	d.await("another poller in its place", func() bool {
		d.green()
		names := buttons()
		return len(names) == 3 && !slices.Contains(names, victim)
	})
	if d.lawless != "" {
		t.Errorf("the law's line was not green all the while: %s", d.lawless)
	}
	sound(t, d.one)
	sound(t, d.another)
}

// testKillsControls shows that testKilledPoller would find a law that is broken, accounts that do
// not come back, and a poller that stays away.
func testKillsControls(t *testing.T, b *Browser) {
	killed := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	line := func(id, replica, success string) string {
		return fmt.Sprintf(`<tr><td class="id"><a href="#">%s</a></td><td class="time">%s</td><td>%s</td></tr>`, id, success, replica)
	}
	shown := func(law, rows string) string {
		return `<!doctype html><html lang="en"><title>Control</title><section id="live-law"><p class="law ` + law + `">Law</p></section><table><tbody>` + rows +
			`</tbody></table><form action="/demo/kill"><button value="P2">Kill</button></form>`
	}
	before, after := `<time datetime="2026-01-31T11:59:59Z">1 s ago</time>`, `<time datetime="2026-01-31T12:00:05.25Z">now</time>`
	for _, test := range []struct {
		name, law, rows string
		good, back      bool
	}{
		{"all is well", "good", line("a", "", after) + line("b", "P2", after), true, true},
		{"the law is broken", "bad", line("a", "", after) + line("b", "", after), false, true},
		{"the law is not known", "", line("a", "", after) + line("b", "", after), false, true},
		{"one is still held", "good", line("a", "", after) + line("b", "P1", before), true, false},
		{"one never succeeded", "good", line("a", "", after) + line("b", "", "never"), true, false},
		{"one is lost", "good", line("a", "", after), true, false},
	} {
		tab := open(t, b, serve(t, func(*http.Request) string { return shown(test.law, test.rows) }))
		d := &showing{T: t, one: tab}
		try(t, func() error { return tab.Go("/") })
		rows, err := listed(tab)
		if err != nil {
			t.Fatal(err)
		}
		if got := back(rows, []string{"a", "b"}, killed); got != test.back {
			t.Errorf("%s: back is %t: %+v", test.name, got, rows)
		}
		if d.green() != test.good || (d.lawless == "") != test.good {
			t.Errorf("%s: green is %t: %q", test.name, !test.good, d.lawless)
		}
		if names, err := killable(tab); err != nil || !slices.Equal(names, []string{"P2"}) {
			t.Errorf("%s: buttons for %q, %v", test.name, names, err)
		}
		tab.Close()
	}
}
