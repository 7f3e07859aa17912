package monitor_test

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// attend has processes report every second.
func (w *world) attend(d time.Duration, processes ...circulate.Process) {
	w.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		for _, p := range processes {
			if _, err := w.Ring.Roster().Attend(w.Context(), p, nil); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// TestProcessesThatGoAreCounted has one process leave and one go silent. Each is counted
// once, though two monitors look, and those that stay are not counted.
func TestProcessesThatGoAreCounted(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		stays := circulate.Process{Name: alice, Roles: "monitor"}
		leaves, dies := circulate.Process{Name: bob, Roles: "api"}, circulate.Process{Name: carol, Roles: "poller"}
		one := w.monitor(monitor.Config{DeadAfter: 10 * time.Second, SweepInterval: time.Second})
		two, err := monitor.New(w.Ring, monitor.Config{DeadAfter: 10 * time.Second, SweepInterval: time.Second}, monitor.Options{})
		if err != nil {
			w.Fatal(err)
		}
		stop := faketime.Go(w, one.Run)
		w.attend(20*time.Second, stays, leaves, dies)
		// At zero before one is lost, so that the first one is an increase.
		w.exposed(`# TYPE rounds_processes_lost_total counter
			rounds_processes_lost_total{roles="api"} 0
			rounds_processes_lost_total{roles="monitor"} 0
			rounds_processes_lost_total{roles="poller"} 0`, "rounds_processes_lost_total", "rounds_processes_left_total")
		w.exposed(`# TYPE rounds_processes gauge
			rounds_processes{roles="api"} 1
			rounds_processes{roles="monitor"} 1
			rounds_processes{roles="poller"} 1`, "rounds_processes")
		if err := w.Ring.Roster().Depart(w.Context(), leaves); err != nil {
			w.Fatal(err)
		}
		w.attend(9*time.Second, stays)
		w.exposed(`# TYPE rounds_processes_left_total counter
			rounds_processes_left_total{roles="api"} 1
			# TYPE rounds_processes_lost_total counter
			rounds_processes_lost_total{roles="api"} 0
			rounds_processes_lost_total{roles="monitor"} 0
			rounds_processes_lost_total{roles="poller"} 0`, "rounds_processes_lost_total", "rounds_processes_left_total")
		w.attend(6*time.Second, stays)
		w.exposed(`# TYPE rounds_processes_left_total counter
			rounds_processes_left_total{roles="api"} 1
			# TYPE rounds_processes_lost_total counter
			rounds_processes_lost_total{roles="api"} 0
			rounds_processes_lost_total{roles="monitor"} 0
			rounds_processes_lost_total{roles="poller"} 1`, "rounds_processes_lost_total", "rounds_processes_left_total")
		w.exposed(`# TYPE rounds_processes gauge
			rounds_processes{roles="monitor"} 1`, "rounds_processes")
		stopTwo := faketime.Go(w, two.Run)
		w.attend(time.Minute, stays)
		stop()
		stopTwo()
		w.exposed(`# TYPE rounds_processes_lost_total counter
			rounds_processes_lost_total{roles="api"} 0
			rounds_processes_lost_total{roles="monitor"} 0
			rounds_processes_lost_total{roles="poller"} 1`, "rounds_processes_lost_total")
	})
}

// TestNobodyIsLostWhileRedisIsAway has Redis refuse everybody, monitors included, for a
// minute. The lack of reports during that time proves nothing. The same holds if Redis
// answers but accepts no reports, as when it is out of memory.
func TestNobodyIsLostWhileRedisIsAway(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		process := circulate.Process{Name: alice, Roles: "poller"}
		stop := faketime.Go(w, w.monitor(monitor.Config{DeadAfter: 10 * time.Second, SweepInterval: time.Second}).Run)
		w.attend(20*time.Second, process)
		w.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(time.Minute)
		w.Miniredis().SetError("")
		time.Sleep(5 * time.Second) // late, but no monitor was watching
		w.attend(20*time.Second, process)
		time.Sleep(time.Minute) // no report arrives
		w.attend(5*time.Second, process)
		stop()
		w.exposed("# TYPE rounds_processes_lost_total counter\nrounds_processes_lost_total{roles=\"poller\"} 0", "rounds_processes_lost_total")
	})
}
