package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// hanger is a handler that hangs in each call and ignores its context until it is freed. It
// does not acknowledge the messages of such a call, because another consumer has them by then.
type hanger struct {
	journal
	free chan struct{}
	is   atomic.Bool
	mu   sync.Mutex
	hung map[string]int // message -> calls with it that hang
}

func newHanger() *hanger {
	h := &hanger{free: make(chan struct{}), hung: make(map[string]int)}
	h.is.Store(true)
	return h
}

func (h *hanger) Handle(ctx context.Context, batch []delivery.Delivery) []error {
	if h.is.Load() {
		h.mu.Lock()
		for _, d := range batch {
			h.hung[d.Account+"/"+d.Message.ID]++
		}
		h.mu.Unlock()
		<-h.free
		return make([]error, len(batch))
	}
	return h.handler().Handle(ctx, batch)
}

func (h *hanger) heal() {
	h.is.Store(false)
	close(h.free)
}

// most returns the highest number of calls that hung with one message.
func (h *hanger) most() (most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.hung {
		most = max(most, n)
	}
	return most
}

// A consumer whose handlers never return passes their shards to its peer. Each such shard
// costs it one slot. It leaves the group when it has no slot left. When the handlers return,
// it takes part again.
func TestHangingHandlersAreNoHindranceToPeers(t *testing.T) {
	for _, slots := range []int{64, 2} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			inFakeTime(t, 32, func(w *world) {
				var accounts []string
				for i := range 40 {
					accounts = append(accounts, fmt.Sprint("account", i))
				}
				bad := newHanger()
				var good journal
				one := w.start(delivery.Consumer{Handler: bad, Concurrency: slots, HandlerTimeout: 10 * time.Second, Metrics: delivery.NewMetrics(w.Metrics)})
				two := w.start(delivery.Consumer{Handler: good.handler()})
				time.Sleep(3 * time.Second)
				w.add(3, accounts...)
				time.Sleep(3 * time.Minute)
				w.nothingLeft()
				if n := good.total(); n != 120 {
					t.Errorf("the healthy consumer got %d of 120", n)
				}
				for _, account := range accounts {
					expect(t, atLeastOnce(good.of(account)), numbered(0, 3))
				}
				if n := bad.most(); n != 1 {
					t.Errorf("a message came to hang %d times at one consumer", n)
				}
				hang, aside := w.Counted("rounds_delivery_handlers_stuck", ""), w.Counted("rounds_delivery_aside", "")
				if left := hang == float64(slots); left != (aside == 1) || left != (slots == 2) {
					t.Errorf("%v of %d handlers hang, and aside is %v", hang, slots, aside)
				}
				// New messages go to the healthy consumer at once.
				w.add(1, accounts...)
				time.Sleep(time.Second)
				if n := good.total(); n != 160 {
					t.Errorf("the healthy consumer got %d of 160", n)
				}
				bad.heal()
				time.Sleep(20 * time.Second)
				if n := w.Counted("rounds_delivery_handlers_stuck", "") + w.Counted("rounds_delivery_aside", ""); n != 0 {
					t.Errorf("it still counts %v as hanging", n)
				}
				w.add(1, accounts...)
				time.Sleep(time.Second)
				if a, b := good.total()-160, bad.total(); a == 0 || b == 0 || a+b != 40 {
					t.Errorf("after it healed one got %d of 40, the other %d", b, a)
				}
				w.nothingLeft()
				one.stop(t)
				two.stop(t)
			})
		})
	}
}

// A message in which all consumers hang ends as a dead letter. The messages after it are
// delivered.
func TestAMessageThatHangsEverybodyEndsAsADeadLetter(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		free := make(chan struct{})
		var j journal
		handler := batches(func(ctx context.Context, batch []delivery.Delivery) []error {
			if slices.ContainsFunc(batch, func(d delivery.Delivery) bool { return d.Account == "bad" && d.Message.ID == "0" }) {
				<-free
			}
			return j.handler().Handle(ctx, batch)
		})
		one := w.start(delivery.Consumer{Handler: handler, HandlerTimeout: 10 * time.Second, MaxDeliveries: 4})
		two := w.start(delivery.Consumer{Handler: handler, HandlerTimeout: 10 * time.Second, MaxDeliveries: 4})
		time.Sleep(3 * time.Second)
		w.add(1, "bad")
		time.Sleep(time.Second)
		w.add(2, "bad", "a", "b", "c")
		time.Sleep(10 * time.Minute)
		expect(t, atLeastOnce(j.of("bad")), []string{"1#1", "2#1"})
		for _, account := range []string{"a", "b", "c"} {
			expect(t, atLeastOnce(j.of(account)), numbered(0, 2))
		}
		w.nothingLeft()
		close(free)
		one.stop(t)
		two.stop(t)
	})
}
