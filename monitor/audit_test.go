package monitor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// An account that is lost to a flush comes back as its record says.
func TestAuditRegistersAgainAsTold(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a")
		w.Do("DEL", key(w.Ring, 0, "tickets"), key(w.Ring, 0, "schedule"))
		m, err := monitor.New(w.Ring, monitor.Config{AuditRepair: true}, monitor.Options{
			Log: faketime.Log(w.T), Metrics: monitor.NewMetrics(w.Metrics),
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
		stop := faketime.Go(w, m.Run)
		time.Sleep(time.Minute)
		stop()
		if v := w.Look("a"); v.Place != circulate.Scheduled || v.Priority != circulate.Low || time.Until(v.Due) < 58*time.Minute {
			w.Errorf("%+v", v)
		}
	})
}

func TestAuditShowsAndRepairsOnlyIfTold(t *testing.T) {
	for _, repair := range []bool{false, true} {
		inFakeTime(t, 2, func(w *world) {
			w.register("a", "b", "c")
			w.Do("ZREM", key(w.Ring, w.Ring.ShardOf("a"), "schedule"), "a")
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
			w.Placed(circulate.Scheduled, "a")
			expectLaw(w.T, w.Server, w.Ring, 3)
		})
	}
}

// A person who registers the first accounts looks at the audit.
func TestAuditSoonAfterAccountsCame(t *testing.T) {
	inFakeTime(t, 64, func(w *world) {
		w.register("a", "b", "c")
		stop := w.run(monitor.Config{SweepInterval: time.Minute})
		audited := func() (int, time.Time) {
			w.Helper()
			l, err := concern.Read(w.Context(), w.Ring)
			if err != nil || l.Last == nil {
				w.Fatalf("%+v, %v", l, err)
			}
			return l.Last.Accounts, l.Last.Began
		}
		time.Sleep(10 * time.Second)
		if n, _ := audited(); n != 3 {
			w.Errorf("%d accounts audited at first", n)
		}
		w.register("d", "e")
		time.Sleep(3 * time.Minute)
		n, began := audited()
		if n != 5 {
			w.Errorf("%d accounts audited some minutes after two came", n)
		}
		time.Sleep(5 * time.Minute)
		if _, again := audited(); !again.Equal(began) {
			w.Error("audited again, though no account came or went")
		}
		stop()
	})
}

// The findings of an audit are stored for everybody, even while it goes on. Another
// monitor continues it where the first one stopped.
func TestAuditIsKeptAndContinued(t *testing.T) {
	inFakeTime(t, 256, func(w *world) {
		w.register("a", "b", "c")
		holds := func(want concern.State) concern.Law {
			w.Helper()
			l, err := concern.Read(w.Context(), w.Ring)
			if err != nil {
				w.Fatal(err)
			}
			if l.State != want {
				w.Errorf("the law is %s, want %s", l.State, want)
			}
			return l
		}
		holds(concern.Never)
		stop := w.run(monitor.Config{SweepInterval: time.Minute})
		time.Sleep(11 * time.Second)
		first := holds(concern.First).Running
		if first.Audited == 0 || first.Audited == 256 {
			w.Errorf("after eleven seconds: %+v", first)
		}
		stop()
		w.NewMetrics()
		stop = w.run(monitor.Config{SweepInterval: time.Minute})
		time.Sleep(2 * time.Second)
		second := holds(concern.First).Running
		if !second.Began.Equal(first.Began) || second.Audited < first.Audited {
			w.Errorf("it was not continued: %+v after %+v", second, first)
		}
		time.Sleep(time.Minute)
		if l := holds(concern.Kept); l.Last.Accounts != 3 || l.Last.By != "monitor" || !l.Last.Began.Equal(first.Began) || l.Every != 600 {
			w.Errorf("%+v", l.Last)
		}
		w.Do("ZREM", key(w.Ring, w.Ring.ShardOf("a"), "schedule"), "a")
		time.Sleep(11 * time.Minute)
		if l := holds(concern.Violated); len(l.Last.Findings) != 1 || l.Last.Findings[0].ID != "a" {
			w.Errorf("%+v", l.Last)
		}
		stop()
	})
}

// An audit goes on after an outage of Redis, short or long, as soon as Redis serves, and the
// log says both.
func TestAuditGoesOnAfterAnOutage(t *testing.T) {
	for _, away := range []time.Duration{3 * time.Second, 70 * time.Second} {
		inFakeTime(t, 64, func(w *world) {
			w.register("a", "b", "c")
			var logs strings.Builder
			m, err := monitor.New(w.Ring, monitor.Config{}, monitor.Options{Log: faketime.Log(w.T, &logs), Metrics: monitor.NewMetrics(w.Metrics)})
			if err != nil {
				w.Fatal(err)
			}
			stop := faketime.Go(w, m.Run)
			law := func() concern.Law {
				l, err := concern.Read(w.Context(), w.Ring)
				if err != nil {
					w.Fatal(err)
				}
				return l
			}
			time.Sleep(3 * time.Second) // a small ring's audit takes some seconds
			before := law().Running
			if before == nil {
				w.Fatal("no audit is under way")
			}
			w.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
			time.Sleep(away)
			w.Miniredis().SetError("")
			time.Sleep(30 * time.Second)
			if l := law(); l.State != concern.Kept || !l.Last.Began.Equal(before.Began) || l.Last.Accounts != 3 {
				w.Errorf("%s, %+v", l.State, l.Last)
			}
			stop()
			if n, went := strings.Count(logs.String(), "an audit waits until Redis serves again"), strings.Count(logs.String(), "an audit goes on where it stopped"); n != 1 || went != 1 {
				w.Errorf("the log says %d times that an audit waits and %d times that it goes on:\n%s", n, went, logs.String())
			}
		})
	}
}

// While the number of shards changes, an audit finds an account that moves meanwhile in its old shard
// and in its new one, and says that it checked one.
func TestAnAuditCountsAnAccountThatMovesOnce(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		const n = 30
		for i := range n {
			w.register(fmt.Sprint("a", i))
		}
		old := w.Ring.Tag(0)
		if _, err := w.Ring.Mover().Begin(w.Context(), 2); err != nil {
			t.Fatal(err)
		}
		w.Ring = w.Open(w.Redis)
		stop := w.run(monitor.Config{CountInterval: time.Hour})
		audited := func() *concern.AuditResult {
			l, err := concern.Read(w.Context(), w.Ring)
			if err != nil {
				t.Fatal(err)
			}
			return l.Last
		}
		time.Sleep(60 * time.Millisecond) // the old shard was audited
		for _, name := range []string{"accounts", "tickets", "schedule"} {
			w.Do("RENAME", old+":"+name, w.Ring.Tag(w.Ring.Shards()-1)+":"+name)
		}
		time.Sleep(time.Second)
		if last := audited(); last == nil || last.Shards != 3 || last.Accounts != n {
			t.Errorf("%+v", last)
		}
		stop()
	})
}
