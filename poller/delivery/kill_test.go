package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// record is an effect that notes how often each message was applied, and in what order. The
// oracle reads these notes.
var record = delivery.NewEffect("record", `
	redis.call('HINCRBY', KEYS[1], message.account .. '/' .. message.id, 1)
	redis.call('RPUSH', KEYS[2], message.account .. '/' .. message.id)`)

// effect is a handler that records.
func (w *world) effect(remember time.Duration) *delivery.Effect {
	return &delivery.Effect{Effect: record, Remember: remember, Keys: func(tag string) []string {
		return []string{tag + ":applied", tag + ":order"}
	}}
}

// applied counts the messages that were applied.
func (w *world) applied() (n int) {
	w.Helper()
	for shard := range w.shards {
		n += int(w.Do("HLEN", w.Ring.Tag(shard)+":applied").(int64))
	}
	return n
}

// appliedOnce expects each message that was written to be applied exactly once,
// and each account's in order.
func (w *world) appliedOnce() {
	w.Helper()
	counts, order := make(map[string]string), make(map[string][]string)
	for shard := range w.shards {
		of, err := redis.StringMap(w.Do("HGETALL", w.Ring.Tag(shard)+":applied"), nil)
		if err != nil {
			w.Fatal(err)
		}
		for name, n := range of {
			counts[name] = n
		}
		names, err := redis.Strings(w.Do("LRANGE", w.Ring.Tag(shard)+":order", 0, -1), nil)
		if err != nil {
			w.Fatal(err)
		}
		for _, name := range names {
			account, _, _ := strings.Cut(name, "/")
			order[account] = append(order[account], name)
		}
	}
	want := make(map[string][]string)
	for _, name := range w.written {
		if counts[name] != "1" {
			w.Errorf("%s was applied %q times", name, counts[name])
		}
		account, _, _ := strings.Cut(name, "/")
		want[account] = append(want[account], name)
	}
	if len(counts) != len(w.written) {
		w.Errorf("%d messages were applied, %d written", len(counts), len(w.written))
	}
	for account := range want {
		if !slices.Equal(order[account], want[account]) {
			w.Errorf("%s: applied in the order %q", account, order[account])
		}
	}
}

// deaths are the ways in which a consumer dies without leaving the group, by the step at which
// it dies.
var deaths = map[string]func(step string) faketime.Fate{
	"before a read":               func(step string) faketime.Fate { return deathAt(step, "read", faketime.NotDone) },
	"after a read":                func(step string) faketime.Fate { return deathAt(step, "read", faketime.ReplyLost) },
	"in the handler":              func(step string) faketime.Fate { return deathAt(step, "effect", faketime.NotDone) },
	"after the effect":            func(step string) faketime.Fate { return deathAt(step, "effect", faketime.ReplyLost) },
	"before a takeover":           func(step string) faketime.Fate { return deathAt(step, "redeliver", faketime.NotDone) },
	"during a takeover":           func(step string) faketime.Fate { return deathAt(step, "redeliver", faketime.ReplyLost) },
	"while it lists what is left": func(step string) faketime.Fate { return deathAt(step, "pending", faketime.ReplyLost) },
	"while it forgets":            func(step string) faketime.Fate { return deathAt(step, "forget", faketime.ReplyLost) },
	"as it gets a lease":          func(step string) faketime.Fate { return deathAt(step, "lease", faketime.ReplyLost) },
	"as it gives a lease back":    func(step string) faketime.Fate { return deathAt(step, "release", faketime.NotDone) },
}

func deathAt(step, at string, d faketime.Fate) faketime.Fate {
	if step == at {
		return d
	}
	return faketime.Healthy
}

// TestEffectsAreAppliedOnceWhereverConsumersDie lets one consumer after the other die at each
// step, while another one goes on working and new messages come.
func TestEffectsAreAppliedOnceWhereverConsumersDie(t *testing.T) {
	for name, die := range deaths {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, 8, func(w *world) {
				accounts := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
				w.add(20, accounts...)
				fell := 0
				settings := delivery.Consumer{Handler: w.effect(0), Batch: 8, TakeOver: 5 * time.Second}
				survivor := w.start(settings)
				for round := 0; round < 2 || fell == 0 && round < 60; round++ {
					// This consumer leaves messages for the next one to take over.
					before := w.start(settings)
					before.at(deaths["in the handler"])
					time.Sleep(3 * time.Second)
					w.add(3, accounts...)
					time.Sleep(time.Second)
					before.kill()
					before.cancel()
					before.ended(t)
					doomed := w.start(settings)
					var steps atomic.Int32
					doomed.at(func(step string) faketime.Fate {
						if d := die(step); d != faketime.Healthy && steps.Add(1) > int32(round%2) {
							return d
						}
						return faketime.Healthy
					})
					for range 10 {
						w.add(1, accounts...)
						time.Sleep(time.Second)
					}
					doomed.cancel()
					time.Sleep(time.Second)
					if doomed.isDead() {
						fell++
					}
					doomed.kill()
					w.add(3, accounts...)
					time.Sleep(20 * time.Second)
					doomed.ended(t)
				}
				if fell == 0 {
					t.Error("no consumer died of it")
				}
				time.Sleep(40 * time.Second)
				w.appliedOnce()
				w.nothingLeft()
				if n := w.consumerNames(); n != 8 {
					t.Errorf("%d consumers' names for 8 shards", n)
				}
				survivor.stop(t)
			})
		})
	}
}

// TestConsumersAllDie leaves no consumer alive for a while.
func TestConsumersAllDie(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		for round := range 12 {
			w.add(5, "a", "b", "c", "d", "e")
			c := w.start(delivery.Consumer{Handler: w.effect(0), Batch: 4})
			var steps atomic.Int32
			c.at(func(string) faketime.Fate {
				if steps.Add(1) > int32(5+3*round) {
					return faketime.NotDone + faketime.Fate(round%2)
				}
				return faketime.Healthy
			})
			time.Sleep(time.Duration(5+round) * time.Second)
			c.kill()
			c.cancel()
			c.ended(t)
		}
		c := w.start(delivery.Consumer{Handler: w.effect(0)})
		time.Sleep(time.Minute)
		c.stop(t)
		w.appliedOnce()
		w.nothingLeft()
	})
}

// TestRewoundGroupsApplyOnceWhatIsRemembered deletes the group and creates it again in the
// middle, twice.
func TestRewoundGroupsApplyOnceWhatIsRemembered(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		c := w.start(delivery.Consumer{Handler: w.effect(time.Hour)})
		for range 3 {
			w.add(50, "a", "b", "c")
			time.Sleep(10 * time.Second)
			for shard := range w.shards {
				stream := w.Ring.Tag(shard) + ":messages"
				// In one step, because the consumer would otherwise create the group again at
				// the position that it had reached.
				w.Do("EVAL", `redis.call('XGROUP', 'DESTROY', KEYS[1], 'g'); redis.call('XGROUP', 'CREATE', KEYS[1], 'g', '0-0')`, 1, stream)
			}
		}
		time.Sleep(time.Minute)
		w.appliedOnce()
		w.nothingLeft()
		c.stop(t)
	})
}

// TestPoisonKillsNoNeighbours has one message among many that kills each process which gets
// it.
func TestPoisonKillsNoNeighbours(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		accounts := []string{"a", "b", "c", "d", "e", "f"}
		w.add(5, accounts...)
		w.write("poison/0")
		w.add(5, accounts...)
		for range 12 {
			var self atomic.Pointer[consumer]
			c := w.start(delivery.Consumer{Handler: delivery.Each(func(ctx context.Context, d delivery.Delivery) error {
				time.Sleep(10 * time.Millisecond)
				if c := self.Load(); c != nil && d.Account == "poison" {
					c.kill()
					c.cancel()
				}
				return nil
			})})
			self.Store(c)
			time.Sleep(30 * time.Second)
			if !c.isDead() {
				c.stop(t)
			} else {
				c.ended(t)
			}
		}
		w.nothingLeft()
		var dead []string
		for shard := range w.shards {
			letters, err := group.Of(w.Ring).DeadLetters(context.Background(), shard, circulate.StreamStart, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range letters {
				dead = append(dead, fmt.Sprint(l.Account, "/", l.Message.ID, "#", l.Deliveries))
			}
		}
		expect(t, dead, []string{"poison/0#8"})
	})
}

// TestFrozenConsumerDoesNoHarm wakes up a consumer that the others took for dead.
func TestFrozenConsumerDoesNoHarm(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.add(10, "a", "b")
		thawed := make(chan struct{})
		slow := w.start(delivery.Consumer{Handler: w.effect(0), Batch: 4})
		slow.freezes("effect", thawed) // it has messages in hand and does not renew its lease
		time.Sleep(time.Second)
		other := w.start(delivery.Consumer{Handler: w.effect(0), Batch: 4})
		time.Sleep(time.Minute)
		w.add(10, "a", "b")
		if n := w.applied(); n < 20 {
			t.Errorf("only %d were applied while one was frozen", n)
		}
		close(thawed)
		time.Sleep(time.Minute)
		w.appliedOnce()
		w.nothingLeft()
		slow.stop(t)
		other.stop(t)
		synctest.Wait()
	})
}

// TestKillsOnARealRedis does the same in real time, where Redis forgets its
// scripts and restarts as well.
func TestKillsOnARealRedis(t *testing.T) {
	t.Parallel()
	process := redistest.Start(t, redistest.WithAOF())
	w := newWorld(faketime.On(t, redistest.Connect(t, process), 4))
	accounts := []string{"a", "b", "c", "d", "e", "f"}
	w.add(20, accounts...)
	settings := delivery.Consumer{Batch: 8, TakeOver: time.Second}
	start := func() *consumer {
		settings.Handler = w.effect(0)
		return w.start(settings)
	}
	for _, name := range []string{"after a read", "in the handler", "after the effect", "during a takeover"} {
		doomed := start()
		doomed.at(deaths[name])
		if name == "during a takeover" {
			// Some messages must be left to take over.
			helper := start()
			helper.at(deaths["in the handler"])
			w.add(20, accounts...)
			w.until(func() bool { return helper.isDead() || doomed.isDead() })
			helper.kill()
			helper.cancel()
			helper.ended(t)
		}
		w.add(10, accounts...)
		w.until(func() bool { return doomed.isDead() })
		doomed.kill()
		doomed.cancel()
		doomed.ended(t)
	}
	last := start()
	w.add(10, accounts...)
	process.Kill()
	process.Restart(t)
	w.addWhenBack(accounts)
	w.until(func() bool { return w.applied() == len(w.written) })
	last.stop(t)
	w.appliedOnce()
	w.nothingLeft()
}

// addWhenBack writes a message of each account once Redis answers again.
func (w *world) addWhenBack(accounts []string) {
	w.Helper()
	w.until(func() bool { return w.Ring.Check(context.Background()) == nil })
	w.add(10, accounts...)
}

// until waits for something to become true.
func (w *world) until(true func() bool) {
	w.Helper()
	deadline := time.After(60 * time.Second)
	for !true() {
		select {
		case <-deadline:
			w.Fatal("did not come to pass in a minute")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
