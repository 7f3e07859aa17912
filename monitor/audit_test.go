package monitor_test

import (
	"context"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
)

// The one that is lost to a flush comes back as its record says.
func TestAuditRegistersAgainAsTold(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a")
		w.do("DEL", key(w.ring, 0, "tickets"), key(w.ring, 0, "schedule"))
		m, err := monitor.New(w.ring, monitor.Config{AuditRepair: true}, monitor.Options{
			Log: testLog(w.T), Metrics: monitor.NewMetrics(w.registry),
			Registration: func(id string, record []byte, now time.Time) circulate.Registration {
				if id != "a" || string(record) != "{}" || now.IsZero() {
					w.Errorf("asked for %q, %s, %v", id, record, now)
				}
				return circulate.Registration{Due: now.Add(time.Hour), Priority: circulate.Low}
			},
		})
		if err != nil {
			w.Fatal(err)
		}
		ctx, cancel := context.WithCancel(w.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
		if v := w.look("a"); v.Place != circulate.Scheduled || v.Priority != circulate.Low || time.Until(v.Due) < 58*time.Minute {
			w.Errorf("%+v", v)
		}
	})
}

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
