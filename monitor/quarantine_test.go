package monitor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
)

// strike has a replica claim an account and never return it.
func (w *world) strike(m *monitor.Monitor, id string) {
	w.Helper()
	if len(w.claim(w.Ring.ShardOf(id), alice, 1)) != 1 {
		w.Fatalf("%q was not there to claim", id)
	}
	w.pass(6*time.Minute, alice)
	w.sweep(m, 1, 0)
}

func TestFiveStrikesEndInQuarantine(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a")
		m := w.monitor(monitor.Config{})
		for range 4 {
			w.strike(m, "a")
			w.Placed(circulate.Waiting, "a")
		}
		w.strike(m, "a")
		v := w.Look("a")
		if v.Place != circulate.Parked || v.Reason != "quarantine: taken from a replica 5 times in a row, last from "+alice+": its checks hang or kill replicas" {
			w.Errorf("%s, %q", v.Place, v.Reason)
		}
		if n := len(w.claim(0, bob, 10)); n != 0 {
			w.Errorf("%d claimed", n)
		}
		expectLaw(w.T, w.Server, w.Ring, 1)
		if err := w.Ring.Account("a").Resume(w.Context(), circulate.Resumption{}); err != nil {
			w.Fatal(err)
		}
		w.strike(m, "a")
		w.Placed(circulate.Waiting, "a") // it has a clean slate
		if v := w.Look("a"); v.Strikes != 1 {
			w.Errorf("%d strikes", v.Strikes)
		}
	})
}

func TestReturnedChecksWipeStrikesOut(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a")
		m := w.monitor(monitor.Config{Quarantine: 2})
		for range 3 {
			w.strike(m, "a")
			c := w.claim(0, bob, 1)[0]
			outcomes, err := w.Ring.Return(w.Context(), 0, []circulate.Return{{Claim: &c, Mark: circulate.MarkOK}})
			if err != nil || outcomes[0] != circulate.Written {
				w.Fatal(outcomes, err)
			}
		}
		w.Placed(circulate.Waiting, "a")
		w.strike(m, "a")
		w.strike(m, "a")
		w.Placed(circulate.Parked, "a")
	})
}

func TestQuarantineCanBeTurnedOff(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a")
		m := w.monitor(monitor.Config{Quarantine: monitor.Never})
		for range 8 {
			w.strike(m, "a")
		}
		w.Placed(circulate.Waiting, "a")
	})
}

// A late quarantine must not undo what somebody did to the account before.
func TestQuarantineLeavesAloneWhoWasDealtWith(t *testing.T) {
	for name, deal := range map[string]func(w *world) (circulate.Place, string){
		"paused": func(w *world) (circulate.Place, string) {
			if _, err := w.Ring.Park(context.Background(), 0, circulate.ReasonPaused, []string{"a"}); err != nil {
				w.Fatal(err)
			}
			return circulate.Parked, circulate.ReasonPaused
		},
		"changed": func(w *world) (circulate.Place, string) {
			if _, err := w.Ring.Upsert(context.Background(), 0, []circulate.Registration{{ID: "a", Record: []byte(`{"new":1}`)}}); err != nil {
				w.Fatal(err)
			}
			return circulate.Scheduled, ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, 1, func(w *world) {
				w.register("a")
				m := w.monitor(monitor.Config{Quarantine: 1})
				w.claim(0, alice, 1)
				place, reason := deal(w)
				w.pass(6*time.Minute, alice)
				if s := w.sweep(m, 1, 0); s.Quarantined != 0 {
					w.Errorf("swept %+v", s)
				}
				if v := w.Look("a"); v.Place != place || v.Reason != reason {
					w.Errorf("%s, %q", v.Place, v.Reason)
				}
				expectLaw(w.T, w.Server, w.Ring, 1)
			})
		})
	}
}

func TestParkedAccountsAreTriedAgain(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		reasons := map[string]string{
			"a": "retry budget: 16 failures", "b": "auth: refused", "c": "retry budget: 16 failures",
			"p": circulate.ReasonPaused, "q": "quarantine: x", "g": "gone: no such feed",
		}
		for id, reason := range reasons {
			w.register(id)
			c := w.claim(w.Ring.ShardOf(id), alice, 1)[0]
			outcomes, err := w.Ring.Return(w.Context(), c.Shard, []circulate.Return{{Claim: &c, Failures: 16, Park: reason}})
			if err != nil || outcomes[0] != circulate.Written {
				w.Fatal(outcomes, err)
			}
		}
		stopA := w.run(monitor.Config{ProbeInterval: time.Hour, ProbeRate: 1, SweepInterval: time.Minute})
		w.NewMetrics()
		stopB := w.run(monitor.Config{ProbeInterval: time.Hour, ProbeRate: 1, SweepInterval: time.Minute}) // a second one changes nothing
		time.Sleep(time.Hour - time.Second)
		w.Placed(circulate.Parked, "a", "b", "c", "p", "q", "g")
		time.Sleep(2 * time.Minute)
		w.Placed(circulate.Scheduled, "a", "b", "c")
		w.Placed(circulate.Parked, "p", "q", "g")
		due := make(map[int64]bool)
		for _, id := range []string{"a", "b", "c"} {
			v := w.Look(id)
			if v.Failures != 16 || v.Rule != circulate.RuleProbed {
				w.Errorf("%q: %d failures, rule %c", id, v.Failures, v.Rule)
			}
			due[v.Due.Unix()] = true
		}
		if len(due) != 3 {
			w.Errorf("due at %d different seconds, want 3", len(due))
		}
		stopA()
		stopB()
	})
}

func TestWithoutProbeIntervalParkedStaysParked(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a")
		if _, err := w.Ring.Park(w.Context(), 0, "retry budget: 16", []string{"a"}); err != nil {
			w.Fatal(err)
		}
		stop := w.run(monitor.Config{SweepInterval: time.Hour, CountInterval: time.Hour})
		time.Sleep(6 * time.Hour)
		stop()
		w.Placed(circulate.Parked, "a")
		if strings.Contains(w.Look("a").Reason, "quarantine") {
			w.Error("the reason changed")
		}
	})
}
