package poller_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/latest"
	"github.com/rounds-dev/rounds/poller"
)

// A look has the replica report what it remembers of the account, and then each further check, once.
func TestLatestChecksOfWatchedAccounts(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(ctx context.Context, r poller.Request) (poller.Result, error) {
			time.Sleep(300 * time.Millisecond)
			poller.Answered(ctx, 302, 10)
			if r.Account == "broken" {
				poller.Answered(ctx, 500, 32)
				return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "http_500", Message: "no"}
			}
			id := fmt.Sprint(time.Now().UnixNano())
			return poller.Result{Messages: []poller.Message{{ID: id}}, Cursor: []byte(id), HasMore: len(w.checker.calls(r.Account))%2 == 1}, nil
		}
		w.register("every 10s", "good", "broken", "unseen")
		stop := w.start(poller.Config{Replica: "alice00000"})
		defer stop()
		time.Sleep(95 * time.Second)
		checks := latest.Of(w.ring)
		look := func(id string) []latest.Check {
			all, _, err := checks.Look(w.Context(), id, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		for _, id := range []string{"good", "broken"} {
			if got := look(id); len(got) != 0 {
				t.Errorf("%s is reported, and nobody had looked: %+v", id, got)
			}
		}
		time.Sleep(3 * time.Second)
		before := look("good")
		if len(before) < 9 || before[0].Outcome != "ok" || before[0].Messages != 2 || before[0].Status != 302 || before[0].Bytes != 20 || before[0].Took < 600*time.Millisecond || before[0].Took > time.Second || before[0].Error != "" {
			t.Errorf("%+v", before)
		}
		if got := look("broken"); len(got) == 0 || got[0].Outcome != "transient" || got[0].Error != "http_500: no" || got[0].Status != 500 || got[0].Bytes != 42 || got[0].Messages != 0 {
			t.Errorf("%+v", got)
		}
		time.Sleep(20 * time.Second)
		after := look("good")
		if n := len(after) - len(before); n < 1 || n > 3 || after[n] != before[0] {
			t.Errorf("after 20 s there are %d new checks: %+v", n, after)
		}
		for i := range len(after) - 1 {
			if apart := after[i].At.Sub(after[i+1].At); apart < 5*time.Second || apart > 13*time.Second {
				t.Errorf("check %d is %v after the one before", i, apart)
			}
		}
		// While replies are lost nobody knows what Redis took: the next report has all again.
		w.faulty.set(func(command string) fault {
			if command == "pipeline" {
				return replyLost
			}
			return healthy
		})
		time.Sleep(5 * time.Second)
		w.faulty.set(nil)
		time.Sleep(10 * time.Second)
		last := look("good")
		if len(last) == 0 || w.counted("rounds_redis_errors_total", "checks") == 0 || time.Since(last[0].At) > 13*time.Second {
			t.Errorf("after lost replies: %+v", last)
		}
		for i := range len(last) - 1 {
			if last[i] == last[i+1] {
				t.Errorf("check %d is there twice", i)
			}
		}
	})
}
