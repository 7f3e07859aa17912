package delivery_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// While the target of all messages is away, a consumer stops reading and retries one message at a
// time, however many messages it holds in however many shards. Once that message is handled, all go
// on in their order.
func TestOneProbeTellsWhetherATargetIsBack(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		var accounts []string
		for i := range 40 {
			accounts = append(accounts, fmt.Sprint("a", i))
		}
		w.add(25, accounts...)
		var away atomic.Bool
		away.Store(true)
		var j journal
		j.answers(func(delivery.Delivery) error {
			if away.Load() {
				time.Sleep(2 * time.Second) // to connect
				return &delivery.Later{After: 10 * time.Second, Err: errors.New("it is away"), Target: "database"}
			}
			return nil
		})
		c := w.start(delivery.Consumer{Handler: j.handler(), Batch: 10})
		time.Sleep(time.Minute)
		began := j.total()
		if began > 4*10+5 {
			t.Errorf("%d deliveries in the first minute", began)
		}
		for shard := range 4 {
			if state, err := w.Ring.Streams().GroupState(context.Background(), shard, "g"); err != nil || state.Pending > 10 {
				t.Errorf("shard %d was read on: %+v, %v", shard, state, err)
			}
		}
		again := c.count("redeliver")
		time.Sleep(10 * time.Minute)
		if n := j.total() - began; n < 48 || n > 51 {
			t.Errorf("%d deliveries in ten minutes, want one every 12 s", n)
		}
		if n := c.count("redeliver") - again; n > 51 {
			t.Errorf("Redis was asked %d times for messages to deliver again", n)
		}
		// A consumer that takes over meanwhile sends the target nothing more.
		c.kill()
		c.cancel()
		c.ended(t)
		began = j.total()
		c = w.start(delivery.Consumer{Handler: j.handler(), Batch: 10})
		time.Sleep(10*time.Minute + 30*time.Second)
		if n := j.total() - began; n < 40 || n > 4*10+54 {
			t.Errorf("%d deliveries by the next consumer", n)
		}
		away.Store(false)
		time.Sleep(13 * time.Second)
		for _, account := range accounts {
			var ids []string
			for _, line := range j.of(account) {
				id, _, _ := strings.Cut(line, "#")
				ids = append(ids, id)
			}
			if ids = slices.Compact(ids); len(ids) < 25 || !slices.IsSortedFunc(ids[len(ids)-25:], func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) }) {
				t.Errorf("%s: %q", account, ids)
			}
		}
		c.stop(t)
		w.nothingLeft()
	})
}

// A message that fails by itself shows that the target is there. So does an order to retry.
func TestAFailureOfItsOwnEndsAnOutage(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.add(3, "a", "b", "c", "d")
		var answer atomic.Pointer[error]
		says := func(err error) { answer.Store(&err) }
		var j journal
		j.answers(func(delivery.Delivery) error { return *answer.Load() })
		says(&delivery.Later{After: time.Hour, Err: errors.New("it is away"), Target: "endpoint"})
		var control delivery.Control
		c := w.start(delivery.Consumer{Handler: j.handler(), Control: &control, Backoff: func(int) time.Duration { return time.Minute }})
		time.Sleep(10 * time.Minute)
		began := j.total()
		if n := control.Hasten(""); n == 0 {
			t.Fatal("nothing waits")
		}
		time.Sleep(time.Minute)
		if n := j.total() - began; n != 1 {
			t.Errorf("%d deliveries for an order to retry while it is away, want 1", n)
		}
		says(errors.New("not this one"))
		control.Hasten("")
		time.Sleep(time.Second)
		if n := j.total() - began; n < 4 {
			t.Errorf("%d deliveries after one failed by itself, want one of each account", n)
		}
		says(nil)
		time.Sleep(2 * time.Minute)
		c.stop(t)
		w.nothingLeft()
	})
}

// A consumer that takes over many messages stops at the first batch that finds the target away.
func TestATakeOverStopsWhereTheTargetIsAway(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		for i := range 300 {
			w.add(1, fmt.Sprint("a", i))
		}
		put := func(later delivery.Later) *journal {
			return &journal{answer: func(delivery.Delivery) error { return &later }}
		}
		first := put(delivery.Later{After: time.Hour, Err: errors.New("not yet")})
		c := w.start(delivery.Consumer{Handler: first.handler(), Batch: 10})
		time.Sleep(time.Minute)
		c.kill()
		c.cancel()
		c.ended(t)
		if n := first.total(); n != 300 {
			t.Fatalf("%d were read", n)
		}
		second := put(delivery.Later{After: time.Hour, Err: errors.New("it is away"), Target: "database"})
		c = w.start(delivery.Consumer{Handler: second.handler(), Batch: 10})
		time.Sleep(10 * time.Minute)
		if n := second.total(); n != 10 {
			t.Errorf("%d deliveries while it is away, want a batch", n)
		}
		if n := c.count("pending"); n > 3 {
			t.Errorf("asked %d times what is pending", n)
		}
		second.answers(nil)
		time.Sleep(time.Hour)
		c.stop(t)
		w.nothingLeft()
	})
}

// Messages that a step of unknown outcome left pending come before those that are read next, even
// if the target comes back in between.
func TestAnOutageKeepsTheOrder(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.add(4, "a", "b")
		later := &delivery.Later{After: 5 * time.Second, Err: errors.New("it is away"), Target: "database"}
		j := journal{answer: func(delivery.Delivery) error { return later }}
		c := w.start(delivery.Consumer{Handler: j.handler(), Batch: 6})
		time.Sleep(time.Second)
		w.add(4, "a", "b")
		c.fail("redeliver", 1)
		j.answers(nil)
		tried := j.total()
		time.Sleep(time.Minute)
		for _, account := range []string{"a", "b"} {
			got := j.of(account)
			if n := len(got); n < 8 || !slices.IsSorted(got[n-8:]) {
				t.Errorf("%s, after %d: %q", account, tried, got)
			}
		}
		c.stop(t)
		w.nothingLeft()
	})
}

// Messages that are delivered again come in batches of at most so many bytes, like new ones.
func TestWhatIsDeliveredAgainIsBoundedByBytes(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		for i := range 40 {
			w.Do("XADD", w.Key(0, "messages"), "*", "account", fmt.Sprint("a", i%10), "kind", "feed", "id", i, "type", "", "time", "", "data", `"`+strings.Repeat("x", 30<<10)+`"`)
		}
		var most, handled atomic.Int64
		var away atomic.Bool
		away.Store(true)
		handler := batches(func(_ context.Context, batch []delivery.Delivery) []error {
			most.Store(max(most.Load(), int64(len(batch))))
			errs := make([]error, len(batch))
			for i := range batch {
				if away.Load() {
					errs[i] = &delivery.Later{After: time.Second, Err: errors.New("not yet")}
				} else {
					handled.Add(1)
				}
			}
			return errs
		})
		c := w.start(delivery.Consumer{Handler: handler, BatchBytes: 100 << 10})
		time.Sleep(5 * time.Second) // all are read, in batches of at most 64
		most.Store(0)
		time.Sleep(5 * time.Second)
		if n := most.Load(); n != 4 {
			t.Errorf("batches of up to %d messages of 30 KiB, want 4", n)
		}
		// The batches are as large after another consumer took over.
		c.kill()
		c.cancel()
		c.ended(t)
		most.Store(0)
		c = w.start(delivery.Consumer{Handler: handler, BatchBytes: 100 << 10})
		time.Sleep(30 * time.Second)
		if n := most.Load(); n != 4 {
			t.Errorf("taken over: batches of up to %d messages of 30 KiB, want 4", n)
		}
		away.Store(false)
		time.Sleep(5 * time.Second)
		if n := handled.Load(); n != 40 {
			t.Errorf("%d handled", n)
		}
		c.stop(t)
		w.nothingLeft()
	})
}
