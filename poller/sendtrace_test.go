package poller_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/limit"
	"github.com/rounds-dev/rounds/poller"
)

// tracing is a talker that looks for sends.
type tracing struct {
	*talker
	trace func(ctx context.Context, look int) (found bool, err error)
	looks []time.Time
}

func (k *tracing) Trace(ctx context.Context, r poller.SendRequest) (poller.Sent, bool, error) {
	k.mu.Lock()
	k.looks = append(k.looks, time.Now())
	look := len(k.looks)
	k.mu.Unlock()
	if string(r.Data) != `{"text":"hello"}` || r.Peer != "anna" || r.Account != "a" || r.Attempt != 1 || string(r.Config) != "{}" {
		return poller.Sent{}, true, nil // which makes the test fail
	}
	found, err := k.trace(ctx, look)
	return poller.Sent{VendorID: "traced"}, found, err
}

// Where the kind can look, an unknown send that the third party has is accepted. One that is not found
// may be there all the same.
func TestAnUnknownEndIsLookedFor(t *testing.T) {
	at := func(n int) func(context.Context, int) (bool, error) {
		return func(_ context.Context, look int) (bool, error) { return look >= n, nil }
	}
	never := func(context.Context, int) (bool, error) { return false, nil }
	for name, tt := range map[string]struct {
		more  string
		trace func(context.Context, int) (bool, error)
		state circulate.SendState
		sent  int // how often
		looks int
	}{
		"found":                     {"", at(1), circulate.SendAccepted, 1, 1},
		"found later":               {"", at(3), circulate.SendAccepted, 1, 3},
		"not found":                 {"", never, circulate.SendUnknown, 1, 3},
		"not found, and wanted":     {`,"on_unknown":"retry"`, never, circulate.SendAccepted, 2, 3},
		"found, and wanted":         {`,"on_unknown":"retry"`, at(2), circulate.SendAccepted, 1, 2},
		"the third party is away":   {"", func(context.Context, int) (bool, error) { return true, errors.New("away") }, circulate.SendUnknown, 1, 3},
		"the kind panics":           {"", func(context.Context, int) (bool, error) { panic("x") }, circulate.SendUnknown, 1, 3},
		"the third party is slow":   {"", func(ctx context.Context, look int) (bool, error) { <-ctx.Done(); return true, ctx.Err() }, circulate.SendUnknown, 1, 3},
		"the kind hangs for a time": {"", func(_ context.Context, look int) (bool, error) { time.Sleep(3 * time.Minute); return true, nil }, circulate.SendUnknown, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				k := &tracing{talker: newTalker(), trace: tt.trace}
				k.doubt = poller.DoubtTraces
				k.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
					sent := k.take(r)
					if r.Attempt == 1 {
						return poller.Sent{}, errors.New("cut")
					}
					return sent, nil
				}
				w.chats(tt.more, "a")
				stop := w.startChecking(poller.Config{}, k, testLog(t))
				id, queued := w.queue("a", "anna", nil), time.Now()
				time.Sleep(4 * time.Minute)
				stop()
				s := w.sent(id)
				if s.State != tt.state || len(k.has()) != tt.sent || len(k.looks) != tt.looks {
					t.Errorf("it is %s, was sent %d times and looked for %d times; want %s, %d, %d", s.State, len(k.has()), len(k.looks), tt.state, tt.sent, tt.looks)
				}
				if traced := s.VendorID == "traced"; traced != (tt.state == circulate.SendAccepted && tt.sent == 1) {
					t.Errorf("its vendor's id is %q", s.VendorID)
				}
				for i, most := range []time.Duration{10 * time.Second, time.Minute, 3 * time.Minute}[:len(k.looks)] {
					if after := k.looks[i].Sub(queued); after > most {
						t.Errorf("look %d was after %v", i+1, after)
					}
				}
				time.Sleep(3 * time.Minute) // what hangs ends
			})
		})
	}
}

// While the account's way is down, no look is wasted.
func TestLooksWaitAtAWayThatIsDown(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := &tracing{talker: newTalker(), trace: func(context.Context, int) (bool, error) { return true, nil }}
		k.doubt = poller.DoubtTraces
		k.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
			if r.Peer != "anna" {
				return poller.Sent{}, poller.Unsent(unpassable)
			}
			k.take(r)
			return poller.Sent{}, errors.New("cut")
		}
		w.chats(`,"labels":{"egress":"berlin"}`, "a")
		stop := w.startChecking(poller.Config{Ways: waysOf(t, "berlin direct")}, k, testLog(t))
		time.Sleep(time.Second)
		id := w.queue("a", "anna", nil)
		time.Sleep(time.Second)
		others := []string{w.queue("a", "ben", nil), w.queue("a", "carl", nil), w.queue("a", "dora", nil)}
		time.Sleep(5 * time.Minute)
		w.is(id, circulate.SendUnknown, "unknown")
		if len(k.looks) != 0 {
			t.Errorf("%d looks by a way that is down", len(k.looks))
		}
		for _, other := range others {
			if _, err := w.ring.Sends().Cancel(w.Context(), other); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := limit.TroublesOf(w.ring).Do(w.Context(), []limit.TroubleStep{{Name: "egress/berlin", What: limit.Well}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		w.is(id, circulate.SendAccepted, "")
		stop()
	})
}
