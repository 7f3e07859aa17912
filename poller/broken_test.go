package poller_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// by gives the world a ring whose steps end as decide says.
func (w *world) by(decide func(s faketime.Step) faketime.Fate) {
	w.Helper()
	server := &faketime.Faulty{Server: w.server}
	server.Set(decide)
	ring, err := circulate.Open(w.Context(), server, circulate.Options{Log: testLog(w.T)})
	if err != nil {
		w.Fatal(err)
	}
	w.ring = ring
}

// returns recognizes the step that returns accounts: at first by the script's text, later by
// its digest.
type returns struct {
	mu     sync.Mutex
	digest string
}

func (r *returns) is(s faketime.Step) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := ""
	if len(s.Args) > 0 {
		text, _ = s.Args[0].(string)
	}
	if s.Command == "EVAL" && strings.Contains(text, "\n-- return: ") {
		sum := sha1.Sum([]byte(text))
		r.digest = hex.EncodeToString(sum[:])
		return true
	}
	return s.Command == "EVALSHA" && text == r.digest
}

// An abandoned check that ends after all writes no page, even while its account's return waits
// for Redis and the claim is unchanged.
func TestAnAbandonedCheckWritesNoPage(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
			if len(w.checker.calls("a")) > 1 {
				return poller.Result{}, nil
			}
			time.Sleep(10 * time.Second)
			return poller.Result{Messages: []poller.Message{{ID: "late"}}, Cursor: []byte("late"), HasMore: true}, nil
		}
		var failed atomic.Int32
		var step returns
		began := time.Now()
		w.by(func(s faketime.Step) faketime.Fate {
			if s.At == faketime.Call && step.is(s) && time.Since(began) < 20*time.Second {
				failed.Add(1)
				return faketime.NotDone
			}
			return faketime.Healthy
		})
		w.register("every 1h", "a")
		stop := w.start(poller.Config{CheckTimeout: 5 * time.Second})
		defer stop()
		time.Sleep(15 * time.Second)
		if v := w.look("a"); failed.Load() == 0 || v.Place != circulate.Claimed {
			t.Errorf("it is %s, and %d returns failed", v.Place, failed.Load())
		}
		time.Sleep(10 * time.Second)
		if found := w.found("a"); len(found) > 0 {
			t.Errorf("found %v", found)
		}
		if v := w.look("a"); v.Place != circulate.Scheduled || v.Failures != 1 {
			t.Errorf("it is %s with %d failures", v.Place, v.Failures)
		}
	})
}

// A return whose reply was lost may or may not have been written. If it is refused when it is
// sent again, that does not mean that another replica has the account.
func TestAReturnOfUnknownOutcomeIsNotFenced(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
			return poller.Result{Messages: []poller.Message{{ID: "1"}}}, nil
		}
		var lost atomic.Int32
		var step returns
		w.by(func(s faketime.Step) faketime.Fate {
			if s.At == faketime.Call && step.is(s) && lost.Add(1) == 1 {
				return faketime.ReplyLost
			}
			return faketime.Healthy
		})
		w.register("every 1h", "a")
		stop := w.start(poller.Config{})
		defer stop()
		time.Sleep(10 * time.Second)
		var counted []float64
		for _, outcome := range []string{"written", "unknown", "fenced", "given_up"} {
			counted = append(counted, w.counted("rounds_returns_total", outcome))
		}
		if lost.Load() == 0 || !slices.Equal(counted, []float64{0, 1, 0, 0}) {
			t.Errorf("%d replies were lost, and counted are %v written, unknown, fenced and given up", lost.Load(), counted)
		}
		if found := w.found("a"); !slices.Equal(found, []string{"1"}) || w.look("a").Place != circulate.Scheduled {
			t.Errorf("found %v, and it is %s", found, w.look("a").Place)
		}
	})
}
