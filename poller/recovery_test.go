package poller_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// another returns the same world for a replica whose way to Redis has faults of its own.
func (w *world) another() *world {
	w.Helper()
	other := *w
	other.faulty = &faulty{Server: w.server}
	ring, err := circulate.Open(w.Context(), other.faulty, circulate.Options{Log: testLog(w.T)})
	if err != nil {
		w.Fatal(err)
	}
	other.ring = ring
	other.newMetrics()
	return &other
}

// A replica that shuts down also returns what it holds after a lost reply to its claim.
func TestShutdownReleasesWhatIsHeldUnknown(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.register("every 1m", names("a", 20)...)
		var lost atomic.Bool
		w.faulty.set(func(command string) fault {
			if command == "EVALSHA" && lost.Load() {
				return replyLost
			}
			return healthy
		})
		stop := w.start(poller.Config{})
		time.Sleep(10 * time.Minute)
		lost.Store(true)
		time.Sleep(30 * time.Second)
		held := 0
		for _, id := range names("a", 20) {
			if w.lookPast(id).Place == circulate.Claimed {
				held++
			}
		}
		if held == 0 {
			t.Error("no claim's reply was lost")
		}
		lost.Store(false)
		stop()
		for _, id := range names("a", 20) {
			if v := w.look(id); v.Place == circulate.Claimed {
				t.Errorf("%s is still held by %s", id, v.Replica)
			}
		}
	})
}

// lookPast looks an account up without passing through the faults.
func (w *world) lookPast(id string) circulate.View {
	w.Helper()
	ring, err := circulate.Open(w.Context(), w.server, circulate.Options{})
	if err != nil {
		w.Fatal(err)
	}
	views, err := ring.Look(w.Context(), ring.ShardOf(id), []string{id})
	if err != nil || len(views) != 1 {
		w.Fatalf("look at %q: %v, %v", id, views, err)
	}
	return views[0]
}

// A server that took over without the last writes still lists claims that a replica has
// returned. The replica notices when it listens again, long before the monitors would after
// the long timeout.
func TestClaimsRememberedByAnotherServerAreGivenBack(t *testing.T) {
	inFakeTime(t, func(w *world) {
		const replica = "forgotten0"
		w.faulty.quiet = false // by its silence a lost connection shows
		for _, id := range names("a", 20) {
			w.registerDue(id, "every 1h", time.Now().Add(time.Hour))
		}
		stop := w.start(poller.Config{Replica: replica})
		defer stop()
		time.Sleep(time.Minute)
		conn, err := w.server.Conn(w.Context(), "")
		if err != nil {
			w.Fatal(err)
		}
		defer conn.Close()
		for _, id := range names("a", 20) { // they become due, and no replica is told
			key := w.ring.Tag(w.ring.ShardOf(id)) + ":schedule"
			if _, err := conn.Do("ZADD", key, time.Now().UnixMilli(), id); err != nil {
				w.Fatal(err)
			}
		}
		for shard := range w.ring.Shards() {
			if _, err := w.ring.Claim(w.Context(), shard, replica, 100, 0); err != nil {
				w.Fatal(err)
			}
		}
		if v := w.look("a00"); v.Place != circulate.Claimed || v.Replica != replica {
			w.Fatalf("a00 is %s by %q", v.Place, v.Replica)
		}
		cut := true
		w.faulty.set(func(command string) fault {
			if command == "subscription" && cut {
				cut = false
				return notDone
			}
			return healthy
		})
		time.Sleep(10 * time.Second)
		for _, id := range names("a", 20) {
			if v := w.look(id); v.Place == circulate.Claimed || len(w.checker.calls(id)) == 0 {
				w.Errorf("%s is %s, and was checked %d times", id, v.Place, len(w.checker.calls(id)))
			}
		}
	})
}

// A pool ends only after it has returned the accounts whose checks it broke off, however slow
// Redis is.
func TestShutdownWaitsForWhatItReleases(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(ctx context.Context, _ poller.Request) (poller.Result, error) {
			<-ctx.Done()
			return poller.Result{}, ctx.Err()
		}
		w.register("every 1m", names("a", 20)...)
		stop := w.start(poller.Config{GracePeriod: time.Second})
		time.Sleep(5 * time.Second)
		if v := w.look("a00"); v.Place != circulate.Claimed {
			w.Fatalf("a00 is %s", v.Place)
		}
		w.faulty.slow.Store(int64(50 * time.Millisecond))
		stop()
		w.faulty.slow.Store(0)
		for _, id := range names("a", 20) {
			if v := w.look(id); v.Place == circulate.Claimed {
				w.Errorf("%s is still claimed", id)
			}
		}
	})
}
