package poller_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// holding is a scripted checker whose third party holds calls, as the config's hold says, in
// seconds.
type holding struct{ *scripted }

func (*holding) Hold(config json.RawMessage) time.Duration {
	var c struct{ Hold float64 }
	_ = json.Unmarshal(config, &c) // no valid config means no hold
	if c.Hold == 13 {
		panic("unlucky")
	}
	return time.Duration(c.Hold * float64(time.Second))
}

// startHolding runs a pool whose checker is a Holder.
func (w *world) startHolding(config poller.Config) (stop func()) {
	w.Helper()
	return w.startChecking(config, &holding{w.checker}, testLog(w.T))
}

func (w *world) registerHeld(id, hold, cadence string) {
	w.Helper()
	w.registerRecord(id, `{"id":"`+id+`","kind":"scripted","config":{"hold":`+hold+`},"cadence":"`+cadence+`"}`)
}

// Settings that leave no time for a hold are refused. A pool without such kinds does not mind them.
func TestSettingsThatLeaveNoHold(t *testing.T) {
	inFakeTime(t, func(w *world) {
		config := poller.Config{CheckTimeout: time.Second, LongTimeout: 3*time.Second - 1}
		for name, tt := range map[string]struct {
			checker poller.Checker
			want    string
		}{
			"held":     {&holding{w.checker}, `long timeout: must be at least 3s, is 2.999999999s`},
			"not held": {w.checker, ""},
		} {
			checkers, err := poller.NewCheckers(tt.checker)
			if err != nil {
				t.Fatal(err)
			}
			_, err = poller.New(w.ring, checkers, config, poller.Options{})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}

// A held check may take as long as the third party holds it and ten seconds more, whatever the
// time-out of other checks is. What the third party says last overrules what the kind knows.
func TestAHeldCheckHasATimeoutOfItsOwn(t *testing.T) {
	for name, tt := range map[string]struct {
		hold       string
		told       time.Duration
		limit      time.Duration // Config.LongTimeout
		want, take time.Duration // of the call: how long it is held, how long it may take
	}{
		"not held":                        {"0", 0, 5 * time.Minute, 0, 30 * time.Second},
		"a checker that panics":           {"13", 0, 5 * time.Minute, 0, 30 * time.Second},
		"held":                            {"35", 0, 5 * time.Minute, 35 * time.Second, 45 * time.Second},
		"held for less than the time-out": {"5", 0, 5 * time.Minute, 5 * time.Second, 15 * time.Second},
		"held for longer than is safe":    {"900", 0, 5 * time.Minute, 140 * time.Second, 150 * time.Second},
		"a short long timeout":            {"35", 0, 60 * time.Second, 20 * time.Second, 30 * time.Second},
		"a shorter one":                   {"35", 0, 18 * time.Second, 6 * time.Second, 9 * time.Second},
		"the least":                       {"35", 0, 3 * time.Second, time.Second, 1500 * time.Millisecond},
		"overruled":                       {"35", 50 * time.Second, 5 * time.Minute, 50 * time.Second, time.Minute},
		"overruled for longer than safe":  {"35", time.Hour, 5 * time.Minute, 140 * time.Second, 150 * time.Second},
		"overruled, though never held":    {"0", time.Hour, 5 * time.Minute, 0, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				var may atomic.Int64
				var calls atomic.Int32
				w.checker.check = func(ctx context.Context, _ poller.Request) (poller.Result, error) {
					deadline, _ := ctx.Deadline()
					may.Store(int64(time.Until(deadline)))
					if calls.Add(1) == 1 {
						return poller.Result{Hold: tt.told}, nil
					}
					<-ctx.Done()
					return poller.Result{}, ctx.Err()
				}
				w.registerHeld("a", tt.hold, "every 0")
				stop := w.startHolding(poller.Config{LongTimeout: tt.limit, GracePeriod: time.Second, CheckTimeout: min(30*time.Second, tt.limit/2)})
				time.Sleep(3 * time.Second)
				stop()
				seen := w.checker.calls("a")
				if len(seen) == 0 {
					t.Fatal("no call")
				}
				if got := seen[len(seen)-1].request.Hold; got != tt.want || time.Duration(may.Load()) != tt.take {
					t.Errorf("held for %v, may take %v; want %v and %v", got, time.Duration(may.Load()), tt.want, tt.take)
				}
			})
		})
	}
}

// The pool reports the number of held checks, and does so often.
func TestHoldingIsTold(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = newThirdParty().check
		w.registerHeld("a", "30", "every 0")
		w.registerHeld("b", "30", "every 0")
		var told []int
		pool := w.pool(poller.Config{}, poller.Options{Log: testLog(w.T), Holding: func(held int) { told = append(told, held) }}, &holding{w.checker})
		stop := faketime.Go(w, pool.Run)
		time.Sleep(10*time.Second - time.Millisecond)
		synctest.Wait()
		if n := len(told); n < 19 || told[n-1] != 2 {
			t.Errorf("told %v in ten seconds", told)
		}
		stop()
	})
}

// pollableHolding is holding for a third party that can be polled as well.
type pollableHolding struct{ *holding }

func (pollableHolding) Pollable() bool { return true }

// Of a kind that can be polled as well, only accounts with the cadence "every 0" are held. Those that
// were registered without a cadence before the kind held calls are polled, as before.
func TestPollableAccountsAreHeldByTheirCadence(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = newThirdParty().check
		cadences := map[string]string{"held": "every 0", "polled": "every 10s", "old": ""}
		for id, every := range cadences {
			w.registerHeld(id, "30", every)
		}
		checker := pollableHolding{&holding{w.checker}}
		stop := w.startChecking(poller.Config{}, checker, testLog(t))
		time.Sleep(3 * time.Minute)
		if held := w.counted("rounds_checks_held", ""); held != 1 {
			t.Errorf("%v held", held)
		}
		stop()
		checkers, err := poller.NewCheckers(checker)
		if err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]struct {
			hold  time.Duration
			calls int // about
		}{"held": {30 * time.Second, 6}, "polled": {0, 18}, "old": {0, 3}} {
			calls := w.checker.calls(id)
			if n := len(calls); n < want.calls-1 || n > want.calls+1 || calls[0].request.Hold != want.hold {
				t.Errorf("%s: %d calls, the first of which may be held for %v; want %d and %v", id, n, calls[0].request.Hold, want.calls, want.hold)
			}
			if got := checkers.HoldAt("scripted", json.RawMessage(`{"hold":30}`), cadences[id]); got != want.hold {
				t.Errorf("%s: it is said to be held for %v", id, got)
			}
		}
	})
}
