package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// deferred expects what the only consumer of the group says about why messages wait.
func (w *world) deferred(want string) {
	w.Helper()
	conditions, err := group.Of(w.Ring).Conditions(w.Context(), "g")
	if err != nil || len(conditions) != 1 {
		w.Fatalf("%+v, %v", conditions, err)
	}
	for _, is := range conditions {
		if is.Deferred != want {
			w.Errorf("it says %q, want %q", is.Deferred, want)
		}
	}
}

// While one account's messages are put off, the log says so once and others learn why, however
// many messages of other accounts are handled meanwhile.
func TestAnAccountThatIsPutOffIsToldUntilItIsHandled(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		const first, again = "a message is put off until later", "messages are handled again, and none is put off any more"
		log := &lines{}
		var away atomic.Bool
		away.Store(true)
		var j journal
		j.answers(func(d delivery.Delivery) error {
			if d.Account == "later" && away.Load() {
				return fmt.Errorf("ledger: %w", &delivery.Later{After: 90 * time.Second, Err: errors.New("the customer is locked")})
			}
			return nil
		})
		c := w.start(delivery.Consumer{Handler: j.handler(), Log: faketime.Log(w, log)})
		for range 60 {
			w.add(1, "later", "a", "b", "c")
			time.Sleep(2 * time.Second)
			log.expect(t, 1, "level=WARN", first, "the customer is locked", "account=later", "message=0")
			log.expect(t, 0, again)
			w.deferred("the customer is locked")
		}
		time.Sleep(10 * time.Minute)
		log.expect(t, 1, "level=WARN", "messages are still put off", "the customer is locked", "delivered=177", "put_off=")
		away.Store(false)
		time.Sleep(2 * time.Minute)
		log.expect(t, 1, first)
		log.expect(t, 1, "level=INFO", again)
		w.deferred("")
		c.stop(t)
		w.nothingLeft()
	})
}

// A consumer that ends does not say that its handler puts messages off.
func TestMessagesThatAConsumersEndPutsOffAreNotTold(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		log := &lines{}
		w.add(3, "a", "b")
		handler := delivery.Each(func(ctx context.Context, _ delivery.Delivery) error {
			<-ctx.Done()
			return &delivery.Later{Err: context.Cause(ctx)}
		})
		c := w.start(delivery.Consumer{Handler: handler, Grace: time.Second, Log: faketime.Log(w, log)})
		time.Sleep(time.Second)
		c.stop(t)
		log.expect(t, 1, "the consumer has ended")
		log.expect(t, 0, "put off")
	})
}

// A nil *delivery.Later is not a nil error. Its message fails, and the error says what is wrong. One
// without a reason says that it has none.
func TestLatersWithoutContent(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		says   string
		handle func(error) delivery.Handler
	}{
		"nil from a function": {(*delivery.Later)(nil), "a nil *delivery.Later is the error", each},
		"nil from a handler":  {(*delivery.Later)(nil), "a nil *delivery.Later is the error", whole},
		"nil within another":  {fmt.Errorf("handler: %w", (*delivery.Later)(nil)), "a nil *delivery.Later is the error", each},
		"without a reason":    {&delivery.Later{After: time.Minute}, "put off by the handler, without a reason", each},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, 1, func(w *world) {
				log := &lines{}
				w.add(1, "a")
				c := w.start(delivery.Consumer{Handler: test.handle(test.err), MaxDeliveries: 100, Log: faketime.Log(w, log)})
				time.Sleep(30 * time.Second)
				log.expect(t, 1, "level=WARN", test.says, "account=a")
				log.expect(t, 0, "panicked")
				c.stop(t)
			})
		})
	}
}

func each(err error) delivery.Handler {
	return delivery.Each(func(context.Context, delivery.Delivery) error { return err })
}

func whole(err error) delivery.Handler {
	return batches(func(_ context.Context, batch []delivery.Delivery) []error {
		return append(make([]error, len(batch)-1), err)
	})
}
