package poller_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// registerMany registers accounts of cadence "every 1s", which are due at once.
func (w *world) registerMany(n int) {
	w.Helper()
	items := make([][]circulate.Registration, w.ring.Shards())
	for i := range n {
		id := fmt.Sprint("a", i)
		shard := w.ring.ShardOf(id)
		items[shard] = append(items[shard], circulate.Registration{ID: id, Record: fmt.Appendf(nil, `{"id":%q,"kind":"scripted","cadence":"every 1s"}`, id)})
	}
	for shard, all := range items {
		for part := range slices.Chunk(all, circulate.MaxBatch) {
			if _, err := w.ring.Register(w.Context(), shard, part); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// held returns how many accounts are claimed.
func (w *world) held() (n int) {
	w.Helper()
	for shard := range w.ring.Shards() {
		all, _, err := w.ring.Oldest(w.Context(), shard, 0, 10_000)
		if err != nil {
			w.Fatal(err)
		}
		n += len(all)
	}
	return n
}

// TestABusyReplicaClaimsAhead runs a replica that is busy enough to gather work. Its checks begin
// when they are due, and not when it next looks at a shard. It loses no account to a lost reply.
// When checks suddenly take long, it releases every account for which it has no place, and at its
// end it has none.
func TestABusyReplicaClaimsAhead(t *testing.T) {
	inFakeTime(t, func(w *world) {
		const accounts, places = 2300, 600
		w.registerMany(accounts)
		hanging := make(chan struct{})
		w.checker.check = func(ctx context.Context, _ poller.Request) (poller.Result, error) {
			select {
			case <-hanging:
				<-ctx.Done()
				return poller.Result{}, ctx.Err()
			default:
				return poller.Result{}, nil
			}
		}
		stop := w.start(poller.Config{Concurrency: places, GracePeriod: time.Second})
		time.Sleep(1300 * time.Millisecond)
		began := time.Now()
		time.Sleep(time.Second)
		late, early := time.Duration(0), time.Duration(0)
		for i := range accounts {
			calls := w.checker.calls(fmt.Sprint("a", i))
			for k := 1; k < len(calls); k++ {
				if calls[k].at.Before(began) || calls[k-1].at.Before(began.Add(-time.Second)) {
					continue
				}
				// Slots are a second apart.
				off := calls[k].at.Sub(calls[k-1].at) - time.Second
				late, early = max(late, off), min(early, off)
			}
		}
		if limit := 30 * time.Millisecond; late > limit || early < -limit {
			t.Errorf("a check began %v later after the one before than its cadence, and one %v earlier", late, -early)
		}

		var replies atomic.Int64
		w.faulty.set(func(command string) fault {
			if command == "EVALSHA" && replies.Add(1)%4 == 0 {
				return replyLost
			}
			return healthy
		})
		time.Sleep(time.Second)
		w.faulty.set(nil)
		time.Sleep(2 * time.Second)
		for i := range accounts {
			calls := w.checker.calls(fmt.Sprint("a", i))
			if last := time.Since(calls[len(calls)-1].at); last > 1100*time.Millisecond {
				t.Fatalf("a%d was checked %v ago", i, last)
			}
		}

		close(hanging)
		time.Sleep(time.Second)
		if n := w.held(); n > places {
			t.Errorf("it holds %d accounts and has %d places", n, places)
		}
		stop()
		if n := w.held(); n != 0 {
			t.Errorf("it held %d accounts when it was gone", n)
		}
	})
}
