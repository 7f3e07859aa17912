package delivery_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/poller/delivery"
)

// one is a handler that judges each message by itself.
type one func(d delivery.Delivery) error

func (h one) Handle(_ context.Context, batch []delivery.Delivery) []error {
	errs := make([]error, len(batch))
	for i, d := range batch {
		errs[i] = h(d)
	}
	return errs
}

// Where order means nothing, a message that is put off or has failed waits alone, also after its
// consumer has died.
func TestUnorderedMessagesWaitAlone(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		var j journal
		var away atomic.Bool
		away.Store(true)
		handler := one(func(d delivery.Delivery) error {
			switch {
			case d.Message.ID == "0" && away.Load():
				return &delivery.Later{After: time.Minute, Err: errors.New("its file is not there yet")}
			case d.Message.ID == "2" && away.Load():
				return errors.New("no")
			}
			return j.handle(t.Context(), d)
		})
		c := w.start(delivery.Consumer{Handler: handler, Unordered: true, Parallel: 2})
		w.add(5, "a", "b")
		time.Sleep(5 * time.Second)
		for _, account := range []string{"a", "b"} {
			if got := sorted(j.of(account)); !slices.Equal(got, []string{"1#1", "3#1", "4#1"}) {
				t.Errorf("handled %q", got)
			}
		}
		w.add(1, "a")
		time.Sleep(2 * time.Second)
		if got := j.of("a"); got[len(got)-1] != "5#1" {
			t.Errorf("handled %q", got)
		}
		c.kill()
		c.cancel()
		c.ended(t)
		next := w.start(delivery.Consumer{Handler: handler, Unordered: true})
		w.add(1, "a")
		time.Sleep(30 * time.Second)
		if got := sorted(j.of("a")); !slices.Equal(got, []string{"1#1", "3#1", "4#1", "5#1", "6#1"}) {
			t.Errorf("after a take-over %q", got)
		}
		away.Store(false)
		time.Sleep(20 * time.Minute)
		for _, account := range []string{"a", "b"} {
			if got := sorted(j.of(account)); len(got) != w.count[account] {
				t.Errorf("handled in the end %q", got)
			}
		}
		next.stop(t)
	})
}

func sorted(texts []string) []string {
	slices.Sort(texts)
	return texts
}

// A message that its handler gives up is a dead letter at once, with the reason.
func TestAMessageGivenUpIsADeadLetterAtOnce(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		var j journal
		c := w.start(delivery.Consumer{Handler: delivery.Each(func(ctx context.Context, d delivery.Delivery) error {
			if d.Message.ID == "0" {
				return &delivery.Dead{Err: errors.New("its file is gone")}
			}
			return j.handle(ctx, d)
		})})
		w.add(2, "a")
		time.Sleep(time.Second)
		letters, err := group.Of(w.Ring).DeadLetters(w.Context(), 0, circulate.StreamStart, 10)
		if err != nil || len(letters) != 1 || letters[0].Error != "its file is gone" || letters[0].Message.ID != "0" || letters[0].Deliveries != 1 {
			t.Errorf("%+v, %v", letters, err)
		}
		time.Sleep(time.Second)
		if got := j.of("a"); !slices.Equal(got, []string{"1#1"}) {
			t.Errorf("handled %q", got)
		}
		c.stop(t)
	})
}
