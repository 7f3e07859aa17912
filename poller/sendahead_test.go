package poller_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// syncs has the disk of Redis sync at the end of each period, as everysec does, and calls before it says
// so; nil: nothing is called.
func (w *world) syncs(every time.Duration, before func()) {
	w.Helper()
	epoch := time.Now()
	err := w.server.Miniredis().Server().Register("WAITAOF", func(c *server.Peer, _ string, _ []string) {
		time.Sleep(every - time.Since(epoch)%every)
		if before != nil {
			before()
		}
		c.WriteLen(2)
		c.WriteInt(1)
		c.WriteInt(0)
	})
	if err != nil {
		w.Fatal(err)
	}
}

// crowd queues a send to each of so many peers of an account.
func (w *world) crowd(account string, n int) (ids []string) {
	w.Helper()
	for i := range n {
		ids = append(ids, w.queue(account, fmt.Sprint("peer", i), nil))
	}
	return ids
}

// attempting returns how many sends are under an attempt.
func (w *world) attempting() (n int) {
	w.Helper()
	for shard := range w.ring.Shards() {
		c, err := w.ring.Sends().Count(w.Context(), shard)
		if err != nil {
			w.Fatal(err)
		}
		n += c.Attempting
	}
	return n
}

// While attempts wait for the disk, they take no places from calls: with two places and a disk that
// syncs once a second, many more than two sends go out a second, and never more than two at once.
func TestAttemptsThatWaitForTheDiskHoldNoPlaces(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		var calls, most atomic.Int64
		k.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
			most.Store(max(most.Load(), calls.Add(1)))
			time.Sleep(time.Millisecond)
			calls.Add(-1)
			return k.take(r), nil
		}
		w.syncs(time.Second, nil)
		w.chats("", "a", "b")
		stop := w.startChecking(poller.Config{Sends: 2}, k, testLog(t))
		time.Sleep(time.Second)
		ids := append(w.crowd("a", 50), w.crowd("b", 50)...)
		time.Sleep(15 * time.Second)
		for _, id := range ids {
			w.is(id, circulate.SendAccepted, "")
		}
		if s := w.sent(ids[0]); s.Attempts != 1 || most.Load() != 2 || len(k.has()) != len(ids) {
			t.Errorf("%d attempts of one, %d calls at once, %d in all", s.Attempts, most.Load(), len(k.has()))
		}
		stop()
	})
}

// If calls are slow, few attempts are noted ahead of them, because each is in doubt if the replica is
// killed. None becomes unknown while it waits for its place.
func TestSlowCallsHaveFewAttemptsNotedAhead(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		slow := time.Millisecond
		var mu sync.Mutex
		k.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
			mu.Lock()
			wait := slow
			mu.Unlock()
			time.Sleep(wait)
			return k.take(r), nil
		}
		w.syncs(time.Second, nil)
		w.chats("", "a", "b")
		stop := w.startChecking(poller.Config{Sends: 2}, k, testLog(t))
		time.Sleep(time.Second)
		w.crowd("a", 50) // by which calls seem fast
		time.Sleep(10 * time.Second)
		if n := len(k.has()); n != 50 {
			t.Fatalf("the third party has %d", n)
		}
		mu.Lock()
		slow = 15 * time.Second
		mu.Unlock()
		ids := w.crowd("b", 50)
		time.Sleep(20 * time.Second) // what was noted ahead is given back
		for range 20 {
			time.Sleep(1700 * time.Millisecond)
			if n := w.attempting(); n > 6 {
				t.Errorf("%d are under an attempt, of which two are called", n)
			}
		}
		mu.Lock()
		slow = time.Millisecond
		mu.Unlock()
		time.Sleep(time.Minute)
		for _, id := range ids {
			w.is(id, circulate.SendAccepted, "")
			if s := w.sent(id); s.Attempts != 1 {
				t.Errorf("what was given back counts as an attempt: %d", s.Attempts)
			}
		}
		if n := len(k.has()); n != 50+len(ids) {
			t.Errorf("the third party has %d", n)
		}
		stop()
	})
}

// An attempt that another party ends while it waits for the disk is not sent.
func TestAnAttemptThatIsLostWhileItWaitsIsNotSent(t *testing.T) {
	for name, tt := range map[string]struct {
		lose  func(w *world, id string)
		state circulate.SendState
	}{
		"it was taken for a dead replica's": {func(w *world, _ string) { w.sweepSends() }, circulate.SendUnknown},
		"somebody has resolved it since": {func(w *world, id string) {
			w.sweepSends()
			if _, err := w.ring.Sends().Resolve(w.Context(), id, circulate.Resolution{Fence: w.sent(id).Fence, To: circulate.SendAccepted}); err != nil {
				w.Error(err)
			}
		}, circulate.SendAccepted},
		"its account was deregistered": {func(w *world, _ string) {
			if _, err := w.ring.Deregister(w.Context(), w.ring.ShardOf("a"), []string{"a"}); err != nil {
				w.Error(err)
			}
		}, 0},
		"another replica has attempted it since": {func(w *world, id string) {
			w.sweepSends()
			if _, err := w.ring.Sends().Resolve(w.Context(), id, circulate.Resolution{Fence: w.sent(id).Fence, To: circulate.SendQueued}); err != nil {
				w.Error(err)
			}
			o := circulate.AttemptOrder{Replica: "replica000", Step: "another", Kinds: []string{"talker"}, Most: 1, Lasts: time.Hour}
			if taken, _, err := w.ring.Sends().Attempt(w.Context(), w.ring.ShardOf("a"), o); err != nil || len(taken) != 1 {
				w.Error(taken, err)
			}
		}, circulate.SendAttempting},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				k := newTalker()
				queued := make(chan string, 1)
				var once sync.Once
				w.syncs(time.Second, func() { once.Do(func() { tt.lose(w, <-queued) }) })
				w.chats("", "a")
				stop := w.startChecking(poller.Config{SendsAhead: 1}, k, testLog(t)) // so it attempts nothing else meanwhile
				time.Sleep(5500 * time.Millisecond)
				id := w.queue("a", "anna", nil)
				queued <- id
				time.Sleep(8 * time.Second)
				if got := k.has(); len(got) != 0 {
					t.Errorf("the third party has %q", got)
				}
				if tt.state != 0 {
					if s := w.sent(id); s.State != tt.state {
						t.Errorf("it is %s, want %s", s.State, tt.state)
					}
				}
				stop()
			})
		})
	}
}

// sweepSends ends all attempts, as a monitor does to whom every replica seems dead.
func (w *world) sweepSends() {
	for shard := range w.ring.Shards() {
		if _, err := w.ring.Sends().Sweep(w.Context(), shard, 100, 0, nil); err != nil {
			w.Error(err)
		}
	}
}

// A replica may be frozen while its attempts wait. Others may take it for dead meanwhile, and so it does
// not begin a call long after the note.
func TestAnAttemptThatWaitedTooLongIsGivenBack(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		var slow atomic.Bool
		slow.Store(true)
		err := w.server.Miniredis().Server().Register("WAITAOF", func(c *server.Peer, _ string, _ []string) {
			if slow.Swap(false) {
				time.Sleep(9500 * time.Millisecond)
			}
			c.WriteLen(2)
			c.WriteInt(1)
			c.WriteInt(0)
		})
		if err != nil {
			t.Fatal(err)
		}
		w.chats("", "a")
		stop := w.startChecking(poller.Config{}, k, testLog(t))
		time.Sleep(5 * time.Second)
		began := time.Now()
		id := w.queue("a", "anna", nil)
		time.Sleep(15 * time.Second)
		stop()
		w.is(id, circulate.SendAccepted, "")
		if s := w.sent(id); s.Attempts != 1 || len(k.at) != 1 || k.at[0].Sub(began) < 10*time.Second {
			t.Errorf("%d attempts, called %v after it was queued", s.Attempts, k.at[0].Sub(began))
		}
		if n := w.counted("rounds_sends_attempted_total", "put_off"); n != 1 {
			t.Errorf("%v attempts were given back", n)
		}
	})
}

// A replica that stops gives back the attempts that wait. They are queued in their old order, none is in
// doubt, and another replica sends them.
func TestAttemptsThatWaitAtShutdownAreGivenBack(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		w.syncs(1500*time.Millisecond, nil)
		w.chats("", "a", "b")
		stop := w.startChecking(poller.Config{}, k, testLog(t))
		time.Sleep(6100 * time.Millisecond) // just after a sync
		ids := append(w.crowd("a", 20), w.crowd("b", 20)...)
		behind := w.queue("a", "peer0", nil)
		time.Sleep(200 * time.Millisecond)
		if n := w.attempting(); n != len(ids) {
			t.Fatalf("%d of %d are under an attempt", n, len(ids))
		}
		stop()
		for _, id := range append(ids, behind) {
			w.is(id, circulate.SendQueued, "")
			if s := w.sent(id); s.Attempts != 0 {
				t.Errorf("it counts as %d attempts", s.Attempts)
			}
		}
		if got := k.has(); len(got) != 0 {
			t.Errorf("the third party has %q", got)
		}
		stop = w.replicaOf(poller.Config{}, k)
		time.Sleep(10 * time.Second)
		stop()
		for _, id := range append(ids, behind) {
			w.is(id, circulate.SendAccepted, "")
		}
		first, second := -1, -1
		for i, id := range k.has() {
			switch id {
			case ids[0]:
				first = i
			case behind:
				second = i
			}
		}
		if first < 0 || second < first || len(k.has()) != len(ids)+1 {
			t.Errorf("of one peer, the first is call %d and the second %d, of %d", first, second, len(k.has()))
		}
	})
}

// Limits are asked at the moment of the call. Attempts that became durable at once are not sent at once,
// and their wait for the disk costs them no slot of the limit.
func TestLimitsHoldAtTheMomentOfTheCall(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		limits, err := poller.ParseLimits("talker/* rate=600/m burst=3", nil)
		if err != nil {
			t.Fatal(err)
		}
		w.syncs(time.Second, nil)
		w.registerRecord("a", `{"id":"a","kind":"talker","cadence":"every 24h","config":{"host":"h"}}`)
		stop := w.startChecking(poller.Config{Limits: limits}, k, testLog(t))
		time.Sleep(time.Minute)
		began := time.Now()
		ids := w.crowd("a", 60)
		time.Sleep(time.Minute)
		stop()
		for _, id := range ids {
			w.is(id, circulate.SendAccepted, "")
		}
		for i, at := range k.at[3:] {
			if apart := at.Sub(k.at[i]); apart < 95*time.Millisecond {
				t.Errorf("calls %d to %d came within %v", i, i+3, apart)
			}
		}
		if took := k.at[len(k.at)-1].Sub(began); took > 12*time.Second {
			t.Errorf("60 sends took %v, at ten a second", took)
		}
	})
}
