package monitor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
)

// A long check leaves its account where it is. Copies of accounts that have moved
// meanwhile stay no longer than it takes to confirm their arrival.
func TestCopiesOfMovedAccountsAreFreedWhileTheirShardIsLeft(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		var ids []string
		for i := range 300 {
			ids = append(ids, fmt.Sprintf("account-%03d", i))
		}
		w.register(ids...)
		slow := w.claim(0, alice, 1)[0]
		if _, err := w.Ring.Mover().Begin(w.Context(), 2); err != nil {
			t.Fatal(err)
		}
		w.Ring = w.Open(w.Redis)
		stop := w.run(monitor.Config{})
		pass := func() {
			t.Helper()
			for range 20 {
				report := fmt.Appendf(nil, `{"layout":%q}`, w.Ring.Layout())
				if _, err := w.Ring.Heartbeat(w.Context(), alice, report, time.Minute); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
		}
		pass()
		left, err := w.Ring.Mover().Remaining(w.Context(), 0)
		if want := (circulate.Leftover{Accounts: 1, Records: 1, Marked: true}); err != nil || left != want {
			t.Errorf("%+v are left, %v; want %+v", left, err, want)
		}
		if outcomes, err := w.Ring.Return(w.Context(), 0, []circulate.Return{{Claim: &slow, Due: time.Now().Add(time.Hour)}}); err != nil || outcomes[0] != circulate.Written {
			t.Fatalf("return: %v, %v", outcomes, err)
		}
		pass()
		if now, err := w.Ring.Mover().State(w.Context()); err != nil || now.Phase == circulate.Moving {
			t.Errorf("%+v, %v", now, err)
		}
		stop()
	})
}
