package poller_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/poller"
)

// connections counts how many calls a third party has at once.
type connections struct{ now, most, held atomic.Int32 }

// check is held until the hold ends, or else takes a moment.
func (c *connections) check(ctx context.Context, r poller.Request) (poller.Result, error) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	lasts := 300 * time.Millisecond
	if r.Hold > 0 {
		c.held.Add(1)
		defer c.held.Add(-1)
		lasts = r.Hold
	}
	select {
	case <-ctx.Done():
		return poller.Result{}, ctx.Err()
	case <-time.After(lasts):
		return poller.Result{}, nil
	}
}

// A concurrency holds for calls that are held, as long as they last and on all replicas. The accounts
// above it are polled, and held once there is a place. Those that move to another replica keep theirs.
func TestConnectionsCountTowardAConcurrency(t *testing.T) {
	inFakeTime(t, func(w *world) {
		var third connections
		w.checker.check = third.check
		limits, err := poller.ParseLimits("scripted concurrency=8", nil)
		if err != nil {
			t.Fatal(err)
		}
		ids := names("a", 20)
		for _, id := range ids {
			w.registerHeld(id, "30", "every 0")
		}
		other := w.another()
		checker := pollableHolding{&holding{w.checker}}
		stop := w.startChecking(poller.Config{Limits: limits}, checker, testLog(t))
		stopOther := other.startChecking(poller.Config{Limits: limits}, checker, testLog(t))
		time.Sleep(5 * time.Minute)
		if held, most := third.held.Load(), third.most.Load(); held != 7 || most > 8 {
			t.Errorf("%d calls are held, and there were up to %d at once; want 7 and at most 8", held, most)
		}
		var polled string
		for _, id := range ids {
			calls := w.checker.calls(id)
			if last := calls[len(calls)-1]; last.request.Hold == 0 {
				polled = id
				if n := len(calls); n < 4 || n > 7 {
					t.Errorf("%s was polled %d times in five minutes", id, n)
				}
			}
		}
		if e, err := accounts.NewRegistry(w.ring, nil).Explain(w.Context(), polled); err != nil || !strings.Contains(e.Warning, "the limit scripted has no place for its connection") {
			t.Errorf("%s: %q, %v", polled, e.Warning, err)
		}

		was := held(w, ids)
		stop() // its accounts move, and keep their connections
		time.Sleep(time.Minute)
		if now := held(w, ids); now != was || third.most.Load() > 8 {
			t.Errorf("held before a replica stopped: %s; and after: %s", was, now)
		}
		for _, id := range strings.Fields(was)[:3] {
			if err := w.ring.Account(id).Deregister(w.Context()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(7 * time.Minute)
		if held, most := third.held.Load(), third.most.Load(); held != 7 || most > 8 {
			t.Errorf("after accounts have gone: %d calls are held, up to %d at once", held, most)
		}
		stopOther()
	})
}

// held returns the accounts whose last call may be held.
func held(w *world, ids []string) string {
	var held []string
	for _, id := range ids {
		if calls := w.checker.calls(id); len(calls) > 0 && calls[len(calls)-1].request.Hold > 0 {
			held = append(held, id)
		}
	}
	return strings.Join(held, " ")
}

// While the limit of connections does not answer, nobody connects, and nothing is lost.
func TestConnectionsWhoseLimitDoesNotAnswer(t *testing.T) {
	inFakeTime(t, func(w *world) {
		var third connections
		w.checker.check = third.check
		limits, err := poller.ParseLimits("scripted concurrency=8", nil)
		if err != nil {
			t.Fatal(err)
		}
		w.registerHeld("a", "30", "every 0")
		var cut atomic.Bool
		cut.Store(true)
		w.faulty.set(func(command string) fault {
			if cut.Load() && command == "pipeline" {
				return notDone
			}
			return healthy
		})
		stop := w.startChecking(poller.Config{Limits: limits}, pollableHolding{&holding{w.checker}}, testLog(t))
		time.Sleep(20 * time.Second)
		if n := len(w.checker.calls("a")); n > 0 || w.counted("rounds_put_back_total", "limit_unanswered") == 0 {
			t.Errorf("%d calls", n)
		}
		cut.Store(false)
		time.Sleep(20 * time.Second)
		if third.held.Load() != 1 {
			t.Error("not held after it")
		}
		stop()
	})
}

// An account that its third party refuses for a limit is polled by all replicas, and held again after
// an hour.
func TestARefusedAccountIsPolledForAWhile(t *testing.T) {
	inFakeTime(t, func(w *world) {
		var third connections
		var refuses atomic.Bool
		refuses.Store(true)
		w.checker.check = func(ctx context.Context, r poller.Request) (poller.Result, error) {
			if refuses.CompareAndSwap(true, false) {
				return poller.Result{}, &poller.CheckError{Kind: poller.RateLimited, Code: "limit", Message: "too many connections", RetryAfter: time.Minute}
			}
			return third.check(ctx, r)
		}
		w.registerHeld("a", "30", "every 0")
		checker := pollableHolding{&holding{w.checker}}
		stop := w.startChecking(poller.Config{}, checker, testLog(t))
		began := time.Now()
		time.Sleep(30 * time.Minute)
		stop()
		other := w.another()
		stop = other.startChecking(poller.Config{}, checker, testLog(t))
		time.Sleep(time.Until(began.Add(59 * time.Minute)))
		calls := w.checker.calls("a")
		for _, c := range calls[1:] {
			if c.request.Hold != 0 {
				t.Errorf("held after %v", c.at.Sub(began))
			}
		}
		if n := len(calls); n < 50 || n > 60 {
			t.Errorf("%d calls in an hour", n)
		}
		if e, err := accounts.NewRegistry(w.ring, nil).Explain(w.Context(), "a"); err != nil || !strings.Contains(e.Warning, "the third party has refused it for a limit") {
			t.Errorf("%q, %v", e.Warning, err)
		}
		time.Sleep(5 * time.Minute)
		if v := w.look("a"); third.held.Load() != 1 || v.Failures != 0 {
			t.Errorf("after an hour: %d calls are held; %d failures", third.held.Load(), v.Failures)
		}
		if e, _ := accounts.NewRegistry(w.ring, nil).Explain(w.Context(), "a"); e.Warning != "" {
			t.Errorf("after an hour: %s", e.Warning)
		}
		stop()
	})
}
