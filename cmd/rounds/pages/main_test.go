package pages

import (
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/rounds-dev/rounds/testing/processes"
)

// Nearly all tests here ask for one page after another, which takes four times as long with the race
// detector. It watches those in which something happens at once.
func TestMain(m *testing.M) {
	os.Exit(processes.Watched(m, "TestVisitorsAtOnce", "TestStreamsEndWithTheDashboardAndAreBounded", "TestManyAccountsAreChangedAfterAQuestion").Run())
}

// Visitors may look at all pages, in both languages, and change accounts at once.
func TestVisitorsAtOnce(t *testing.T) {
	d := newDesk(t)
	d.add("a", "b", "c")
	var visitors sync.WaitGroup
	for _, query := range []string{"?id=a", "?id=b&lang=zh-CN"} {
		visitors.Go(func() {
			for _, path := range Paths() {
				if status, _, text := d.get(path + query); status >= http.StatusInternalServerError {
					t.Errorf("%s: %d: %.300s", path, status, text)
				}
			}
		})
	}
	visitors.Go(func() {
		for range 5 {
			for _, act := range []string{"pause", "resume"} {
				if status, _, text := d.post("/account/"+act, "id", "a", "from", "cursor"); status != http.StatusSeeOther {
					t.Errorf("%s: %d: %.300s", act, status, text)
				}
			}
		}
	})
	visitors.Wait()
}
