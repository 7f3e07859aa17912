package poller_test

import (
	"context"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// TestANudgeDuringACheckIsObeyedAfterIt nudges an account during its check, once to now and
// once to a later time.
func TestANudgeDuringACheckIsObeyedAfterIt(t *testing.T) {
	for _, within := range []time.Duration{0, 5 * time.Second} {
		t.Run(within.String(), func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
					time.Sleep(time.Second)
					return poller.Result{}, nil
				}
				w.register("every 24h", "a")
				stop := w.startMany(2, poller.Config{})
				time.Sleep(10 * time.Second)
				w.register("every 24h", "b") // half a second of its check passes
				time.Sleep(500 * time.Millisecond)
				if err := w.ring.Account("b").Nudge(w.Context(), circulate.Nudge{Within: within, Hint: []byte(`"h"`), Lives: time.Minute}); err != nil {
					t.Fatal(err)
				}
				nudged := time.Now()
				time.Sleep(20 * time.Second)
				calls := w.checker.calls("b")
				if len(calls) != 2 || string(calls[1].request.Hint) != `"h"` {
					t.Fatalf("%d checks within 20 s", len(calls))
				}
				soonest := max(within, 500*time.Millisecond)
				if after := calls[1].at.Sub(nudged); after < soonest || after > soonest+100*time.Millisecond {
					t.Errorf("checked %v after the nudge, want %v", after, soonest)
				}
				stop()
			})
		})
	}
}
