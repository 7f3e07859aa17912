package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/delivery"
)

// A group that begins with messages found from now on exists in every shard as soon as its
// first consumer joins. That includes the shards that its peers consume and the shards to
// which accounts move later.
func TestFromNowWhileTheNumberOfShardsChanges(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.Register(circulate.Registration{ID: "stays"}, circulate.Registration{ID: "moves"})
		if w.Ring.ShardOf("stays") == w.Ring.ShardOf("moves") {
			t.Fatal("both are in one shard")
		}
		if _, err := w.Ring.Mover().Begin(w.Context(), 3); err != nil {
			t.Fatal(err)
		}
		ring := w.Open(w.Redis)
		if err := ring.Mover().Receive(w.Context()); err != nil {
			t.Fatal(err)
		}
		if moved, _, err := ring.Mover().Move(w.Context(), w.Ring.ShardOf("moves")); err != nil || moved != 1 {
			t.Fatalf("%d moved, %v", moved, err)
		}
		var j journal
		c := w.start(delivery.Consumer{Handler: j.handler(), Start: circulate.StreamEnd})
		time.Sleep(2 * time.Second)
		home := ring.Sources()
		for w.Do("HEXISTS", ring.Tag(home)+":tickets", "moves") != int64(1) {
			home++
		}
		w.Do("XADD", ring.Tag(home)+":messages", "*", "account", "moves", "kind", "feed", "id", "0", "type", "text", "time", "", "data", "{}")
		time.Sleep(10 * time.Second)
		if lines := j.of("moves"); len(lines) > 0 {
			t.Errorf("%q, before the accounts of the old shards have moved", lines)
		}
		for source := range ring.Sources() {
			if _, _, err := ring.Mover().Move(w.Context(), source); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		expect(t, j.of("moves"), []string{"0#1"})
		c.stop(t)
	})
}

// A message's handle names its shard for as long as the namespace lives.
func TestHandlesNameTheGenerationOfTheShard(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.Register(circulate.Registration{ID: "a"})
		w.add(1, "a")
		if _, err := w.Ring.Mover().Begin(w.Context(), 3); err != nil {
			t.Fatal(err)
		}
		ring := w.Open(w.Redis)
		home := ring.Sources() + 2
		w.Do("XADD", ring.Tag(home)+":messages", "*", "account", "b", "kind", "feed", "id", "0", "type", "text", "time", "", "data", "{}")
		var handles sync.Map // account → handle, without the position
		c := w.start(delivery.Consumer{Handler: delivery.Each(func(_ context.Context, d delivery.Delivery) error {
			handles.Store(d.Account, strings.TrimSuffix(d.Handle, d.Position))
			return nil
		})})
		for source := range ring.Sources() {
			if err := ring.Mover().Receive(w.Context()); err != nil {
				t.Fatal(err)
			}
			if _, _, err := ring.Mover().Move(w.Context(), source); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		c.stop(t)
		for account, want := range map[string]string{"a": fmt.Sprintf("%d:", ring.ShardOf("a")), "b": "1.2:"} {
			if got, _ := handles.Load(account); got != want {
				t.Errorf("%s: got %v, want %s", account, got, want)
			}
		}
	})
}

// A consumer that was opened with a ring, and nothing else, goes on when the number of shards
// changes: with a handler of its own, and with an effect.
func TestAConsumerFollowsTheNumberOfShards(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.Register(circulate.Registration{ID: "a"}, circulate.Registration{ID: "b"})
		w.add(3, "a", "b")
		var j journal
		var control delivery.Control
		c := w.start(delivery.Consumer{Handler: j.handler(), Control: &control})
		effect := w.start(delivery.Consumer{Group: "effect", Handler: w.effect(0)})
		time.Sleep(2 * time.Second)
		if _, err := w.Ring.Mover().Begin(w.Context(), 5); err != nil {
			t.Fatal(err)
		}
		ring := w.Open(w.Redis)
		if err := ring.Mover().Receive(w.Context()); err != nil {
			t.Fatal(err)
		}
		for source := range ring.Sources() {
			if _, _, err := ring.Mover().Move(w.Context(), source); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		for _, account := range []string{"a", "b"} {
			shard := ring.ShardOf(account)
			w.Do("XADD", ring.Tag(shard)+":messages", "*", "account", account, "kind", "feed", "id", "3", "type", "text", "time", "", "data", `{"n":1}`)
		}
		time.Sleep(10 * time.Second)
		for _, account := range []string{"a", "b"} {
			expect(t, j.of(account), numbered(0, 4))
		}
		j.answers(func(delivery.Delivery) error { return errors.New("no") })
		shard := ring.ShardOf("a")
		w.Do("XADD", ring.Tag(shard)+":messages", "*", "account", "a", "kind", "feed", "id", "4", "type", "text", "time", "", "data", `{"n":1}`)
		time.Sleep(time.Second / 2)
		if s := control.Standing(); s.Accounts != 1 {
			t.Errorf("its control sees %+v", s)
		}
		j.answers(nil)
		time.Sleep(10 * time.Second)
		c.stop(t)
		effect.stop(t)
		for shard := range ring.Shards() {
			if state, err := ring.Streams().GroupState(context.Background(), shard, "effect"); err != nil || state.Pending+int(state.OldestUnread) != 0 {
				t.Errorf("the effect left %+v, %v", state, err)
			}
		}
	})
}
