package poller_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/processes"
)

// Hundreds of accounts that fail in the same way are reported in one line a minute, with their
// number. A rare failure is not lost among them.
func TestFailuresAreToldByTheirSort(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			if strings.HasPrefix(r.Account, "gone") {
				return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Code: "http_404", Message: "not there"}
			}
			if r.Account == "odd" {
				return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeEgress, Code: "dns", Message: "no such host"}
			}
			return poller.Result{}, nil
		}
		for i := range 50 {
			w.registerRecord(fmt.Sprint("gone", i), fmt.Sprintf(`{"id":"gone%d","kind":"scripted","cadence":"every 1h","config":{"host":"a"}}`, i))
			w.registerRecord(fmt.Sprint("good", i), fmt.Sprintf(`{"id":"good%d","kind":"scripted","cadence":"every 1h","config":{"host":"a"}}`, i))
		}
		w.registerRecord("odd", `{"id":"odd","kind":"scripted","cadence":"every 1h","config":{"host":"b"}}`)
		log := new(processes.Output)
		stop := w.startLogging(poller.Config{}, slog.New(slog.NewTextHandler(log, nil)))
		defer stop()
		time.Sleep(90 * time.Second)
		var told []string
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "checks fail") {
				told = append(told, line)
			}
		}
		if len(told) < 2 || !strings.Contains(told[0], "code=http_404") || !strings.Contains(told[0], "host=a") || !strings.Contains(told[1], "code=dns") {
			t.Errorf("told %q", told)
		}
		if !strings.Contains(told[0], `error="transient: http_404: not there"`) || !strings.Contains(told[1], `error="blameless: dns: no such host"`) {
			t.Errorf("what counts and what does not is told by %q", told)
		}
		if n := w.counted("rounds_check_failures_total", "http_4xx"); n < 50 {
			t.Errorf("%v failures of the class http_4xx were counted, want 50 at least", n)
		}
		if failing, odd := w.counted("rounds_checks_failing", "http_404"), w.counted("rounds_checks_failing", "dns"); failing < 50 || odd < 1 {
			t.Errorf("%v and %v checks are shown as failing", failing, odd)
		}
	})
}
