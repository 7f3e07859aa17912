package poller_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/poller"
)

// watch runs a monitor until the function it returns is called.
func (w *world) watch() (stop func()) {
	w.Helper()
	m, err := monitor.New(w.ring, monitor.Config{}, monitor.Options{Log: testLog(w.T)})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	}
}

func TestDeadReplicasClaimsAreTakenUpWithinTwentySeconds(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = counter(5, 5)
		w.register("every 1m", "a", "b", "c", "d")
		// A replica that beats once, claims everything, and dies.
		dead := circulate.NewReplica()
		if _, err := w.ring.Heartbeat(w.Context(), dead, nil, time.Minute); err != nil {
			t.Fatal(err)
		}
		for shard := range w.ring.Shards() {
			if _, err := w.ring.Claim(w.Context(), shard, dead, 100, 0); err != nil {
				t.Fatal(err)
			}
		}
		died := time.Now()
		unwatch, stop := w.watch(), w.start(poller.Config{})
		time.Sleep(25 * time.Second)
		for _, id := range []string{"a", "b", "c", "d"} {
			calls := w.checker.calls(id)
			if len(calls) == 0 {
				t.Fatalf("%s was not taken up", id)
			}
			if after := calls[0].at.Sub(died); after > 20*time.Second {
				t.Errorf("%s was taken up after %v", id, after)
			}
		}
		stop()
		unwatch()
	})
}

func TestStuckReplicasClaimsAreTakenUpAndItsResultIsFenced(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = counter(5, 5)
		w.register("every 10m", "a")
		shard := w.ring.ShardOf("a")
		stuck := circulate.NewReplica()
		b, err := w.ring.Claim(w.Context(), shard, stuck, 1, 0)
		if err != nil || len(b.Claims) != 1 {
			t.Fatal(b, err)
		}
		unwatch, stop := w.watch(), w.start(poller.Config{})
		claimed := time.Now()
		for range 400 { // its heartbeats continue
			if _, err := w.ring.Heartbeat(w.Context(), stuck, nil, time.Minute); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		calls := w.checker.calls("a")
		if len(calls) == 0 {
			t.Fatal("it was not taken up")
		}
		if after := calls[0].at.Sub(claimed); after < 5*time.Minute || after > 5*time.Minute+7*time.Second {
			t.Errorf("taken up after %v", after)
		}
		outcomes, err := w.ring.Return(w.Context(), shard, []circulate.Return{{Claim: &b.Claims[0], Messages: []poller.Message{{ID: "late"}}}})
		if err != nil || outcomes[0] != circulate.Fenced {
			t.Errorf("the stuck replica's return: %v, %v", outcomes, err)
		}
		stop()
		unwatch()
	})
}

// TestOutage makes Redis unreachable for a while. Everything recovers by itself, and no
// replica that was only cut off counts as dead.
func TestOutage(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			at, _ := strconv.Atoi(string(r.Cursor))
			next := fmt.Sprint(at + 1)
			return poller.Result{Messages: []poller.Message{{ID: next}}, Cursor: []byte(next)}, nil
		}
		w.register("every 5s", "a", "b", "c", "d", "e")
		unwatch, stop := w.watch(), w.start(poller.Config{})
		time.Sleep(time.Minute)
		w.server.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(3 * time.Minute)
		w.server.Miniredis().SetError("")
		healed := time.Now()
		time.Sleep(time.Minute)
		stop()
		unwatch()
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			calls := w.checker.calls(id)
			i := slices.IndexFunc(calls, func(c call) bool { return c.at.After(healed) })
			if i < 0 {
				t.Fatalf("%s was never checked again", id)
			}
			if after := calls[i].at.Sub(healed); after > 15*time.Second {
				t.Errorf("%s was checked again after %v", id, after)
			}
			if got := w.found(id); !slices.Equal(got, numbers(len(got))) {
				t.Errorf("%s: found %v", id, got)
			}
			if v := w.look(id); v.Strikes != 0 {
				t.Errorf("%s has %d strikes", id, v.Strikes)
			}
		}
	})
}

// TestCutRepliesAndConnections loses one call in ten, half of them after they were executed,
// while replicas come and go. Each message is found once, in order.
func TestCutRepliesAndConnections(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(w *world) {
				random := rand.New(rand.NewPCG(seed, 0))
				ids := []string{"a", "b", "c", "d", "e", "f"}
				w.checker.check = counter(200, 3)
				w.register("every 3s", ids...)
				w.faulty.set(func(string) fault {
					if n := random.IntN(20); n < 2 {
						return fault(n + 1)
					}
					return healthy
				})
				unwatch, stop := w.watch(), w.start(poller.Config{})
				for range 5 {
					time.Sleep(time.Minute)
					w.newMetrics()
					next := w.start(poller.Config{})
					stop()
					stop = next
				}
				w.faulty.set(nil)
				time.Sleep(6 * time.Minute)
				stop()
				unwatch()
				for _, id := range ids {
					if got := w.found(id); !slices.Equal(got, numbers(200)) {
						t.Errorf("%s: %d messages found, or out of order", id, len(got))
					}
				}
			})
		})
	}
}
