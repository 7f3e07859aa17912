package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
)

func TestFailuresAreTriedAgainUnderTheSameID(t *testing.T) {
	inFakeTime(t, func(w *world) {
		sink := w.sink(nil)
		w.receiver.say(func(n int, _ *http.Request, answer http.ResponseWriter) {
			if n < 3 {
				answer.WriteHeader(http.StatusInternalServerError)
			}
		})
		start := time.Now()
		if err := one(w.Context(), sink, "a/1"); err != nil {
			t.Fatal(err)
		}
		within(t, "two backoffs", time.Since(start), 625*time.Millisecond, 1250*time.Millisecond)
		w.receiver.expect(t, "a/1", "a/1", "a/1")

		w.receiver.status(http.StatusBadGateway)
		err := one(w.Context(), sink, "a/1")
		is(t, err, webhook.Failed, true)
		if want := "webhook crm: answered 502"; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
		w.receiver.expect(t, "a/1", "a/1", "a/1")
		if len(slices.Compact(w.receiver.ids)) != 1 {
			t.Errorf("ids %q", w.receiver.ids)
		}
		if w.counted(webhook.Delivered) != 1 || w.counted(webhook.Failed) != 1 {
			t.Error("miscounted")
		}
	})
}

func TestRejectionsCountAndAreNotTriedAgainAtOnce(t *testing.T) {
	inFakeTime(t, func(w *world) {
		sink := w.sink(nil)
		for _, status := range []int{301, 302, 307, 308, 304, 400, 401, 403, 404, 409, 413, 422} {
			w.receiver.status(status)
			is(t, one(w.Context(), sink, "a/1"), webhook.Rejected, true)
			w.receiver.expect(t, "a/1")
		}
		// The endpoint answers, so this does not concern the breaker.
		w.receiver.status(http.StatusAccepted)
		if err := one(w.Context(), sink, "a/1"); err != nil {
			t.Error(err)
		}
	})
}

func TestRetryAfterIsObeyedForTheWholeEndpoint(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		inFakeTime(t, func(w *world) {
			sink := w.sink(nil)
			w.receiver.say(func(_ int, _ *http.Request, answer http.ResponseWriter) {
				answer.Header().Set("Retry-After", "120")
				answer.WriteHeader(status)
			})
			after := is(t, one(w.Context(), sink, "a/1"), webhook.Throttled, false)
			within(t, "after", after, 120*time.Second, 133*time.Second)
			w.receiver.expect(t, "a/1")

			w.receiver.status(http.StatusOK)
			time.Sleep(100 * time.Second)
			left := is(t, one(w.Context(), sink, "b/1"), webhook.Deferred, false)
			if want := after - 100*time.Second; left != want {
				t.Errorf("left: got %v, want %v", left, want)
			}
			w.receiver.expect(t)
			time.Sleep(left)
			for _, name := range []string{"a/1", "b/1"} {
				if err := one(w.Context(), sink, name); err != nil {
					t.Error(err)
				}
			}
			w.receiver.expect(t, "a/1", "b/1")
		})
	}
}

func TestThrottlingWithoutRetryAfterGrows(t *testing.T) {
	inFakeTime(t, func(w *world) {
		sink := w.sink(nil)
		w.receiver.status(http.StatusTooManyRequests)
		for n := range 12 {
			want := min(time.Second<<n, 5*time.Minute)
			after := is(t, one(w.Context(), sink, "a/1"), webhook.Throttled, false)
			within(t, "after", after, want, want+want/10+1)
			time.Sleep(after)
		}
		w.receiver.status(http.StatusOK)
		if err := one(w.Context(), sink, "a/1"); err != nil {
			t.Fatal(err)
		}
		w.receiver.status(http.StatusTooManyRequests)
		within(t, "after a success", is(t, one(w.Context(), sink, "a/1"), webhook.Throttled, false), time.Second, 1101*time.Millisecond)
	})
}

func TestBreakerOpensProbesAndCloses(t *testing.T) {
	inFakeTime(t, func(w *world) {
		state := func(want float64) {
			t.Helper()
			if got := w.Counted("rounds_webhook_breaker_state", "crm"); got != want {
				t.Errorf("breaker state %v, want %v", got, want)
			}
		}
		sink := w.sink(nil)
		state(0)
		w.receiver.status(http.StatusInternalServerError)
		is(t, one(w.Context(), sink, "a/1"), webhook.Failed, true)
		is(t, one(w.Context(), sink, "a/1"), webhook.Failed, true)
		w.receiver.expect(t, "a/1", "a/1", "a/1", "a/1", "a/1") // the fifth opened it
		state(2)

		for n := range 8 {
			// Nothing is sent while the breaker is open, and no delivery is used up.
			after := is(t, one(w.Context(), sink, "b/1"), webhook.Deferred, false)
			want := min(30*time.Second<<n, 10*time.Minute)
			within(t, "open for", after, want-time.Second, want+want/4+1)
			w.receiver.expect(t)
			time.Sleep(after)
			is(t, one(w.Context(), sink, "b/1"), webhook.Failed, true)
			w.receiver.expect(t, "b/1")
		}
		state(2)

		// One probe at a time; others come back soon.
		time.Sleep(is(t, one(w.Context(), sink, "a/1"), webhook.Deferred, false))
		w.receiver.say(slow(2 * time.Second))
		errs := sink.Handle(w.Context(), messages("a/1", "b/1", "c/1"))
		var delivered int
		for _, err := range errs {
			if err == nil {
				delivered++
				continue
			}
			if after := is(t, err, webhook.Deferred, false); after != time.Second {
				t.Errorf("beside a probe: after %v", after)
			}
		}
		if delivered != 1 || len(w.receiver.seen()) != 1 {
			t.Errorf("%d delivered: %v", delivered, errs)
		}
		state(0)
		if errs := sink.Handle(w.Context(), messages("a/1", "b/1", "c/1")); errs[0] != nil || errs[1] != nil || errs[2] != nil {
			t.Error(errs)
		}
	})
}

func TestEndpointThatIsAwayUsesUpNoDelivery(t *testing.T) {
	inFakeTime(t, func(w *world) {
		sink := w.sink(nil)
		w.receiver.goAway()
		is(t, one(w.Context(), sink, "a/1"), webhook.Unreachable, false)
		for range 20 {
			err := one(w.Context(), sink, "a/1")
			var later *delivery.Later
			if !errors.As(err, &later) {
				t.Fatalf("got %v", err)
			}
			time.Sleep(later.After)
		}
		w.receiver.status(http.StatusOK)
		time.Sleep(13 * time.Minute)
		if err := one(w.Context(), sink, "a/1"); err != nil {
			t.Error(err)
		}
		if w.counted(webhook.Failed) != 0 {
			t.Error("counted as failed")
		}
	})
}

// A message that makes the receiver crash counts as failed, even though no connection can be
// made after that.
func TestMessageThatBringsTheReceiverDownCounts(t *testing.T) {
	inFakeTime(t, func(w *world) {
		sink := w.sink(nil)
		w.receiver.say(func(_ int, _ *http.Request, answer http.ResponseWriter) {
			answer.WriteHeader(http.StatusBadGateway)
			w.receiver.goAway()
		})
		is(t, one(w.Context(), sink, "a/1"), webhook.Failed, true)
		w.receiver.expect(t, "a/1")
	})
}

func TestSlowReceiver(t *testing.T) {
	inFakeTime(t, func(w *world) {
		sink := w.sink(func(e *webhook.Endpoint) { e.Timeout = 12 * time.Second })
		w.receiver.say(slow(time.Hour))
		start := time.Now()
		err := one(w.Context(), sink, "a/1")
		is(t, err, webhook.Failed, true)
		// The second attempt began within the window. A third could not.
		within(t, "two attempts", time.Since(start), 24*time.Second, 25*time.Second)
		w.receiver.expect(t, "a/1", "a/1")

		// Messages that a call does not reach are returned and do not count as failed.
		w.receiver.say(slow(11 * time.Second))
		sink = w.sink(func(e *webhook.Endpoint) { e.Timeout, e.Concurrency, e.Ordered = 12*time.Second, 1, true })
		errs := sink.Handle(w.Context(), messages("a/1", "a/2", "a/3", "a/4"))
		if errs[0] != nil || errs[1] != nil {
			t.Errorf("got %v", errs)
		}
		if after := is(t, errs[2], webhook.Deferred, false); after != 0 || !errors.Is(errs[3], delivery.ErrHeld) {
			t.Errorf("after %v, then %v", after, errs[3])
		}
		w.receiver.expect(t, "a/1", "a/2")
	})
}

func TestCancellation(t *testing.T) {
	inFakeTime(t, func(w *world) {
		for _, ordered := range []bool{true, false} {
			sink := w.sink(func(e *webhook.Endpoint) { e.Ordered, e.Concurrency = ordered, 2 })
			w.receiver.say(slow(10 * time.Second))
			ctx, cancel := context.WithCancel(w.Context())
			time.AfterFunc(3*time.Second, cancel)
			start := time.Now()
			errs := sink.Handle(ctx, messages("a/1", "b/1", "c/1", "d/1"))
			if took := time.Since(start); took != 3*time.Second {
				t.Errorf("took %v", took)
			}
			for _, err := range errs {
				is(t, err, webhook.Canceled, false)
			}
			if got := w.receiver.seen(); len(got) != 2 {
				t.Errorf("got %q", got)
			}
			is(t, one(ctx, sink, "a/1"), webhook.Canceled, false)
			w.receiver.expect(t)
		}
	})
}

// A timeout counts against a message even if the consumer's deadline ended the call. Otherwise
// a message that the endpoint never answers would be tried for ever.
func TestDeadlineOfTheConsumer(t *testing.T) {
	inFakeTime(t, func(w *world) {
		sink := w.sink(func(e *webhook.Endpoint) { e.Timeout, e.Concurrency = 30*time.Second, 1 })
		if got := sink.HandlerTimeout(); got != 51*time.Second {
			t.Errorf("handler timeout %v", got)
		}
		w.receiver.say(slow(time.Hour))
		ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		is(t, one(ctx, sink, "a/1"), webhook.Failed, true)
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("took %v", took)
		}
		w.receiver.expect(t, "a/1")

		// A call that the deadline would cut off is not begun.
		sink = w.sink(func(e *webhook.Endpoint) { e.Timeout, e.Concurrency, e.Ordered = 15*time.Second, 1, true })
		w.receiver.say(slow(8 * time.Second))
		ctx, cancel = context.WithTimeout(w.Context(), 30*time.Second)
		defer cancel()
		errs := sink.Handle(ctx, messages(names("a", 4)...))
		if errs[0] != nil || errs[1] != nil {
			t.Error(errs)
		}
		is(t, errs[2], webhook.Deferred, false)
		w.receiver.expect(t, "a/1", "a/2")
	})
}
