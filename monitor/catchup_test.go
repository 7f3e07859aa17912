package monitor_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/monitor"
)

// While accounts are late, the monitor on duty says when they are in time again, or that they
// never are. Where none is late, and where nobody checks, it does not.
func TestCatchUpIsTold(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		const n = 100
		var ids []string
		for i := range n {
			ids = append(ids, fmt.Sprintf("account%03d", i))
		}
		w.register(ids...)
		due := func(in time.Duration) {
			for _, id := range ids {
				w.Do("ZADD", w.Key(w.Ring.ShardOf(id), "schedule"), time.Now().Add(in).UnixMilli(), id)
			}
		}
		pass := func(d time.Duration, checks float64) *accounts.CatchUp {
			w.Helper()
			for began := time.Now(); time.Since(began) < d; time.Sleep(2 * time.Second) {
				if checks == 0 {
					continue
				}
				if _, err := w.Ring.Heartbeat(w.Context(), alice, fmt.Appendf(nil, `{"checks_per_second":%v}`, checks), time.Minute); err != nil {
					w.Fatal(err)
				}
			}
			found, err := concern.LastCatchUp(w.Context(), w.Ring)
			if err != nil {
				w.Fatal(err)
			}
			return found
		}
		gauge := func() float64 { return w.Counted("rounds_catch_up_seconds", "") }

		due(-30 * time.Minute)
		defer w.run(monitor.Config{})()
		if found := pass(2*time.Minute, 0); found != nil || gauge() != 0 {
			w.Errorf("without a replica: %+v, %v", found, gauge())
		}
		found := pass(3*time.Minute, 10)
		if found == nil || found.Never || found.Late != n || found.Made != 10 || found.Seconds < 5 || found.Seconds > 15 || gauge() != found.Seconds {
			w.Errorf("of ten checks a second: %+v, %v", found, gauge())
		}
		if found := pass(2*time.Minute, 0.01); found == nil || !found.Never || !math.IsInf(gauge(), 1) {
			w.Errorf("of too few checks: %+v, %v", found, gauge())
		}
		due(time.Hour)
		if found := pass(2*time.Minute, 10); found != nil || gauge() != 0 {
			w.Errorf("in time: %+v, %v", found, gauge())
		}
	})
}
