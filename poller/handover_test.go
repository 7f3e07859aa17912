package poller_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
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

// A replica that stops releases its accounts no faster than the others connect, as long as the
// grace period lasts.
func TestHeldCallsEndAsOthersConnect(t *testing.T) {
	inFakeTime(t, func(w *world) {
		var under atomic.Int64
		w.checker.check = func(ctx context.Context, _ poller.Request) (poller.Result, error) {
			select {
			case <-time.After(time.Second): // to connect: 256 accounts do so at once
			case <-ctx.Done():
				return poller.Result{}, ctx.Err()
			}
			poller.Begun(ctx)
			under.Add(1)
			defer under.Add(-1)
			<-ctx.Done()
			return poller.Result{}, ctx.Err()
		}
		const accounts = 2000
		for i := range accounts {
			w.registerHeld(fmt.Sprint("held-", i), "140", "every 0")
		}
		stopFirst := w.startHolding(poller.Config{})
		time.Sleep(10 * time.Second)
		defer w.replica(poller.Config{})()
		time.Sleep(5 * time.Second)
		if n := under.Load(); n != accounts {
			t.Fatalf("%d are held", n)
		}
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			stopFirst()
		}()
		least := int64(accounts)
		for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(10 * time.Millisecond) {
			least = min(least, under.Load())
		}
		<-stopped
		if without := accounts - least; without > 1200 {
			t.Errorf("%d accounts were without a call at once", without)
		}
		if n := under.Load(); n != accounts {
			t.Errorf("%d are held afterwards", n)
		}
	})
}
