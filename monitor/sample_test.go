package monitor_test

import (
	"encoding/json"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/history"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// curves returns the stored figures of some time, by figure.
func (w *world) curves(q history.Query) map[history.Field][]float64 {
	w.Helper()
	c, err := history.NewReader(w.Ring).Look(w.Context(), q)
	if err != nil {
		w.Fatal(err)
	}
	all := make(map[history.Field][]float64)
	for _, curve := range c.Curves {
		all[curve.Field] = curve.Mean
	}
	return all
}

// works has a replica send a heartbeat every second for a while, with the given checks a
// second.
func (w *world) works(replica string, done *history.Totals, checks uint64, d time.Duration) {
	w.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		done.Checks += checks
		done.Failures += checks / 4
		done.Messages += 1
		for range checks {
			done.Lateness.Add(100 * time.Millisecond)
		}
		text, err := json.Marshal(accounts.Report{Totals: done})
		if err != nil {
			w.Fatal(err)
		}
		if _, err := w.Ring.Heartbeat(w.Context(), replica, text, time.Minute); err != nil {
			w.Fatal(err)
		}
	}
}

func TestTheMonitorOnDutyKeepsSamples(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		w.register("a", "b", "c", "parked")
		if _, err := w.Ring.Park(w.Context(), w.Ring.ShardOf("parked"), circulate.ReasonPaused, []string{"parked"}); err != nil {
			w.Fatal(err)
		}
		if err := w.Ring.KeepStaleness(w.Context(), []byte(`{"at":"`+time.Now().UTC().Format(time.RFC3339)+`","seconds_p99":70,"seconds_max":90,"failing":{"accounts":7}}`)); err != nil {
			w.Fatal(err)
		}
		begin := time.Now()
		var done history.Totals
		stopFirst := w.run(monitor.Config{})
		w.NewMetrics()
		stop := w.run(monitor.Config{})
		w.works(alice, &done, 8, 2*time.Minute)
		stopFirst() // the other takes over, ten seconds later at most
		w.works(alice, &done, 8, 18*time.Minute)

		all := w.curves(history.Query{From: begin, To: begin.Add(19 * time.Minute), Step: history.Every})
		for field, want := range map[history.Field]float64{
			history.ChecksPerSecond: 8, history.MessagesPerSecond: 1, history.FailingShare: 0.25, history.Replicas: 1,
			history.Registered: 4, history.Parked: 1, history.Scheduled: 3, history.Waiting: 0,
		} {
			gaps := 0
			for i, v := range all[field] {
				if math.IsNaN(v) {
					gaps++
				} else if i > 14 && math.Abs(v-want) > want/100 {
					w.Errorf("%s, sample %d: %v, want %v", field, i, v, want)
				}
			}
			// At the start, and at the change: for a rate each takes two samples.
			if gaps > 4 {
				w.Errorf("%s: %d gaps in %v", field, gaps, all[field])
			}
		}
		if late := all[history.LatenessP99][100]; late < 0.1 || late > 0.15 {
			w.Errorf("lateness %v", late)
		}
		for _, field := range []history.Field{history.MemoryUsed, history.MemoryLimit} { // the embedded server reports none
			if v := all[field][100]; !math.IsNaN(v) {
				w.Errorf("%s: %v", field, v)
			}
		}
		if n := len(all[history.Registered]); n != 114 {
			w.Errorf("%d points", n)
		}
		// The scans of the monitors replaced the first one's figures.
		if v := all[history.StalenessMax][1]; v != 90 && v > 30 {
			w.Errorf("staleness %v", v)
		}
		stop()

		// The replica is gone, and so are the monitors.
		time.Sleep(time.Minute)
		last := w.curves(history.Query{Before: 50 * time.Second, Step: history.Every})
		if v := last[history.Replicas]; !math.IsNaN(v[1]) {
			w.Errorf("there are samples though nobody is on duty: %v", v)
		}
		w.NewMetrics()
		stop = w.run(monitor.Config{})
		time.Sleep(time.Minute)
		last = w.curves(history.Query{Before: 30 * time.Second, Until: 10 * time.Second, Step: history.Every})
		if fmt.Sprint(last[history.Replicas], last[history.ChecksPerSecond], last[history.FailingShare]) != "[0 0] [0 0] [NaN NaN]" {
			w.Errorf("without replicas: %v", last)
		}
		stop()
	})
}

func TestASampleCostsTwoCommands(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		var appended, asked atomic.Int64
		w.Server.Set(func(s faketime.Step) faketime.Fate {
			if s.At == faketime.Connect && (s.Key == "rounds:series:10s" || s.Key == "rounds:series:2m") {
				appended.Add(1)
			}
			if s.At == faketime.Call && s.Command == "EVALSHA" && fmt.Sprint(s.Args[2]) == "rounds:replicas" {
				asked.Add(1)
			}
			return faketime.Healthy
		})
		stop := w.run(monitor.Config{SweepInterval: time.Hour})
		time.Sleep(10 * time.Minute)
		// 60 samples, and two more calls for every two minutes.
		if a, r := appended.Load(), asked.Load(); a < 68 || a > 75 || r < 60 || r > 75 {
			w.Errorf("%d calls for the samples, %d for the replicas", a, r)
		}
		stop()
	})
}
