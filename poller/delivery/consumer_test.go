package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/poller/delivery"
)

func numbered(from, to int) []string {
	var all []string
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("%d#1", i))
	}
	return all
}

func expect(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// atLeastOnce returns the first delivery of each message. A batch is delivered again if its
// acknowledgement could not be sent in time.
func atLeastOnce(lines []string) []string {
	var first []string
	for _, line := range lines {
		id, _, _ := strings.Cut(line, "#")
		if !slices.Contains(first, id+"#1") {
			first = append(first, id+"#1")
		}
	}
	return first
}

// nothingLeft expects the group to have nothing left to deliver in any shard.
func (w *world) nothingLeft() {
	w.Helper()
	for shard := range w.shards {
		s, err := w.Ring.Streams().GroupState(context.Background(), shard, "g")
		if err != nil || s.OldestUnread != 0 || s.Pending != 0 {
			w.Errorf("shard %d: %+v, %v", shard, s, err)
		}
	}
}

// consumerNames counts the consumers' names in the group.
func (w *world) consumerNames() (n int) {
	w.Helper()
	for shard := range w.shards {
		n += len(w.Do("XINFO", "CONSUMERS", w.Ring.Tag(shard)+":messages", "g").([]any))
	}
	return n
}

func TestMessagesAreDeliveredOnceInOrder(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		accounts := []string{"a", "b", "c", "d", "e"}
		w.add(300, accounts...)
		var j journal
		one := w.start(delivery.Consumer{Handler: j.handler(), Batch: 32, Parallel: 3, Concurrency: 2})
		two := w.start(delivery.Consumer{Handler: j.handler(), Batch: 32})
		time.Sleep(time.Minute)
		w.add(10, accounts...)
		time.Sleep(time.Second)
		for _, account := range accounts {
			expect(t, j.of(account), numbered(0, 310))
		}
		w.nothingLeft()
		if n := w.consumerNames(); n != 4 {
			t.Errorf("%d consumers' names for 4 shards", n)
		}
		one.stop(t)
		two.stop(t)
		if n := w.consumerNames(); n != 0 {
			t.Errorf("%d consumers' names are left", n)
		}
	})
}

func TestShardsMoveToPeersWithoutASecondDelivery(t *testing.T) {
	inFakeTime(t, 16, func(w *world) {
		var accounts []string
		for i := range 40 {
			accounts = append(accounts, fmt.Sprint("account", i))
		}
		var one, two journal
		first := w.start(delivery.Consumer{Handler: one.handler()})
		time.Sleep(3 * time.Second)
		second := w.start(delivery.Consumer{Handler: two.handler()})
		time.Sleep(5 * time.Second)
		w.add(10, accounts...)
		time.Sleep(time.Second)
		if one.total() == 0 || two.total() == 0 || one.total()+two.total() != 400 {
			t.Errorf("one got %d, the other %d", one.total(), two.total())
		}
		first.stop(t)
		stopped := time.Now()
		w.add(10, accounts...)
		time.Sleep(5 * time.Second)
		if one.total()+two.total() != 800 {
			t.Errorf("one got %d, the other %d", one.total(), two.total())
		}
		if _, last := two.all(); last.Sub(stopped) > 3*time.Second {
			t.Errorf("taken over after %v", last.Sub(stopped))
		}
		second.stop(t)
		w.nothingLeft()
	})
}

// The outcomes of a group exist before the first delivery: increase() of a counter that
// appears at one is zero, and an alert about the first dead letter would see nothing.
func TestOutcomesAreAtZeroAtFirst(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		j := journal{}
		c := w.start(delivery.Consumer{Handler: j.handler(), Metrics: delivery.NewMetrics(w.Metrics)})
		time.Sleep(time.Second)
		families, err := w.Metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := make(map[string]float64)
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if family.GetName() == "rounds_delivery_handled_total" && m.GetLabel()[0].GetValue() == "g" {
					found[m.GetLabel()[1].GetValue()] = m.GetCounter().GetValue()
				}
			}
		}
		if n, ok := found["dead"]; !ok || n != 0 || len(found) != 7 {
			t.Errorf("%v", found)
		}
		c.stop(t)
	})
}

func TestFailedMessagesHoldTheirAccountAndEndAsDeadLetters(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.add(3, "bad", "good")
		j := journal{answer: func(d delivery.Delivery) error {
			if d.Account == "bad" && d.Message.ID == "1" {
				return errors.New("cannot be read")
			}
			return nil
		}}
		c := w.start(delivery.Consumer{Handler: j.handler(), MaxDeliveries: 3, Backoff: func(n int) time.Duration { return time.Duration(n) * time.Minute }})
		time.Sleep(30 * time.Second)
		expect(t, j.of("good"), numbered(0, 3))
		expect(t, j.of("bad"), []string{"0#1", "1#1"})
		w.add(1, "bad", "good")
		time.Sleep(40 * time.Second) // the second time, after a minute
		expect(t, j.of("good"), numbered(0, 4))
		expect(t, j.of("bad"), []string{"0#1", "1#1", "1#2"})
		time.Sleep(2 * time.Minute)
		expect(t, j.of("bad"), []string{"0#1", "1#1", "1#2", "1#3", "2#1", "3#1"})
		letters, err := group.Of(w.Ring).DeadLetters(context.Background(), 0, circulate.StreamStart, 10)
		if err != nil || len(letters) != 1 || letters[0].Message.ID != "1" || letters[0].Deliveries != 3 || letters[0].Error != "cannot be read" {
			t.Fatalf("dead letters %+v, %v", letters, err)
		}
		j.answers(nil)
		if _, err := group.Of(w.Ring).ReplayDead(context.Background(), 0, letters[0].Position); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		expect(t, j.of("bad")[6:], []string{"1#1"})
		c.stop(t)
		w.nothingLeft()
	})
}

func TestLaterCountsNoDeliveryAndSurvivesAStop(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.add(2, "a")
		j := journal{answer: func(delivery.Delivery) error {
			return &delivery.Later{After: 10 * time.Second, Err: errors.New("it is away")}
		}}
		for range 12 {
			c := w.start(delivery.Consumer{Handler: j.handler(), MaxDeliveries: 3})
			time.Sleep(35 * time.Second)
			c.stop(t)
		}
		j.answers(nil)
		c := w.start(delivery.Consumer{Handler: j.handler(), MaxDeliveries: 3})
		time.Sleep(time.Second)
		c.stop(t)
		got := j.of("a")
		if len(got) < 40 || slices.ContainsFunc(got, func(line string) bool { return !strings.HasSuffix(line, "#1") }) {
			t.Errorf("delivered %q", got)
		}
		expect(t, got[len(got)-2:], numbered(0, 2))
		w.nothingLeft()
	})
}

// batches is a Handler of whole batches.
type batches func(ctx context.Context, batch []delivery.Delivery) []error

func (b batches) Handle(ctx context.Context, batch []delivery.Delivery) []error { return b(ctx, batch) }

func TestPanicsAreContainedAndBlamedOnOne(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.add(20, "a", "b", "c")
		var j journal
		c := w.start(delivery.Consumer{MaxDeliveries: 3, Handler: batches(func(ctx context.Context, batch []delivery.Delivery) []error {
			for _, d := range batch {
				if d.Account == "b" && d.Message.ID == "5" {
					panic("poison")
				}
			}
			for _, d := range batch {
				_ = j.handle(ctx, d)
			}
			return nil
		})})
		time.Sleep(10 * time.Minute)
		for account, want := range map[string]int{"a": 20, "b": 19, "c": 20} {
			if got := j.of(account); len(got) != want {
				t.Errorf("%s: %d handled, want %d", account, len(got), want)
			}
		}
		letters, err := group.Of(w.Ring).DeadLetters(context.Background(), 0, circulate.StreamStart, 10)
		if err != nil || len(letters) != 1 || letters[0].Account+letters[0].Message.ID != "b5" || !strings.Contains(letters[0].Error, "panicked: poison") {
			t.Errorf("dead letters %+v, %v", letters, err)
		}
		c.stop(t)
		w.nothingLeft()
	})
}

func TestWhatIsHeldIsBounded(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.add(500, "bad")
		w.add(1, "good")
		j := journal{answer: func(d delivery.Delivery) error {
			if d.Account == "bad" {
				return errors.New("no")
			}
			return nil
		}}
		c := w.start(delivery.Consumer{Handler: j.handler(), Batch: 10, HeldMax: 50, MaxDeliveries: 1000, Backoff: func(int) time.Duration { return time.Minute }})
		time.Sleep(10 * time.Minute)
		s, err := w.Ring.Streams().GroupState(context.Background(), 0, "g")
		if err != nil || s.Pending > 60 || s.OldestUnread == 0 {
			t.Errorf("%+v, %v", s, err)
		}
		if got := j.of("good"); len(got) != 0 {
			t.Errorf("read on to %q", got)
		}
		j.answers(nil)
		time.Sleep(2 * time.Minute)
		w.nothingLeft()
		if got := j.of("bad"); len(j.of("good")) != 1 || got[len(got)-1] != "499#1" {
			t.Errorf("the last is %q", got[len(got)-1])
		}
		c.stop(t)
	})
}

func TestStuckHandlerGivesItsShardUp(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.add(2, "a")
		release := make(chan struct{})
		var j journal
		var first atomic.Bool
		c := w.start(delivery.Consumer{HandlerTimeout: 10 * time.Second, Handler: batches(func(ctx context.Context, batch []delivery.Delivery) []error {
			if !first.Swap(true) {
				<-release
			}
			for _, d := range batch {
				_ = j.handle(ctx, d)
			}
			return nil
		})})
		time.Sleep(11 * time.Second)
		if n := j.total(); n != 0 {
			t.Errorf("handled %d", n)
		}
		time.Sleep(5 * time.Second)
		expect(t, j.of("a"), []string{"0#2", "1#2"})
		w.nothingLeft()
		c.stop(t)
		close(release)
		synctest.Wait()
	})
}

func TestStopLetsHandlersFinish(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.add(10, "a")
		j := journal{answer: func(delivery.Delivery) error {
			time.Sleep(2 * time.Second)
			return nil
		}}
		c := w.start(delivery.Consumer{Handler: j.handler(), Grace: 4500 * time.Millisecond})
		time.Sleep(time.Second)
		began := time.Now()
		c.stop(t)
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("stopped after %v", took)
		}
		done := len(j.of("a"))
		if done < 3 || done > 4 {
			t.Errorf("%d were handled", done)
		}
		j.answers(nil)
		c = w.start(delivery.Consumer{Handler: j.handler()})
		time.Sleep(3 * time.Second)
		expect(t, j.of("a"), numbered(0, 10))
		c.stop(t)
		w.nothingLeft()
	})
}

func TestIdleConsumersAreQuickAndAskLittle(t *testing.T) {
	inFakeTime(t, 64, func(w *world) {
		var j journal
		c := w.start(delivery.Consumer{Handler: j.handler()})
		time.Sleep(time.Minute)
		before := c.commands()
		time.Sleep(time.Minute)
		// Each script runs up to five commands of its own.
		if perSecond := float64(c.commands()-before) / 60; perSecond > 40 {
			t.Errorf("%.0f commands a second while nothing happens", perSecond)
		}
		for i := range 200 {
			account := fmt.Sprint("account", i)
			w.add(1, account)
			wrote := time.Now()
			time.Sleep(37 * time.Millisecond)
			if lines, last := j.all(); len(lines) != i+1 || last.Sub(wrote) > 20*time.Millisecond {
				t.Fatalf("message %d: %d handled, after %v", i, len(lines), last.Sub(wrote))
			}
		}
		c.stop(t)
	})
}

func TestRedisAwayAndBack(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		server := w.Miniredis()
		var j journal
		c := w.start(delivery.Consumer{Handler: j.handler()})
		for i := range 3 {
			w.add(20, "a", "b", "c")
			server.SetError([]string{"LOADING Redis is loading", "MISCONF disk", "READONLY You can't write"}[i])
			time.Sleep(time.Duration(i*i) * 20 * time.Second)
			server.SetError("")
			time.Sleep(20 * time.Second)
			for _, account := range []string{"a", "b", "c"} {
				expect(t, atLeastOnce(j.of(account)), numbered(0, 20*(i+1)))
			}
		}
		w.Do("FLUSHALL")
		w.Do("HSET", "rounds:meta", "shards", 4, "format", 1)
		w.add(5, "a")
		time.Sleep(20 * time.Second)
		expect(t, atLeastOnce(j.of("a")), numbered(0, 65))
		c.stop(t)
	})
}

func TestConfigTellsAllFaults(t *testing.T) {
	err := delivery.Consumer{Group: "a b", Start: "x", Batch: 5000, Concurrency: -1, TakeOver: 1, Grace: -1}.Run(t.Context())
	for _, want := range []string{"ring", "handler", `group "a b"`, `start: position "x": must be MS-SEQ; circulate.StreamStart is the beginning of the stream and circulate.StreamEnd its end`, "batch", "concurrency", "take over", "grace"} {
		if err == nil || !strings.Contains(err.Error(), "consumer: "+want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
