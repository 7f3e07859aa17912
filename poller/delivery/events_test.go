package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/poller/delivery"
)

// send sends something in the name of each account, which the third party accepts, and returns the
// ids of the events. A group must have asked for them.
func (w *world) send(accounts ...string) (events []string) {
	w.Helper()
	for _, account := range accounts {
		shard, sends := w.Ring.ShardOf(account), w.Ring.Sends()
		s := circulate.Send{ID: circulate.NewSendID(account), Account: account, Kind: "chat", Peer: "anna", Type: "text", Data: []byte(`{"text":"hello"}`)}
		if _, _, err := sends.Queue(w.Context(), s, "", circulate.SendBounds{}); err != nil {
			w.Fatal(err)
		}
		attempts, _, err := sends.Attempt(w.Context(), shard, circulate.AttemptOrder{Replica: "replica000", Step: s.ID, Kinds: []string{"chat"}, Most: 1, Lasts: time.Minute})
		if err != nil || len(attempts) != 1 {
			w.Fatalf("attempts %+v, %v", attempts, err)
		}
		settled, err := sends.Settle(w.Context(), []circulate.Settlement{{ID: s.ID, Fence: attempts[0].Fence, Outcome: circulate.AttemptAccepted}})
		if err != nil || !settled[0] {
			w.Fatalf("settled %v, %v", settled, err)
		}
		events = append(events, w.lastEvent(account, s.ID))
	}
	return events
}

// lastEvent expects the last entry of an account's shard to be an event of a send, and returns its
// id.
func (w *world) lastEvent(account, send string) string {
	w.Helper()
	shard := w.Ring.ShardOf(account)
	found, err := w.Ring.Streams().Read(shard, w.Do("XREVRANGE", w.Key(shard, "messages"), "+", "-", "COUNT", 1))
	if err != nil || len(found) != 1 || !found[0].Event || !strings.HasPrefix(found[0].Message.ID, send+".") {
		w.Fatalf("found %+v, %v, want an event of %s", found, err, send)
	}
	return found[0].Message.ID
}

// Events are applied once, in one order with the messages of their account, wherever consumers die.
// A group that does not ask for them gets none.
func TestEventsAreAppliedOnceWhereverConsumersDie(t *testing.T) {
	accounts := []string{"a", "b", "c"}
	for _, name := range []string{"before a read", "after a read", "in the handler", "after the effect", "during a takeover"} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, 2, func(w *world) {
				w.Register(circulate.Registration{ID: "a"}, circulate.Registration{ID: "b"}, circulate.Registration{ID: "c"})
				settings := delivery.Consumer{Handler: w.effect(0), Events: true, Batch: 4, TakeOver: 5 * time.Second}
				survivor := w.start(settings)
				var j journal
				plain := w.start(delivery.Consumer{Group: "plain", Handler: j.handler()})
				time.Sleep(2 * time.Second)
				write := func() {
					w.add(1, accounts...)
					for i, id := range w.send(accounts...) {
						w.written = append(w.written, accounts[i]+"/"+id)
					}
				}
				for range 2 {
					before := w.start(settings) // it leaves something to take over
					before.at(deaths["in the handler"])
					time.Sleep(3 * time.Second)
					write()
					time.Sleep(time.Second)
					before.kill()
					before.cancel()
					before.ended(t)
					doomed := w.start(settings)
					doomed.at(deaths[name])
					for range 8 {
						write()
						time.Sleep(time.Second)
					}
					doomed.kill()
					doomed.cancel()
					write()
					time.Sleep(20 * time.Second)
					doomed.ended(t)
				}
				time.Sleep(40 * time.Second)
				w.appliedOnce()
				w.nothingLeft()
				for _, account := range accounts {
					expect(t, j.of(account), numbered(0, w.count[account]))
				}
				plain.stop(t)
				survivor.stop(t)
			})
		})
	}
}

// An event is a delivery like a message: it can be told from one, it is tried again while its
// account waits, and it becomes a dead letter.
func TestAnEventThatIsNotHandled(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.Register(circulate.Registration{ID: "a"})
		var tried atomic.Int32
		var order []string
		c := w.start(delivery.Consumer{Events: true, MaxDeliveries: 3, Handler: delivery.Each(func(_ context.Context, d delivery.Delivery) error {
			if !d.Event {
				order = append(order, d.Message.ID)
				return nil
			}
			e, err := d.SendEvent()
			if err != nil || e.Account != "a" || e.State != "accepted" || d.Message.Type != "send.accepted" || d.Handle != "" {
				t.Errorf("got %+v, %v, handle %q", e, err, d.Handle)
			}
			tried.Add(1)
			return errors.New("no")
		})})
		time.Sleep(time.Second)
		id := w.send("a")[0]
		w.add(1, "a")
		time.Sleep(time.Minute)
		c.stop(t)
		if tried.Load() != 3 || fmt.Sprint(order) != "[0]" {
			t.Errorf("tried %d times, and %q came behind it", tried.Load(), order)
		}
		dead, err := group.Of(w.Ring).DeadLetters(w.Context(), 0, circulate.StreamStart, 10)
		if err != nil || len(dead) != 1 || !dead[0].Event || dead[0].Message.ID != id {
			t.Errorf("dead letters %+v, %v", dead, err)
		}
	})
}

// A consumer asks again for events after Redis has forgotten that it did. One that begins without
// asking ends it for its group.
func TestAGroupAsksUntilAConsumerDoesNot(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		var j journal
		told := func(want string) {
			t.Helper()
			for shard := range w.shards {
				if got, err := w.Ring.Streams().Told(w.Context(), shard); err != nil || fmt.Sprint(got) != want {
					t.Errorf("shard %d tells %v, %v; want %s", shard, got, err, want)
				}
			}
		}
		c := w.start(delivery.Consumer{Events: true, Handler: j.handler()})
		time.Sleep(time.Second)
		told("[g]")
		for shard := range w.shards {
			w.Do("DEL", w.Key(shard, "sends:names"))
		}
		time.Sleep(2 * time.Minute)
		told("[g]")
		for shard := range w.shards {
			w.Do("DEL", w.Key(shard, "sends:names"), w.Key(shard, "messages"))
		}
		w.add(1, "a", "b", "c", "d")
		time.Sleep(20 * time.Second)
		told("[g]")
		c.stop(t)
		told("[g]")
		c = w.start(delivery.Consumer{Handler: j.handler()})
		time.Sleep(time.Second)
		told("[]")
		c.stop(t)
	})
}
