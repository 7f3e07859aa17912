package poller_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// A page is on its way to Redis when a replica shuts down. The replica releases the entry that
// the claim has after the reply. Without a reply it looks for the entry.
func TestShutdownWaitsForAPageUnderWay(t *testing.T) {
	for name, tt := range map[string]struct {
		slow    faketime.Point
		fate    faketime.Fate
		written int
	}{
		"its reply is late":           {faketime.Called, faketime.Healthy, 1},
		"its reply is late and lost":  {faketime.Called, faketime.ReplyLost, 1},
		"it is done late":             {faketime.Call, faketime.Healthy, 1},
		"it is cut off after a while": {faketime.Call, faketime.NotDone, 1}, // by the second try
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				var pages atomic.Int32
				w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
					if pages.Add(1) > 1 {
						return poller.Result{}, errors.New("no more than that")
					}
					return poller.Result{Messages: []poller.Message{{ID: "1"}}, Cursor: []byte("1"), HasMore: true}, nil
				}
				server := &faketime.Faulty{Server: w.server}
				var once atomic.Bool
				server.Set(func(s faketime.Step) faketime.Fate {
					if s.At == tt.slow && isProgress(s) && !once.Swap(true) {
						time.Sleep(4 * time.Second)
						return tt.fate
					}
					return faketime.Healthy
				})
				ring, err := circulate.Open(w.Context(), server, circulate.Options{Log: testLog(w.T)})
				if err != nil {
					w.Fatal(err)
				}
				w.ring = ring
				w.register("every 1h", "a")
				stop := w.start(poller.Config{GracePeriod: time.Second})
				time.Sleep(time.Second)
				if v := w.look("a"); v.Place != circulate.Claimed {
					w.Errorf("it is %s", v.Place)
				}
				began := time.Now()
				stop()
				if took := time.Since(began); took > 10*time.Second {
					w.Errorf("it took %v to end", took)
				}
				v := w.look("a")
				defer time.Sleep(time.Minute) // in case something that should have ended goes on
				if v.Place != circulate.Waiting || v.Strikes != 0 || v.Failures != 0 {
					w.Errorf("it is %s by %q, with %d strikes and %d failures", v.Place, v.Replica, v.Strikes, v.Failures)
				}
				if found := w.found("a"); len(found) != tt.written {
					w.Errorf("messages %v, want %d", found, tt.written)
				}
			})
		})
	}
}

// isProgress reports whether a step writes a page of "a". Such a step contains the one
// message, and the account is still claimed afterwards.
func isProgress(s faketime.Step) bool {
	if s.Command != "EVALSHA" && s.Command != "EVAL" {
		return false
	}
	text := func(arg any) []byte {
		switch arg := arg.(type) {
		case string:
			return []byte(arg)
		case []byte:
			return arg
		}
		return nil
	}
	set, entry := false, false
	for _, arg := range s.Args[1:] {
		set = set || bytes.Equal(text(arg), []byte("set"))
		entry = entry || bytes.HasSuffix(text(arg), []byte("|a"))
	}
	if e, failed := s.Reply.(error); failed && e != nil {
		return false // NOSCRIPT: it is sent again
	}
	return set && entry && (s.At == faketime.Call || s.Reply != nil)
}

// An operator can skip the grace period: checks under way are returned unchecked, and the
// replica ends at once.
func TestShutdownThatHurries(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(ctx context.Context, _ poller.Request) (poller.Result, error) {
			<-ctx.Done()
			return poller.Result{}, ctx.Err()
		}
		w.register("every 1h", "a", "b")
		hurry := make(chan struct{})
		pool := w.pool(poller.Config{GracePeriod: time.Hour, CheckTimeout: time.Hour, LongTimeout: 3 * time.Hour}, poller.Options{Log: testLog(w.T), Hurry: hurry}, w.checker)
		ctx, cancel := context.WithCancel(w.Context())
		done := make(chan error, 1)
		go func() { done <- pool.Run(ctx) }()
		time.Sleep(time.Second)
		cancel()
		time.Sleep(time.Minute)
		if v := w.look("a"); v.Place != circulate.Claimed {
			w.Errorf("a minute after the first signal it is %s", v.Place)
		}
		began := time.Now()
		close(hurry)
		if err := <-done; err != nil || time.Since(began) > 3*time.Second {
			w.Errorf("%v, after %v", err, time.Since(began))
		}
		for _, id := range []string{"a", "b"} {
			if v := w.look(id); v.Place != circulate.Waiting || v.Failures != 0 {
				w.Errorf("%s is %s", id, v.Place)
			}
		}
		if replicas, _, err := w.ring.Replicas(w.Context()); err != nil || len(replicas) != 0 {
			w.Errorf("%v, %v", replicas, err)
		}
	})
}
