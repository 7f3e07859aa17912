package monitor_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/maintenance"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// threeDays retains messages of the kind "wecom" for as long as a config says, or for
// three days.
type threeDays struct{}

func (threeDays) Retaining() []string { return []string{"wecom"} }

func (threeDays) Retention(kind string, config json.RawMessage) time.Duration {
	if kind != "wecom" {
		return 0
	}
	var c struct{ Hours int }
	if _ = json.Unmarshal(config, &c); c.Hours != 0 {
		return time.Duration(c.Hours) * time.Hour
	}
	return 72 * time.Hour
}

// logbook records log lines.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logbook) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// watch runs a monitor that knows retentions for a while. It returns the monitor's log
// and the last value of its metric.
func (w *world) watch(d time.Duration) (log *logbook, shown string) {
	w.Helper()
	w.NewMetrics()
	log = new(logbook)
	m, err := monitor.New(w.Ring, monitor.Config{SweepInterval: time.Minute}, monitor.Options{
		Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: monitor.NewMetrics(w.Metrics), Retentions: threeDays{},
	})
	if err != nil {
		w.Fatal(err)
	}
	stop := faketime.Go(w, m.Run)
	time.Sleep(d)
	shown = w.headroomShown()
	stop()
	return log, shown
}

// headroomShown returns what the metric shows for that many accounts.
func (w *world) headroomShown() (shown string) {
	w.Helper()
	families, err := w.Metrics.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "rounds_headroom_accounts" {
			continue
		}
		for _, m := range f.GetMetric() {
			shown += fmt.Sprint(m.GetLabel()[1].GetValue(), "=", m.GetGauge().GetValue(), " ")
		}
	}
	return shown
}

func (w *world) registerKind(kind, config string, ids ...string) {
	w.Helper()
	for _, id := range ids {
		record := fmt.Appendf(nil, `{"id":%q,"kind":%q,"config":%s}`, id, kind, config)
		if _, err := w.Ring.Register(w.Context(), w.Ring.ShardOf(id), []circulate.Registration{{ID: id, Record: record}}); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) park(reason, id string) {
	w.Helper()
	if _, err := w.Ring.Park(w.Context(), w.Ring.ShardOf(id), reason, []string{id}); err != nil {
		w.Fatal(err)
	}
}

// TestHeadroomShrinks lets unchecked accounts come near to losing messages: a paused one,
// one that is late, and one whose third party keeps messages for a shorter time.
func TestHeadroomShrinks(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		w.registerKind("wecom", `{}`, "paused", "late")
		w.registerKind("wecom", `{"hours":240}`, "kept for long")
		w.registerKind("feed", `{"x":{"kind":"wecom"}}`, "of another kind")
		w.park(circulate.ReasonPaused, "paused")
		at := func(hours int, want string, least float64, low, critical, past int) {
			w.Helper()
			time.Sleep(time.Until(time.Date(2000, 1, 1, hours, 0, 0, 0, time.UTC)))
			log, shown := w.watch(2 * time.Minute)
			s := w.staleness()
			if len(s.Headroom) != 1 {
				w.Fatalf("after %d h: %+v", hours, s.Headroom)
			}
			h := s.Headroom[0]
			if h.Kind != "wecom" || h.Low != low || h.Critical != critical || h.Past != past || h.Least > least || h.Least < least-180 {
				w.Errorf("after %d h: %+v", hours, h)
			}
			if low > 0 && h.Parked != 1 {
				w.Errorf("after %d h: %d of those are parked", hours, h.Parked)
			}
			if shown != want {
				w.Errorf("after %d h: %q is shown, want %q", hours, shown, want)
			}
			warnings := log.count("messages will be lost")
			if wanted := map[bool]int{true: 1}[low > 0]; warnings != wanted {
				w.Errorf("after %d h: %d warnings, want %d", hours, warnings, wanted)
			}
		}
		at(2, "critical=0 low=0 past=0 ", 70*3600, 0, 0, 0)
		at(37, "critical=0 low=2 past=0 ", 35*3600, 2, 0, 0)
		at(55, "critical=2 low=0 past=0 ", 17*3600, 2, 2, 0)
		at(73, "critical=0 low=0 past=2 ", -3600, 2, 2, 2)
	})
}

// TestWhatIsAboutToBeForgottenGoesFirst leaves accounts unchecked for longer than three
// quarters of the time for which their third party retains messages.
func TestWhatIsAboutToBeForgottenGoesFirst(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.registerKind("wecom", `{}`, "soon", "backs off", "paused")
		w.registerKind("wecom", `{"hours":60}`, "sooner")
		w.registerKind("wecom", `{"hours":240}`, "kept for long")
		w.registerKind("feed", `{"x":{"kind":"wecom"}}`, "of another kind")
		w.park(circulate.ReasonPaused, "paused")
		w.Do("ZADD", key(w.Ring, 0, "schedule"), time.Now().Add(56*time.Hour).UnixMilli(), "backs off")
		time.Sleep(50 * time.Hour)
		w.watch(2 * time.Minute)
		w.Placed(circulate.Waiting, "sooner")
		w.Placed(circulate.Scheduled, "soon", "backs off", "kept for long", "of another kind")
		time.Sleep(5 * time.Hour)
		w.Do("ZADD", key(w.Ring, 0, "schedule"), time.Now().Add(-55*time.Hour).UnixMilli(), "sooner")
		w.Do("DEL", key(w.Ring, 0, "message_queue:urgent"))
		log, _ := w.watch(2 * time.Minute)
		if log.count("will soon forget messages") != 1 {
			w.Error("it is not logged once")
		}
		w.Placed(circulate.Scheduled, "backs off", "kept for long", "of another kind")
		w.Placed(circulate.Parked, "paused")
		b, err := w.Ring.Claim(w.Context(), 0, "alice00000", 2, 0)
		if err != nil || len(b.Claims) != 2 || b.Claims[0].ID != "sooner" || b.Claims[1].ID != "soon" {
			w.Errorf("%v, %v", b.Claims, err)
		}
	})
}

// TestParkedAccountsAreTriedBeforeTheirMessagesAreGone leaves accounts parked for seven
// of seventy-two hours, without any probe interval.
func TestParkedAccountsAreTriedBeforeTheirMessagesAreGone(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		w.registerKind("wecom", `{}`, "auth", "budget", "gone", "paused")
		w.registerKind("feed", `{}`, "feed")
		for id, reason := range map[string]string{
			"auth": "auth: refused", "budget": "retry budget: 16 failures in a row", "gone": "gone: deleted", "paused": circulate.ReasonPaused, "feed": "auth: refused",
		} {
			w.park(reason, id)
		}
		w.registerKind("wecom", `{"hours":240}`, "kept for long")
		w.park("auth: refused", "kept for long")
		time.Sleep(5 * time.Hour)
		w.watch(2 * time.Minute)
		w.Placed(circulate.Parked, "auth", "budget", "gone", "paused", "feed", "kept for long")
		time.Sleep(2 * time.Hour)
		if log, _ := w.watch(2 * time.Minute); log.count("tried again") == 0 {
			w.Error("it is not logged")
		}
		w.Placed(circulate.Scheduled, "auth", "budget")
		w.Placed(circulate.Parked, "gone", "paused", "feed", "kept for long")
		if v := w.Look("auth"); v.Rule != circulate.RuleProbed {
			w.Errorf("it is due by %c", v.Rule)
		}
		// After it was parked again, it is left alone for another six hours.
		w.park("auth: refused", "auth")
		w.watch(2 * time.Minute)
		w.Placed(circulate.Parked, "auth")
	})
}

// TestAccountsInAWindowAreNoConcern leaves accounts unchecked, or lets them fail, until their messages
// are about to be lost. Those in a maintenance window count as neither, and do again after it.
func TestAccountsInAWindowAreNoConcern(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		for id, host := range map[string]string{"in window": "old.example", "outside": "new.example"} { // both failed in a window
			w.enter(id, 60*time.Hour, "W+++++++", fmt.Sprintf(`{"id":%q,"kind":"wecom","config":{"url":"https://%s/x"},"cadence":"every 1h"}`, id, host))
		}
		begin := time.Now()
		if _, err := maintenance.Of(w.Ring).Put(w.Context(), maintenance.Window{Name: "disks", Host: "old.example", Until: begin.Add(time.Hour), Reason: "new disks"}); err != nil {
			t.Fatal(err)
		}
		w.watch(2 * time.Minute)
		s := w.staleness()
		if len(s.Headroom) != 1 || s.Headroom[0].Low != 1 || s.Headroom[0].Account != "outside" {
			t.Errorf("in the window: %+v", s.Headroom)
		}
		if f := w.scanned(); f.Behind != 0 || f.MissedMax != 0 {
			t.Errorf("in the window: %+v", f)
		}
		time.Sleep(time.Until(begin.Add(time.Hour)))
		w.watch(2 * time.Minute)
		if s := w.staleness(); len(s.Headroom) != 1 || s.Headroom[0].Low != 2 {
			t.Errorf("after the window: %+v", s.Headroom)
		}
		if f := w.scanned(); f.Behind != 2 {
			t.Errorf("after the window: %+v", f)
		}
	})
}

// TestHeadroomNeedsToKnow scans without knowing how long any third party keeps messages.
func TestHeadroomNeedsToKnow(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.registerKind("wecom", `{}`, "a")
		time.Sleep(100 * time.Hour)
		stop := w.run(monitor.Config{})
		time.Sleep(2 * time.Minute)
		stop()
		if s := w.staleness(); s == nil || s.Headroom != nil {
			t.Errorf("%+v", s)
		}
	})
}

var _ accounts.Retentions = threeDays{}
