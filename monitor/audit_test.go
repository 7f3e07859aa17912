package monitor_test

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
)

func TestAuditShowsAndRepairsOnlyIfTold(t *testing.T) {
	for _, repair := range []bool{false, true} {
		inFakeTime(t, 2, func(w *world) {
			w.register("a", "b", "c")
			w.do("ZREM", key(w.ring, w.ring.ShardOf("a"), "schedule"), "a")
			stop := w.run(monitor.Config{AuditRepair: repair})
			time.Sleep(time.Minute)
			w.exposed("# TYPE rounds_audit_lost gauge\nrounds_audit_lost 1", "rounds_audit_lost")
			time.Sleep(10 * time.Minute) // the next one
			stop()
			if !repair {
				w.exposed("# TYPE rounds_audit_lost gauge\nrounds_audit_lost 1", "rounds_audit_lost")
				return
			}
			w.exposed("# TYPE rounds_audit_lost gauge\nrounds_audit_lost 0", "rounds_audit_lost")
			w.placed(circulate.Scheduled, "a")
			expectLaw(w.T, w.server, w.ring, 3)
		})
	}
}
