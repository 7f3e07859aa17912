package poller_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// follow runs a pool that follows moves, until the function it returns is called.
func (w *world) follow(follow func(context.Context, poller.Move) error) (stop func()) {
	w.Helper()
	pool := w.pool(poller.Config{}, poller.Options{Log: testLog(w.T), Metrics: poller.NewMetrics(w.metrics), Follow: follow}, w.checker)
	return faketime.Go(w, pool.Run)
}

// A warning does not count against an account. It stays until a check has none. A failure replaces
// it with a text of its own.
func TestWarningsAreKeptUntilTheNextCheck(t *testing.T) {
	inFakeTime(t, func(w *world) {
		warnings := []poller.Warning{{Code: "malformed", Message: "broken XML at line 12"}, {Code: "moved", Message: "for good"}, {Code: "moved", Message: "again"}}
		var fails, warns atomic.Bool
		warns.Store(true)
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			result := poller.Result{Messages: []poller.Message{{ID: "1", Data: []byte("1")}}, Cursor: append(r.Cursor, '1')}
			if warns.Load() {
				result.Warnings = warnings
			}
			if fails.Load() {
				return result, &poller.CheckError{Kind: poller.Transient, Code: "http_503", Message: "no"}
			}
			return result, nil
		}
		w.register("every 1m", "a")
		stop := w.start(poller.Config{})
		defer stop()
		registry := accounts.NewRegistry(w.ring, nil)
		told := func() (warning, last string) {
			time.Sleep(time.Minute)
			e, err := registry.Explain(w.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			return e.Warning, e.Marks[0] + " " + e.Error
		}
		if warning, last := told(); warning != "malformed: broken XML at line 12; moved: for good" || last != "ok " {
			t.Errorf("got %q, %q", warning, last)
		}
		if n := w.counted("rounds_check_warnings_total", "malformed"); n < 1 || n != w.counted("rounds_check_warnings_total", "moved") {
			t.Errorf("%v malformed ones were counted", n)
		}
		time.Sleep(3 * time.Second)
		if r := w.reported().Warnings; len(r) != 2 || r[0].Name != "scripted" || r[0].Code != "malformed" || r[0].PerMinute < 1 || r[1].Code != "moved" {
			t.Errorf("the heartbeats tell of the warnings %+v", r)
		}
		if v := w.look("a"); v.Failures != 0 || v.History.NeverSucceeded() {
			t.Errorf("it counts against the account: %+v", v)
		}
		fails.Store(true)
		if warning, last := told(); warning != "" || !strings.HasPrefix(last, "transient http_503") {
			t.Errorf("failed: %q, %q", warning, last)
		}
		fails.Store(false)
		warns.Store(false)
		if warning, last := told(); warning != "" || last != "ok " {
			t.Errorf("healed: %q, %q", warning, last)
		}
	})
}

// A move is followed only after the messages found there are written, and at most once a day.
// Its outcome is shown.
func TestMovesAreFollowedOnceWritten(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			return poller.Result{Messages: []poller.Message{{ID: "1", Data: []byte("1")}}, MovedTo: "https://new.example/" + r.Account}, nil
		}
		w.registerRecord("a", `{"id":"a","kind":"scripted","cadence":"every 1h","config":{"url":"https://old.example/a"}}`)
		w.registerRecord("b", `{"id":"b","kind":"scripted","cadence":"every 1h","config":{"url":"https://old.example/b"}}`)
		var mu sync.Mutex
		var moves []string
		stop := w.follow(func(_ context.Context, m poller.Move) error {
			mu.Lock()
			defer mu.Unlock()
			moves = append(moves, m.Account+" "+string(m.Config)+" "+m.To)
			if len(w.found(m.Account)) == 0 {
				t.Errorf("%s is moved before its messages are written", m.Account)
			}
			if m.Account == "b" {
				return accounts.ErrChanged
			}
			return nil
		})
		defer stop()
		time.Sleep(150 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		count := 0
		for _, m := range moves {
			if m == `a {"url":"https://old.example/a"} https://new.example/a` {
				count++
			}
		}
		if count != 1 || len(moves) < 3 {
			t.Errorf("followed %q", moves)
		}
		if w.counted("rounds_moves_total", "followed") != 1 || w.counted("rounds_moves_total", "changed") != float64(len(moves)-1) || w.counted("rounds_moves_total", "dropped") < 1 {
			t.Error("moves are not counted")
		}
	})
}
