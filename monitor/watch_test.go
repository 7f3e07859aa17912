package monitor_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/monitor"
)

// watched returns what a monitor reported last, and how long ago.
func (w *world) watched() (told concern.Watched, silent time.Duration) {
	w.Helper()
	found, now, err := document.Of(w.Ring).Notices().Read(w.Context(), "watch")
	if err != nil {
		w.Fatal(err)
	}
	notice, ok := found["watch"]
	if !ok {
		w.Fatal("nothing was told")
	}
	if err := json.Unmarshal(notice.Text, &told); err != nil {
		w.Fatal(err)
	}
	return told, now.Sub(notice.Posted)
}

// The monitor on duty reports what it watches, with the age of each part.
func TestWhatIsWatchedIsTold(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.register("a", "b", "c")
		shard := w.Ring.ShardOf("a")
		b := w.claim(shard, alice, 1)
		back := circulate.Return{Claim: &b[0], Kind: "k", Due: time.Now().Add(time.Hour), Messages: []circulate.Message{{ID: "1"}, {ID: "2"}}}
		if _, err := w.Ring.Return(w.Context(), shard, []circulate.Return{back}); err != nil {
			w.Fatal(err)
		}
		if _, err := w.Ring.Streams().EnsureGroup(w.Context(), shard, "crm", circulate.StreamStart); err != nil {
			w.Fatal(err)
		}
		stop := w.run(monitor.Config{})
		time.Sleep(10*time.Minute + 45*time.Second)
		told, silent := w.watched()
		if silent > concern.WatchEvery {
			w.Errorf("told %v ago", silent)
		}
		if c := told.Counted; c == nil || c.Registered != 3 || c.Overdue < 600 || c.Seconds > 60 {
			w.Errorf("counted: %+v", c)
		}
		if g := told.Groups; g == nil || len(g.All) != 1 || g.All[0].Name != "crm" || g.All[0].Messages != 2 || g.All[0].Oldest < 600 || g.All[0].Near {
			w.Errorf("groups: %+v", g)
		}
		if g := told.Groups.All[0]; !g.Alone || g.Deferred != "" {
			w.Errorf("of a group without consumers: %+v", g)
		}
		since := told.Counted.Since
		if due := told.Counted.At.Add(-time.Duration(told.Counted.Overdue * float64(time.Second))); since.Before(due.Add(time.Minute)) || since.After(due.Add(3*time.Minute)) {
			w.Errorf("overdue since %v, due since %v", since, due)
		}
		time.Sleep(3 * time.Minute)
		if told, _ = w.watched(); !told.Counted.Since.Equal(since) {
			w.Errorf("overdue since %v, before that since %v", told.Counted.Since, since)
		}
		if told.Dead == nil || told.Dead.Letters != 0 || told.Trimmed != nil {
			w.Errorf("%+v", told)
		}
		stop()
		time.Sleep(time.Minute)
		if _, silent := w.watched(); silent < time.Minute {
			w.Errorf("told %v ago by a monitor that has stopped", silent)
		}
	})
}

// That accounts have begun to fail is told from the summary of problems, with the moment since
// which that is a concern. It stays with the next monitor, and ends with the failures.
func TestAJumpOfFailuresIsToldWithItsBeginning(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		for i := range 20 {
			w.enter(fmt.Sprint("well", i), time.Minute, "+", `{"kind":"feed","cadence":"every 5m"}`)
		}
		stop := w.run(monitor.Config{SweepInterval: time.Minute})
		failing := func() concern.Failing {
			t.Helper()
			told, _ := w.watched()
			if told.Failing == nil {
				t.Fatal("nothing was told")
			}
			return *told.Failing
		}
		time.Sleep(2 * time.Minute)
		if f := failing(); f.Newly != 0 || f.Of != 20 || !f.Since.IsZero() {
			t.Errorf("%+v", f)
		}
		for i := range 5 {
			w.fails(fmt.Sprint("ill", i), "feed", "news.example", "http_500: no", "")
		}
		began := time.Now()
		time.Sleep(2 * time.Minute)
		first := failing()
		if late := first.Since.Sub(began); first.Newly != 5 || first.Of != 25 || late < 0 || late > time.Minute {
			t.Errorf("began %v, %+v", began, first)
		}
		stop()
		w.NewMetrics()
		stop = w.run(monitor.Config{SweepInterval: time.Minute})
		defer stop()
		time.Sleep(3 * time.Minute)
		if f := failing(); !f.Since.Equal(first.Since) || !f.At.After(first.At) {
			t.Errorf("then %+v, before %+v", f, first)
		}
		time.Sleep(time.Hour)
		if f := failing(); f.Newly != 0 || !f.Since.IsZero() {
			t.Errorf("an hour later %+v", f)
		}
	})
}
