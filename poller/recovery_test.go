package poller_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// After any fault that ends, every account is on its phase again. The capacity of the replicas
// bounds the catch-up. Each account is checked once in it, however many slots it missed, and
// the longest overdue come first.
func TestEveryAccountIsBackOnItsPhase(t *testing.T) {
	plainly(t)
	const (
		accounts = 60
		capacity = 5 // checks a second of each replica
	)
	cut := func(string) fault { return notDone }
	lost := func(command string) fault { // the command is executed, but its reply is lost
		if command == "EVALSHA" {
			return replyLost
		}
		return notDone
	}
	for name, tt := range map[string]struct {
		fail  func(string) fault
		both  bool          // the fault hits both replicas, otherwise one
		lasts time.Duration // 0: for ever
	}{
		"Redis is away for ten minutes":  {fail: cut, both: true, lasts: 10 * time.Minute},
		"Redis starts again":             {fail: cut, both: true, lasts: 3 * time.Second},
		"replies are lost for a minute":  {fail: lost, both: true, lasts: time.Minute},
		"one of two replicas is killed":  {fail: cut},
		"a replica is away for a minute": {fail: cut, lasts: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(w *world) {
				w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
					time.Sleep(200 * time.Millisecond)
					return poller.Result{}, nil
				}
				ids := names("a", accounts)
				for i, id := range ids {
					w.registerDue(id, "every 1m", time.Now().Add(time.Duration(i)*500*time.Millisecond))
				}
				other := w.another()
				unwatch := w.watch()
				config := poller.Config{Concurrency: capacity / 5, LongTimeout: 2 * time.Minute}
				stop, stopOther := w.start(config), other.start(config)
				time.Sleep(3 * time.Minute)

				began := time.Now()
				other.faulty.set(tt.fail)
				if tt.both {
					w.faulty.set(tt.fail)
				}
				time.Sleep(tt.lasts)
				healed := time.Now()
				if tt.lasts > 0 {
					other.faulty.set(nil)
				}
				w.faulty.set(nil)
				time.Sleep(4 * time.Minute)

				perSecond := make([]int, 240)
				for _, id := range ids {
					var before time.Time
					var after []time.Time
					for _, c := range w.checker.calls(id) {
						switch {
						case c.at.Before(began):
							before = c.at
						case c.at.After(healed):
							after = append(after, c.at)
							perSecond[min(239, int(c.at.Sub(healed).Seconds()))]++
						}
					}
					if len(after) < 3 {
						t.Fatalf("%s was checked %d times in four minutes: %+v", id, len(after), w.look(id))
					}
					last := after[len(after)-1]
					if off := last.Sub(before) % time.Minute; off > 2*time.Second && off < 58*time.Second {
						t.Errorf("%s: its phase moved by %v", id, off)
					}
					// Missed slots make one check. Accounts that a dead replica had claimed
					// may be checked twice, because nobody knows how far it got.
					early := 0
					for _, at := range after {
						if at.Sub(healed) < 50*time.Second {
							early++
						}
					}
					if early > 3 {
						t.Errorf("%s was checked %d times in the first 50 s", id, early)
					}
				}
				for second, n := range perSecond {
					if n > 2*capacity {
						t.Errorf("%d checks in second %d after it, at most %d are possible", n, second, 2*capacity)
					}
				}
				t.Logf("checks a second, by five seconds: %v", fives(perSecond))
				unwatch()
				stop()
				other.faulty.set(nil)
				stopOther()
			})
		})
	}
}

func fives(perSecond []int) string {
	text := ""
	for i := 0; i+5 <= len(perSecond); i += 5 {
		sum := 0
		for _, n := range perSecond[i : i+5] {
			sum += n
		}
		text += fmt.Sprintf("%.0f ", float64(sum)/5)
	}
	return text
}

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
