package delivery_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/poller/delivery"
)

// prepared is a handler that must be prepared.
type prepared struct {
	delivery.Handler
	prepare func() error
}

func (p prepared) Prepare(context.Context) error { return p.prepare() }

// A consumer reports that its handler puts all messages off, until it handles some.
func TestAConsumerSaysThatItPutsOff(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.add(3, "a")
		var away atomic.Bool
		away.Store(true)
		var j journal
		j.answers(func(delivery.Delivery) error {
			if away.Load() {
				return &delivery.Later{After: time.Second, Err: errors.New("no such table: ledger")}
			}
			return nil
		})
		c := w.start(delivery.Consumer{Handler: j.handler()})
		says := func(want string) {
			t.Helper()
			conditions, err := group.Of(w.Ring).Conditions(w.Context(), "g")
			if err != nil || len(conditions) != 1 {
				t.Fatalf("%+v, %v", conditions, err)
			}
			for _, is := range conditions {
				if is.Deferred != want {
					t.Errorf("it says %q, want %q", is.Deferred, want)
				}
			}
		}
		time.Sleep(10 * time.Second)
		says("no such table: ledger")
		away.Store(false)
		time.Sleep(10 * time.Second)
		says("")
		c.stop(t)
	})
}

// A consumer prepares its handler before it reads anything, and again while that is put off. It
// ends with any other error.
func TestAHandlerIsPreparedFirst(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.add(3, "a")
		var j journal
		tries, began := 0, time.Now()
		c := w.start(delivery.Consumer{Handler: prepared{j.handler(), func() error {
			if tries++; j.total() > 0 {
				t.Error("it has read before it was prepared")
			}
			if time.Since(began) < time.Minute {
				return &delivery.Later{After: time.Second, Err: errors.New("the database is away")}
			}
			return nil
		}}})
		time.Sleep(time.Minute + 2*time.Second)
		if got := j.of("a"); len(got) != 3 || tries != 61 {
			t.Errorf("delivered %q after %d tries", got, tries)
		}
		c.stop(t)
		w.nothingLeft()

		c = w.start(delivery.Consumer{Handler: prepared{j.handler(), func() error { return errors.New("no permission") }}})
		if err := <-c.done; err == nil || !strings.Contains(err.Error(), "consumer g: no permission") {
			t.Errorf("it ended with %v", err)
		}
		c = w.start(delivery.Consumer{Handler: prepared{j.handler(), func() error { return &delivery.Later{After: time.Hour, Err: errors.New("away")} }}})
		time.Sleep(time.Minute)
		c.stop(t)
	})
}
