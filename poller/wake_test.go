package poller_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// TestWhatIsDueEarlierIsCheckedAtOnce makes accounts due while the replicas sleep for an hour.
func TestWhatIsDueEarlierIsCheckedAtOnce(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("every 1h", "a", "b")
		stops := w.startMany(3, poller.Config{})
		time.Sleep(10 * time.Minute)
		for _, id := range []string{"a", "b"} {
			before := len(w.checker.calls(id))
			nudged := time.Now()
			if err := w.ring.Account(id).Nudge(w.Context(), circulate.Nudge{Within: 5 * time.Second, Hint: []byte(`"h"`), Lives: time.Minute}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			calls := w.checker.calls(id)
			if len(calls) != before+1 {
				t.Fatalf("%s: %d checks after a nudge, want one more than %d", id, len(calls), before)
			}
			last := calls[len(calls)-1]
			if after := last.at.Sub(nudged); after < 5*time.Second || after > 5*time.Second+100*time.Millisecond || string(last.request.Hint) != `"h"` {
				t.Errorf("%s was checked %v after the nudge, with hint %q", id, after, last.request.Hint)
			}
		}
		registered := time.Now()
		w.register("every 1h", "c")
		time.Sleep(time.Second)
		calls := w.checker.calls("c")
		if len(calls) != 1 || calls[0].at.Sub(registered) > 100*time.Millisecond {
			t.Errorf("the new account was checked %v", calls)
		}
		stops()
	})
}

// TestANudgeDoesNotWaitForOthers has a replica so busy that it gathers work. At every moment
// something in the schedule is overdue.
func TestANudgeDoesNotWaitForOthers(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.registerMany(2300) // a second
		w.register("every 1h", "n")
		stop := w.start(poller.Config{Concurrency: 1000})
		time.Sleep(time.Second)
		most := time.Duration(0)
		for range 5 {
			id := "n"
			before, nudged := len(w.checker.calls(id)), time.Now()
			if err := w.ring.Account(id).Nudge(w.Context(), circulate.Nudge{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(203 * time.Millisecond)
			calls := w.checker.calls(id)
			if len(calls) != before+1 {
				t.Fatalf("%d checks after a nudge, want one more than %d", len(calls), before)
			}
			most = max(most, calls[before].at.Sub(nudged))
		}
		t.Logf("from nudge to check %v at most", most)
		if most > 50*time.Millisecond {
			t.Errorf("a check began %v after its nudge", most)
		}
		stop()
	})
}

// TestALostWakeUpCostsASecond nudges an account while the subscription is cut off.
func TestALostWakeUpCostsASecond(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("every 1h", "a")
		stop := w.start(poller.Config{})
		time.Sleep(10 * time.Minute)
		w.faulty.set(func(command string) fault {
			if command == "subscription" {
				return notDone
			}
			return healthy
		})
		time.Sleep(5 * time.Second)
		for range 5 {
			before := len(w.checker.calls("a"))
			nudged := time.Now()
			if err := w.ring.Account("a").Nudge(w.Context(), circulate.Nudge{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1700 * time.Millisecond)
			calls := w.checker.calls("a")
			if len(calls) != before+1 || calls[before].at.Sub(nudged) > time.Second+50*time.Millisecond {
				t.Fatalf("%d checks, the last %v after the nudge", len(calls)-before, calls[len(calls)-1].at.Sub(nudged))
			}
		}
		if w.counted("rounds_wakeups_lost_total", "") == 0 {
			t.Error("the loss was not counted")
		}
		w.faulty.set(nil)
		time.Sleep(10 * time.Second)
		nudged := time.Now()
		if err := w.ring.Account("a").Nudge(w.Context(), circulate.Nudge{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		calls := w.checker.calls("a")
		if after := calls[len(calls)-1].at.Sub(nudged); after < 0 || after > 100*time.Millisecond {
			t.Errorf("checked %v after the nudge, once it could hear again", after)
		}
		stop()
	})
}

// TestIdleReplicasCostLittle counts the commands sent to Redis while nothing is due. Only
// heartbeats and pings grow with the number of replicas.
func TestIdleReplicasCostLittle(t *testing.T) {
	perSecond := func(replicas int) (rate float64) {
		inFakeTime(t, func(w *world) {
			w.register("every 1h", "a", "b", "c", "d")
			stop := w.startMany(replicas, poller.Config{})
			time.Sleep(time.Minute)
			before := w.server.Miniredis().CommandCount()
			time.Sleep(time.Minute)
			rate = float64(w.server.Miniredis().CommandCount()-before) / 60
			stop()
		})
		return rate
	}
	one, six := perSecond(1), perSecond(6)
	t.Logf("%.1f commands a second with one idle replica, %.1f with six", one, six)
	// A heartbeat is 6 commands, and is sent every 2 s; a ping every second; a look at Redis'
	// memory every 10 s.
	if each := (six - one) / 5; each > 4.5 {
		t.Errorf("each further replica costs %.1f commands a second", each)
	}
}

// TestBusyShardsAreNotLookedAtByAll has accounts due all the time. The number of looks grows
// with the shards, not with the replicas that have nothing to do.
func TestBusyShardsAreNotLookedAtByAll(t *testing.T) {
	perSecond := func(replicas int) (rate float64) {
		inFakeTime(t, func(w *world) {
			for i := range 40 {
				w.register("every 1s", fmt.Sprint("a", i))
			}
			stop := w.startMany(replicas, poller.Config{})
			time.Sleep(20 * time.Second)
			before := w.counted("rounds_claims_total", "")
			time.Sleep(20 * time.Second)
			rate = (w.counted("rounds_claims_total", "") - before) / 20
			stop()
		})
		return rate
	}
	one, eight := perSecond(1), perSecond(8)
	t.Logf("%.1f claims a second with one replica, %.1f with eight", one, eight)
	if eight > 1.5*one {
		t.Errorf("%.1f claims a second with eight replicas, %.1f with one", eight, one)
	}
}

// startMany starts replicas that share their metrics.
func (w *world) startMany(n int, config poller.Config) (stop func()) {
	w.Helper()
	metrics := poller.NewMetrics(w.metrics)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, n)
	for range n {
		pool := w.pool(config, poller.Options{Log: testLog(w.T), Metrics: metrics}, w.checker)
		go func() { done <- pool.Run(ctx) }()
	}
	return func() {
		cancel()
		for range n {
			if err := <-done; err != nil {
				w.Error(err)
			}
		}
	}
}
