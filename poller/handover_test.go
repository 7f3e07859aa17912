package poller_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

// A replica that stops says so, and no other one waits for it to look at its shards first.
func TestOthersTakeOverAtOnce(t *testing.T) {
	inFakeTime(t, func(w *world) {
		third := newThirdParty()
		var mu sync.Mutex
		ended, longest := make(map[string]time.Time), time.Duration(0)
		w.checker.check = func(ctx context.Context, r poller.Request) (poller.Result, error) {
			mu.Lock()
			if at, ok := ended[r.Account]; ok {
				longest = max(longest, time.Since(at))
			}
			mu.Unlock()
			result, err := third.check(ctx, r)
			mu.Lock()
			ended[r.Account] = time.Now()
			mu.Unlock()
			return result, err
		}
		for i := range 60 {
			w.registerHeld(fmt.Sprint("held-", i), "30", "every 0")
		}
		stopFirst := w.startHolding(poller.Config{})
		time.Sleep(10 * time.Second)
		for range 2 {
			defer w.replica(poller.Config{})()
		}
		time.Sleep(5 * time.Second)
		stopFirst()
		time.Sleep(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if longest == 0 || longest > 100*time.Millisecond {
			t.Errorf("an account was without a call for %v", longest)
		}
		if n := third.calls(); n != 60 || third.twice() {
			t.Errorf("%d calls, twice at once %t", n, third.twice())
		}
	})
}
