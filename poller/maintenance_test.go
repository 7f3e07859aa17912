package poller_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/maintenance"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// TestFailuresInAWindowCountNowhere has the accounts of a host and those with a label fail in
// every way for the hour of a maintenance window. None is parked, counted or among the failing ones,
// though all are still checked. Other accounts pay as ever, and after the window all do.
func TestFailuresInAWindowCountNowhere(t *testing.T) {
	inFakeTime(t, func(w *world) {
		hosted := w.fleet("old.example", "h", "every 1m", 6)
		w.registerRecord("l", `{"id":"l","kind":"scripted","cadence":"every 1m","labels":{"team":"press"}}`)
		w.registerRecord("o", `{"id":"o","kind":"scripted","cadence":"every 1m","labels":{"team":"sports"}}`)
		covered := append(slices.Clone(hosted), "l")
		failures := []error{
			&poller.CheckError{Kind: poller.Transient, Code: "odd", Message: "odd"},
			&poller.CheckError{Kind: poller.AuthFailed, Final: true, Code: "refused", Message: "no"},
			&poller.CheckError{Kind: poller.Gone, Code: "http_410", Message: "gone"},
			&poller.CheckError{Kind: poller.ConfigInvalid, Code: "config", Message: "bad"},
		}
		var broken atomic.Bool
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			if !broken.Load() {
				return poller.Result{}, nil
			}
			return poller.Result{}, failures[int(r.Account[len(r.Account)-1])%len(failures)]
		}
		windows := maintenance.Of(w.ring)
		begin := time.Now().Add(10 * time.Minute)
		for _, one := range []maintenance.Window{
			{Name: "host", Host: "OLD.example", From: begin, Until: begin.Add(time.Hour), Reason: "new disks"},
			{Name: "press", Labels: map[string]string{"team": "press"}, From: begin, Until: begin.Add(time.Hour), Reason: "new disks"},
		} {
			if _, err := windows.Put(w.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
		stop := w.start(poller.Config{})
		time.Sleep(11 * time.Minute)
		began := time.Now()
		broken.Store(true)
		time.Sleep(50 * time.Minute)
		for _, id := range covered {
			v := w.look(id)
			if v.Place == circulate.Parked || v.Failures != 0 || accounts.LastFailed(&v) || accounts.MarkWord(v.History.Marks[0]) != accounts.MarkMaintenance {
				t.Errorf("in the window %s is %s (%s) with %d failures and the marks %q", id, v.Place, v.Reason, v.Failures, v.History.Marks)
			}
			if n := w.checker.between([]string{id}, began, time.Now()); n < 20 {
				t.Errorf("%s was checked %d times in 50 minutes", id, n)
			}
		}
		for shard := range w.ring.Shards() {
			page, err := w.ring.Failing().Scan(w.Context(), shard, "0", 1000, accounts.SoundMarks())
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range page.Accounts {
				if a.ID != "o" {
					t.Errorf("%s is among the failing accounts", a.ID)
				}
			}
		}
		if v := w.look("o"); v.Place != circulate.Parked && v.Failures == 0 {
			t.Errorf("an account outside is %s with %d failures", v.Place, v.Failures)
		}
		if n := w.counted("rounds_check_failures_total", "maintenance"); n < 100 {
			t.Errorf("%v failures have the class maintenance", n)
		}
		time.Sleep(30 * time.Minute)
		stop()
		for _, id := range covered {
			if v := w.look(id); v.Place != circulate.Parked && v.Failures == 0 {
				t.Errorf("after the window %s is %s with %d failures", id, v.Place, v.Failures)
			}
		}
	})
}

// TestWindowsAreReadWithEachHeartbeat: a window that is added or removed while a replica runs is
// heeded within a heartbeat.
func TestWindowsAreReadWithEachHeartbeat(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
			return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Code: "odd", Message: "odd"}
		}
		windows := maintenance.Of(w.ring)
		w.registerRecord("b", `{"id":"b","kind":"scripted","cadence":"every 10s","labels":{"k":"v"}}`)
		stop := w.start(poller.Config{Heartbeat: 2 * time.Second})
		time.Sleep(time.Second)
		if _, err := windows.Put(w.Context(), maintenance.Window{Name: "w", Labels: map[string]string{"k": "v"}, Until: time.Now().Add(time.Hour), Reason: "tests"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		before := w.look("b").Failures
		time.Sleep(10 * time.Minute)
		if v := w.look("b"); v.Failures != before {
			t.Errorf("%d failures, and %d before the window", v.Failures, before)
		}
		if there, err := windows.Remove(w.Context(), "w"); err != nil || !there {
			t.Fatal(there, err)
		}
		time.Sleep(5 * time.Minute)
		stop()
		if v := w.look("b"); v.Failures <= before {
			t.Errorf("%d failures after the window was removed", v.Failures)
		}
	})
}
