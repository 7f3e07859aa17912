package monitor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/testing/faketime"
)

func TestClaimsBeyondTheLongTimeoutAreRequeued(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.register("a", "b", "c", "d")
		m := w.monitor(monitor.Config{})
		held := append(w.claim(0, alice, 10), w.claim(1, alice, 10)...)
		if len(held) != 4 {
			w.Fatalf("claimed %d", len(held))
		}
		w.pass(5*time.Minute, alice)
		w.sweep(m, 0, 0)
		w.Placed(circulate.Claimed, "a", "b", "c", "d")
		w.pass(time.Second, alice)
		if s := w.sweep(m, 4, 0); s.Inspected != 4 || len(s.Dead) != 0 {
			w.Errorf("swept %+v", s)
		}
		w.Placed(circulate.Waiting, "a", "b", "c", "d")
		if v := w.Look("a"); v.Strikes != 1 {
			w.Errorf("%d strikes, want 1", v.Strikes)
		}
		w.sweep(m, 0, 0)
		expectLaw(w.T, w.Server, w.Ring, 4)
	})
}

// While nothing is claimed, a sweep costs an idle ring no more for more shards.
func TestSweepOfNothingCostsAsMuchForAnyShards(t *testing.T) {
	cost := func(shards int) (commands int) {
		inFakeTime(t, shards, func(w *world) {
			w.register("a")
			m := w.monitor(monitor.Config{})
			w.sweep(m, 0, 0) // sends the script's text
			before := w.Miniredis().CommandCount()
			w.sweep(m, 0, 0)
			commands = w.Miniredis().CommandCount() - before
		})
		return commands
	}
	if few, many := cost(2), cost(64); many > few {
		t.Errorf("a sweep of 64 shards costs %d commands, and one of 2 shards %d", many, few)
	}
}

func TestDeadReplicasClaimsNeedTwoSweeps(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a", "b", "c")
		w.beat(alice, bob)
		w.claim(0, alice, 2)
		w.claim(0, bob, 1)
		w.pass(11*time.Second, bob)
		m := w.monitor(monitor.Config{})
		w.sweep(m, 0, 0) // it has nothing to compare with
		w.Placed(circulate.Claimed, "a", "b", "c")
		w.pass(time.Second, bob)
		if s := w.sweep(m, 0, 2); len(s.Dead) != 1 || s.Dead[alice] != 2 {
			w.Errorf("taken from %v, want 2 of alice's", s.Dead)
		}
		w.Placed(circulate.Waiting, "a", "b")
		w.Placed(circulate.Claimed, "c")
		w.pass(2*time.Minute, bob)
		w.sweep(m, 0, 0)
		w.Placed(circulate.Claimed, "c")
		expectLaw(w.T, w.Server, w.Ring, 3)
	})
}

// When a replica's time is up, a working monitor does not wait for its next turn. It
// sends no more requests for a replica with heartbeats.
func TestDeadReplicasClaimsAreRequeuedAtOnce(t *testing.T) {
	for phase := range 5 {
		inFakeTime(t, 1, func(w *world) {
			w.register("a", "b")
			m := w.monitor(monitor.Config{})
			stop := faketime.Go(w, m.Run)
			defer stop()
			w.pass(time.Duration(phase)*time.Second, alice, bob)
			w.claim(0, alice, 1)
			w.claim(0, bob, 1)
			w.pass(10*time.Second-time.Millisecond, bob)
			w.Placed(circulate.Claimed, "a", "b")
			w.pass(20*time.Millisecond, bob)
			w.Placed(circulate.Waiting, "a")
			w.Placed(circulate.Claimed, "b")
			before := w.Counted("rounds_sweeps_total", "ok")
			w.pass(time.Minute, bob)
			if n := w.Counted("rounds_sweeps_total", "ok") - before; n > 13 {
				w.Errorf("%v sweeps in a minute", n)
			}
		})
	}
}

func TestNobodyIsTakenForDeadAfterAFailedSweep(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.register("a", "b", "c", "d")
		m := w.monitor(monitor.Config{})
		for name, set := range map[string]struct{ fail, heal func() }{
			"Redis was away": {
				func() { w.Miniredis().SetError("LOADING Redis is loading the dataset in memory") },
				func() { w.Miniredis().SetError("") },
			},
			"one shard was": {
				func() {
					w.Server.Set(func(s faketime.Step) faketime.Fate {
						if s.At == faketime.Connect && strings.HasPrefix(s.Key, "{rounds:1}") {
							return faketime.NotDone
						}
						return faketime.Healthy
					})
				},
				func() { w.Server.Set(nil) },
			},
		} {
			w.beat(alice)
			claims := append(w.claim(0, alice, 10), w.claim(1, alice, 10)...)
			if len(claims) != 4 {
				w.Fatalf("%s: claimed %d", name, len(claims))
			}
			w.sweep(m, 0, 0)
			w.pass(11 * time.Second)
			set.fail()
			if s, err := m.Sweep(w.Context()); err == nil || s.Orphaned != 0 && name == "Redis was away" {
				w.Fatalf("%s: swept %+v, %v", name, s, err)
			}
			w.pass(time.Minute)
			set.heal()
			w.sweep(m, 0, 0)
			s, err := m.Sweep(w.Context())
			if err != nil || s.Orphaned == 0 {
				w.Errorf("%s: swept %+v, %v", name, s, err)
			}
			w.Placed(circulate.Waiting, "a", "b", "c", "d")
			expectLaw(w.T, w.Server, w.Ring, 4)
		}
	})
}

// A replica that was cut off together with this monitor beats again as soon as Redis is
// back. It must find its claims where they were.
func TestReplicaThatBeatsAgainAfterAnOutageKeepsItsClaims(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a")
		w.beat(alice)
		w.claim(0, alice, 1)
		m := w.monitor(monitor.Config{})
		w.sweep(m, 0, 0)
		time.Sleep(time.Minute) // nobody reaches Redis, nor does a sweep
		w.sweep(m, 0, 1)        // which is why Run sweeps more often than DeadAfter
		w.claim(0, alice, 1)
		w.beat(alice)
		w.sweep(m, 0, 0)
		w.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(time.Minute)
		if _, err := m.Sweep(w.Context()); err == nil {
			w.Fatal("swept without Redis")
		}
		w.Miniredis().SetError("")
		w.sweep(m, 0, 0)
		w.beat(alice)
		w.sweep(m, 0, 0)
		w.Placed(circulate.Claimed, "a")
	})
}

func TestLiveReplicasKeepWhatTheyHold(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		var ids []string
		for i := range 40 {
			ids = append(ids, fmt.Sprint("a", i))
		}
		w.register(ids...)
		m := w.monitor(monitor.Config{})
		for shard := range 4 {
			w.claim(shard, []string{alice, bob}[shard%2], 100)
		}
		for range 58 { // almost the long timeout
			w.pass(5*time.Second, alice, bob)
			w.sweep(m, 0, 0)
		}
		w.Placed(circulate.Claimed, ids...)
	})
}

func TestReplicaThatIsNotRememberedIsDead(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a", "b")
		w.claim(0, carol, 1) // never beat
		w.beat(alice)
		w.claim(0, alice, 1)
		m := w.monitor(monitor.Config{})
		for range 10 {
			w.sweep(m, 0, 0) // younger than DeadAfter: its first beat may be on its way
			w.pass(time.Second, alice)
		}
		w.pass(time.Millisecond, alice)
		if s := w.sweep(m, 0, 1); s.Dead[carol] != 1 {
			w.Errorf("taken from %v", s.Dead)
		}
		// Alice signs off but does not release what she holds.
		if err := w.Ring.Retire(w.Context(), alice); err != nil {
			w.Fatal(err)
		}
		w.sweep(m, 0, 0)
		if s := w.sweep(m, 0, 1); s.Dead[alice] != 1 {
			w.Errorf("taken from %v", s.Dead)
		}
		w.Placed(circulate.Waiting, "a", "b")
	})
}

func TestClaimsYoungerThanDeadAfterAreLeftAlone(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a", "b")
		w.beat(alice)
		w.claim(0, alice, 1)
		m := w.monitor(monitor.Config{DeadAfter: 30 * time.Second})
		w.pass(25 * time.Second)
		w.claim(0, alice, 1) // she still works: only her heartbeats do not arrive
		w.sweep(m, 0, 0)
		w.pass(6 * time.Second)
		w.sweep(m, 0, 1)
		w.Placed(circulate.Waiting, "a")
		w.Placed(circulate.Claimed, "b")
		w.pass(24*time.Second + time.Millisecond)
		w.sweep(m, 0, 1)
		w.Placed(circulate.Waiting, "b")
	})
}

func TestClaimsFromTheFutureAreRequeuedBeyondTheLongTimeoutOnly(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a", "b")
		claimed := time.Now()
		w.claim(0, alice, 2)
		m := w.monitor(monitor.Config{LongTimeout: time.Minute})
		for _, back := range []time.Duration{0, time.Second, 30 * time.Second, time.Minute} {
			w.SetRedisClock(func() time.Time { return claimed.Add(-back) })
			w.beat(alice)
			w.sweep(m, 0, 0)
			w.sweep(m, 0, 0)
		}
		w.Placed(circulate.Claimed, "a", "b")
		w.SetRedisClock(func() time.Time { return claimed.Add(-time.Minute - time.Millisecond) })
		w.beat(alice)
		w.sweep(m, 2, 0)
		w.Placed(circulate.Waiting, "a", "b")
		if n := len(w.claim(0, bob, 10)); n != 2 {
			w.Errorf("claimed %d, want 2", n)
		}
		w.beat(bob)
		w.sweep(m, 0, 0)
		expectLaw(w.T, w.Server, w.Ring, 2)
	})
}

// TestMoreThanOneStepOfEntries mixes entries of a dead replica with entries of others.
// Half of them were claimed before Redis' clock went back: a claim from the future does
// not prove that the claims behind it are young.
func TestMoreThanOneStepOfEntries(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Minute} {
		t.Run(fmt.Sprint("clock went back by ", ahead), func(t *testing.T) {
			inFakeTime(t, 1, func(w *world) {
				const accounts = 300
				for i := range accounts {
					w.register(fmt.Sprint("a", i))
				}
				w.SetRedisClock(func() time.Time { return time.Now().Add(ahead) })
				bobs, fromFuture := 0, 0
				for i := range accounts {
					if i == accounts/2 {
						w.SetRedisClock(time.Now)
					}
					replica := []string{alice, bob, alice, alice, carol}[i%5]
					if len(w.claim(0, replica, 1)) != 1 {
						w.Fatalf("nothing to claim after %d", i)
					}
					switch {
					case replica == bob && i < accounts/2:
						fromFuture++
					case replica == bob:
						bobs++
					}
				}
				if ahead == 0 {
					bobs, fromFuture = bobs+fromFuture, 0
				}
				m := w.monitor(monitor.Config{})
				w.pass(11*time.Second, alice, carol)
				w.sweep(m, 0, 0)
				w.pass(time.Second, alice, carol)
				if s := w.sweep(m, 0, bobs); s.Inspected != accounts || s.Dead[bob] != bobs || len(s.Dead) != 1 {
					w.Errorf("swept %+v, want all %d of bob's among %d", s, bobs, accounts)
				}
				if s := w.sweep(m, 0, 0); s.Inspected != accounts-bobs {
					w.Errorf("inspected %d", s.Inspected)
				}
				w.pass(ahead, alice, carol)
				w.sweep(m, 0, fromFuture)
				w.pass(5*time.Minute, alice, carol)
				if s := w.sweep(m, accounts-bobs-fromFuture, 0); s.Inspected != accounts-bobs-fromFuture {
					w.Errorf("swept %+v", s)
				}
				expectLaw(w.T, w.Server, w.Ring, accounts)
			})
		})
	}
}

func TestSweepStopsWhereClaimsAreYoung(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		for i := range 500 {
			w.register(fmt.Sprint("a", i))
		}
		w.claim(0, alice, 500)
		m := w.monitor(monitor.Config{})
		if s := w.sweep(m, 0, 0); s.Inspected != 128 {
			w.Errorf("inspected %d of 500 young claims, want one step", s.Inspected)
		}
	})
}

func TestGarbageIsSetAside(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a", "b")
		w.claim(0, alice, 1)
		list := key(w.Ring, 0, "processing_list")
		garbage := []string{"garbage", "", strings.Repeat("x", 1000), "\xff\x00", fmt.Sprintf("%014d|%013d|%s|", 1, 1, alice)}
		for i, text := range garbage {
			w.Do([]string{"LPUSH", "RPUSH"}[i%2], list, text)
		}
		w.claim(0, alice, 1)
		w.beat(alice)
		m := w.monitor(monitor.Config{})
		if s := w.sweep(m, 0, 0); s.SetAside != len(garbage) {
			w.Errorf("swept %+v, want %d set aside", s, len(garbage))
		}
		if n := w.Do("LLEN", key(w.Ring, 0, "set_aside")); n != int64(len(garbage)) || w.Ring.SetAside() != int64(len(garbage)) {
			w.Errorf("%v texts are kept, %d counted, want %d", n, w.Ring.SetAside(), len(garbage))
		}
		if s := w.sweep(m, 0, 0); s.SetAside != 0 || s.Inspected != 2 {
			w.Errorf("swept %+v", s)
		}
		w.Placed(circulate.Claimed, "a", "b")
		expectLaw(w.T, w.Server, w.Ring, 2)
	})
}

func TestMistypedListStopsNoSweep(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.register("a", "b", "c", "d")
		shard := w.Ring.ShardOf("a")
		w.Do("SET", key(w.Ring, shard, "processing_list"), "no list")
		w.claim(1-shard, carol, 100)
		m := w.monitor(monitor.Config{})
		w.sweep(m, 0, 0)
		if w.Ring.SetAside() != 1 {
			w.Errorf("%d keys set aside, want 1", w.Ring.SetAside())
		}
		w.claim(shard, carol, 100)
		w.pass(11 * time.Second)
		w.sweep(m, 0, 4)
		w.Placed(circulate.Waiting, "a", "b", "c", "d")

		// Nothing can be pushed to this queue, and its strikes do not count.
		w.claim(shard, carol, 100)
		w.Do("DEL", key(w.Ring, shard, "message_queue"), key(w.Ring, shard, "strikes"))
		w.Do("SET", key(w.Ring, shard, "message_queue"), "no list")
		w.Do("SET", key(w.Ring, shard, "strikes"), "no hash")
		w.pass(11 * time.Second)
		if s, err := m.Sweep(w.Context()); err != nil || s.Orphaned == 0 {
			w.Errorf("swept %+v, %v", s, err)
		}
		if n := len(w.claim(shard, bob, 100)); n == 0 {
			w.Error("nothing to claim after it")
		}
		w.Placed(circulate.Claimed, "a")
		expectLaw(w.T, w.Server, w.Ring, 4)
	})
}

func TestReturnInBetweenIsCompensated(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a", "b")
		claims := w.claim(0, alice, 2)
		w.pass(5*time.Minute+time.Second, alice)
		m := w.monitor(monitor.Config{})
		given := false
		w.Server.Set(func(s faketime.Step) faketime.Fate {
			if s.At == faketime.Send && s.Command == "LREM" && !given { // the monitor has seen the entry, and is about to take it
				given = true
				outcomes, err := w.Ring.Return(w.Context(), 0, []circulate.Return{{Claim: &claims[0], Due: time.Now().Add(time.Hour)}})
				if err != nil || outcomes[0] != circulate.Written {
					w.Errorf("return: %v, %v", outcomes, err)
				}
			}
			return faketime.Healthy
		})
		if s := w.sweep(m, 1, 0); s.Compensated != 1 {
			w.Errorf("swept %+v, want one compensated", s)
		}
		w.Placed(circulate.Scheduled, claims[0].ID)
		w.Placed(circulate.Waiting, claims[1].ID)
		if v := w.Look(claims[0].ID); v.Strikes != 0 {
			w.Errorf("%d strikes, want 0", v.Strikes)
		}
		expectLaw(w.T, w.Server, w.Ring, 2)
	})
}

func TestRequeueWithoutAReplyIsLookedAtAgain(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.register("a", "b", "c")
		w.claim(0, alice, 3)
		w.pass(5*time.Minute+time.Second, alice)
		m := w.monitor(monitor.Config{})
		cut := false
		w.Server.Set(func(s faketime.Step) faketime.Fate {
			cut = cut || s.At == faketime.Send && s.Command == "LPUSH"
			if s.At == faketime.Receive && cut {
				return faketime.ReplyLost
			}
			return faketime.Healthy
		})
		s, err := m.Sweep(w.Context())
		if err == nil || s.Unknown != 1 || s.Stale != 0 || s.Compensated != 0 {
			w.Errorf("swept %+v, %v; want one unknown", s, err)
		}
		cut = false
		w.Server.Set(nil)
		w.sweep(m, 2, 0) // the first one had been done
		w.Placed(circulate.Waiting, "a", "b", "c")
		expectLaw(w.T, w.Server, w.Ring, 3)
	})
}

func TestBadSettingsAreReportedAllAtOnce(t *testing.T) {
	_, err := monitor.New(nil, monitor.Config{LongTimeout: -1, DeadAfter: -1, SweepInterval: -1, CountInterval: -1, TrimInterval: -1, Retention: -1,
		Quarantine: -2, ProbeInterval: -1, ProbeRate: -1, AuditInterval: -1}, monitor.Options{})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range []string{"monitor: ", "long timeout", "dead after", "sweep interval", "count interval", "trim interval", "retention", "quarantine", "probe interval", "probe rate", "audit interval"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not name %q", err, name)
		}
	}
}
