package command

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/processes"
)

// Faults of a feed that still delivers are shown on request. If the setting says so, a record
// follows its feed to a new address.
func TestFeedsThatAreMalformedOrHaveMoved(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/old":
			http.Redirect(w, r, "/new", http.StatusPermanentRedirect)
		case "/lent":
			http.Redirect(w, r, "/new", http.StatusFound)
		default:
			_, _ = fmt.Fprint(w, `<rss version="2.0"><channel><item><guid>1</guid></item><item>a < b</item><item><guid>2</guid></item></channel></rss>`)
		}
	}))
	defer site.Close()
	for _, follow := range []bool{true, false} {
		addr := freeLoopback(t)
		variables := map[string]string{"ROUNDS_API_ADDR": addr, "ROUNDS_API_URL": "http://" + addr, "ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true", "ROUNDS_FOLLOW_MOVES": fmt.Sprint(follow)}
		p := startProgram(t, variables, "serve")
		processes.AwaitStatus(t, "http://"+addr+"/readyz", 200)
		must := func(args ...string) string {
			printed, err := runWith(t.Context(), variables, "", args...)
			if err != nil {
				t.Fatalf("%q: %v", args, err)
			}
			return printed.out
		}
		for _, id := range []string{"old", "lent"} {
			must("account", "add", id, "--kind", "feed", "--every", "1h", "--set", "url="+site.URL+"/"+id)
		}
		await := func(id, want string, args ...string) {
			t.Helper()
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
				got := must(append(args, id)...)
				if strings.Contains(got, want) {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("%q %s: no %q in\n%s", args, id, want, got)
				}
			}
		}
		await("lent", "malformed: broken XML at line 1; read without what is broken", "account", "why")
		if follow {
			await("old", site.URL+"/new", "account", "get")
		} else {
			await("old", "; moved: for good, to "+site.URL+"/new", "account", "why")
			if got := must("account", "get", "old"); !strings.Contains(got, site.URL+"/old") {
				t.Errorf("it moved: %s", got)
			}
		}
		if got := must("account", "get", "lent"); !strings.Contains(got, site.URL+"/lent") {
			t.Errorf("it moved: %s", got)
		}
		_, metrics := processes.Get(t, "http://"+addr+"/metrics", "")
		if moved := strings.Contains(metrics, `rounds_moves_total{kind="feed",outcome="followed"} 1`); moved != follow || !strings.Contains(metrics, `rounds_check_warnings_total{code="malformed",kind="feed"}`) {
			t.Errorf("moves are not counted as they should be: followed %v", moved)
		}
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
}
