package poller_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// A page may have more messages, but only after a pause. Its messages are written at once. The
// next page follows after the pause that this one asked for, even if the account's cadence is
// slower.
func TestMoreAfterAPause(t *testing.T) {
	inFakeTime(t, func(w *world) {
		pages := counter(30, 10)
		w.checker.check = func(ctx context.Context, r poller.Request) (poller.Result, error) {
			result, err := pages(ctx, r)
			if result.HasMore {
				result.NextPollAfter = time.Minute
			}
			return result, err
		}
		w.register("every 24h", "a")
		stop := w.start(poller.Config{})
		defer stop()
		time.Sleep(59 * time.Second)
		if got := w.found("a"); !slices.Equal(got, numbers(10)) || w.look("a").Place != circulate.Scheduled {
			t.Errorf("before the pause is over: found %v, %s", got, w.look("a").Place)
		}
		time.Sleep(70 * time.Second)
		if got := w.found("a"); !slices.Equal(got, numbers(30)) {
			t.Errorf("after two pauses: found %v", got)
		}
		if n := len(w.checker.calls("a")); n != 3 {
			t.Errorf("%d checks", n)
		}
	})
}
