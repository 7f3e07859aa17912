package poller_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/activity"
	"github.com/rounds-dev/rounds/poller"
)

// What checks did is in the sheets of their minutes, also what a stopped replica did last, and each
// check counts once.
func TestChecksAreCountedForCharts(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			switch r.Account {
			case "slow":
				time.Sleep(3 * time.Second)
			case "broken":
				return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "http_500"}
			case "loud":
				id := fmt.Sprint(time.Now().UnixNano())
				return poller.Result{Messages: []poller.Message{{ID: id + "a"}, {ID: id + "b"}}, Cursor: []byte(id)}, nil
			}
			return poller.Result{}, nil
		}
		for _, id := range []string{"slow", "broken", "loud", "calm"} {
			w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"scripted","cadence":"every 10s","labels":{"team":"press"},"config":{"url":"https://news.example.org/x"}}`, id))
		}
		stop := w.start(poller.Config{Replica: "alice00000"})
		time.Sleep(5*time.Minute + 30*time.Second)
		stop()
		time.Sleep(2 * time.Minute)
		c, err := activity.NewReader(w.ring).Look(w.Context(), activity.Query{})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		for _, id := range []string{"slow", "broken", "loud", "calm"} {
			calls += len(w.checker.calls(id))
		}
		s := c.Sum
		if s.All.Checks != uint64(calls) || s.Parts[activity.Kinds]["scripted"].Checks != uint64(calls) || s.Parts[activity.Hosts]["news.example.org"].Checks != uint64(calls) || s.Parts[activity.Labels]["team=press"].Checks != uint64(calls) {
			t.Errorf("%d calls, counted %+v", calls, s.All)
		}
		loud, slow := s.First(activity.Noisiest, 1), s.First(activity.Slowest, 1)
		if len(loud) != 1 || loud[0].Name != "loud" || loud[0].Messages != uint64(len(w.found("loud"))) {
			t.Errorf("%d messages are in the stream, counted %+v", len(w.found("loud")), loud)
		}
		if len(slow) != 1 || slow[0].Name != "slow" || slow[0].TookMost < 3*time.Second || s.All.Failures != uint64(len(w.checker.calls("broken"))) {
			t.Errorf("slowest %+v, %d failures", slow, s.All.Failures)
		}
		if len(s.Rows) != 2 || len(s.Marks) != 2 || s.Marks[0].Kind != activity.MarkStart || s.Marks[1] != (activity.Mark{At: s.Marks[1].At, Kind: activity.MarkStop, Subject: "alice00000"}) {
			t.Errorf("rows %+v, marks %+v", s.Rows, s.Marks)
		}
	})
}
