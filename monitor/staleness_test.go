package monitor_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
)

func (w *world) staleness() *accounts.Staleness {
	w.Helper()
	text, err := w.Ring.LastStaleness(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	if text == nil {
		return nil
	}
	var s accounts.Staleness
	if err := json.Unmarshal(text, &s); err != nil {
		w.Fatal(err)
	}
	return &s
}

// The scan does not trust the scheduler: it finds the account that is in no place at all.
func TestStalenessFindsWhoFellOutOfTheRing(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		w.register("lost", "parked")
		if _, err := w.Ring.Park(w.Context(), w.Ring.ShardOf("parked"), circulate.ReasonPaused, []string{"parked"}); err != nil {
			w.Fatal(err)
		}
		w.Do("ZREM", key(w.Ring, w.Ring.ShardOf("lost"), "schedule"), "lost")
		time.Sleep(time.Hour)
		for i := range 99 {
			w.register(fmt.Sprint("a", i))
		}
		if s := w.staleness(); s != nil {
			w.Errorf("there is %+v before the first scan", s)
		}
		stop := w.run(monitor.Config{SweepInterval: time.Minute})
		time.Sleep(time.Minute)
		s := w.staleness()
		if s == nil {
			w.Fatal("no scan within a minute")
		}
		if s.Scanned != 100 || s.ParkedExcluded != 1 || s.Stalest != "lost" || s.Max < 3600 || s.Max > 3660 || s.P50 > 60 || s.P99 > 60 {
			w.Errorf("%+v", s)
		}
		time.Sleep(time.Hour)
		if s := w.staleness(); s.Max < 7200 || s.P50 < 3600 || s.P50 > 3660*1.1 {
			w.Errorf("%+v", s)
		}
		stop()
	})
}

// A scan goes on after an outage of Redis with the shard that it was in, so that its figures
// are not from before the outage for long.
func TestAScanGoesOnAfterAnOutage(t *testing.T) {
	inFakeTime(t, 16, func(w *world) {
		w.register("a", "b", "c", "d", "e", "f")
		stop := w.run(monitor.Config{})
		time.Sleep(10*time.Second + 300*time.Millisecond) // of 16, a second for each shard
		w.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(10 * time.Second)
		w.Miniredis().SetError("")
		time.Sleep(15 * time.Second) // a scan that began anew would take longer
		if s := w.staleness(); s == nil || s.Scanned != 6 {
			w.Errorf("found %+v", s)
		}
		stop()
	})
}

// Two monitors count and scan no more than one does, and the second takes over from the
// first. A monitor that is not on duty shows none of the findings of the one on duty.
func TestOneMonitorIsOnDuty(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.register("a")
		stopFirst := w.run(monitor.Config{})
		time.Sleep(time.Second)
		first := w.Metrics
		w.NewMetrics()
		stopSecond := w.run(monitor.Config{})
		time.Sleep(2 * time.Minute)
		shared := []string{
			"rounds_accounts", "rounds_stream_messages", "rounds_overdue_seconds", "rounds_staleness_seconds", "rounds_staleness_scan_seconds", "rounds_missed_slots",
			"rounds_audit_lost", "rounds_audit_duplicated", "rounds_audit_unjudged", "rounds_audit_findings", "rounds_audit_seconds",
		}
		shown := func() (n int) {
			families, err := w.Metrics.Gather()
			if err != nil {
				w.Fatal(err)
			}
			for _, f := range families {
				if slices.Contains(shared, f.GetName()) {
					n++
				}
			}
			return n
		}
		if n := shown(); n != 0 {
			w.Errorf("the second monitor shows %d of %v", n, shared)
		}
		w.exposed("# TYPE rounds_monitor_on_duty gauge\nrounds_monitor_on_duty 0", "rounds_monitor_on_duty")
		stopFirst()
		time.Sleep(30 * time.Second)
		if n := shown(); n != len(shared) {
			w.Errorf("nobody took over: %d of %v are shown", n, shared)
		}
		w.exposed("# TYPE rounds_monitor_on_duty gauge\nrounds_monitor_on_duty 1", "rounds_monitor_on_duty")

		// When the duty goes to another monitor, this one's findings no longer show.
		w.Do("SET", "{rounds:replicas}:duties", "another")
		time.Sleep(time.Minute)
		if n := shown(); n != 0 {
			w.Errorf("off duty, %d of %v are shown", n, shared)
		}
		stopSecond()
		w.Metrics = first
	})
}
