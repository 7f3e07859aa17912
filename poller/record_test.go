package poller_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/processes"
)

// moody is a checker that panics when it is asked about a config.
type moody struct{ *scripted }

func (moody) RateKey(json.RawMessage) string     { panic("no key") }
func (moody) Hold(json.RawMessage) time.Duration { panic("no hold") }

// The log names a checker that panics over configs once for each method, however many accounts it
// has. The accounts are checked all the same.
func TestPanicsAboutConfigsAreLoggedOnce(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("every 1m", "a", "b", "c")
		log := new(processes.Output)
		stop := w.startChecking(poller.Config{}, moody{w.checker}, slog.New(slog.NewTextHandler(log, nil)))
		time.Sleep(10 * time.Second)
		stop()
		for _, want := range []string{`method=RateKey panic=string stack=`, `method=Hold panic=string stack=`} {
			if n := strings.Count(log.String(), "kind=scripted "+want); n != 1 || !strings.Contains(log.String(), "record_test.go") {
				t.Errorf("%d lines with %s in\n%s", n, want, log.String())
			}
		}
		if text := log.String(); strings.Contains(text, "no key") || strings.Contains(text, "no hold") {
			t.Errorf("the text of a panic, which may hold a secret, is in\n%s", text)
		}
		for _, id := range []string{"a", "b", "c"} {
			if v := w.look(id); v.Place != circulate.Scheduled || v.Failures != 0 || len(w.checker.calls(id)) == 0 {
				t.Errorf("%s: %+v", id, v)
			}
		}
		if w.counted("rounds_checker_panics_total", "") != 6 {
			t.Error("not all panics are counted")
		}
	})
}
