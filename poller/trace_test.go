package poller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/span"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/spantest"
)

// recording starts a pool that records its spans. The function that it returns stops it.
func (w *world) recording(r *spantest.Recorder, config poller.Config) (stop func()) {
	pool := w.pool(config, poller.Options{Log: testLog(w.T), Metrics: poller.NewMetrics(w.metrics), Spans: r}, w.checker)
	return faketime.Go(w, pool.Run)
}

// traceOf returns the spans of the first trace about an account, and checks what holds for all.
func traceOf(t *testing.T, r *spantest.Recorder, account string) (trace []spantest.Span) {
	t.Helper()
	all := r.Ended()
	for _, s := range all {
		if s.Ends != 1 || s.End.Before(s.Start) {
			t.Errorf("%s was ended %d times, and lasted %v", s.Name, s.Ends, s.End.Sub(s.Start))
		}
		if trace == nil && s.Parent == "" && s.Attributes[span.AccountID] == account {
			for _, other := range all {
				if other.Trace == s.Trace {
					trace = append(trace, other)
				}
			}
		}
	}
	if trace == nil {
		t.Fatalf("no check of %s was recorded", account)
	}
	return trace
}

func TestACheckIsOneTrace(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(ctx context.Context, r poller.Request) (poller.Result, error) {
			time.Sleep(10 * time.Millisecond)
			switch {
			case r.Account == "fails":
				return poller.Result{}, &poller.CheckError{Kind: poller.AuthFailed, Scope: poller.ScopeAccount, Code: "invented-by-a-stranger", Message: "a text"}
			case span.Of(ctx) == nil:
				return poller.Result{}, errors.New("the call has no span")
			}
			return counter(15, 10)(ctx, r)
		}
		w.register("every 1h", "a", "fails")
		r := &spantest.Recorder{}
		stop := w.recording(r, poller.Config{Replica: "AAAAAAAAAA"})
		time.Sleep(5 * time.Second)
		stop()

		trace := traceOf(t, r, "a")
		if got, want := spantest.Tree(trace), "check scripted\n  claim\n  call\n  commit messages\n  call\n  commit messages\n"; got != want {
			t.Errorf("recorded\n%swant\n%s", got, want)
		}
		check := trace[0]
		for name, want := range map[string]any{
			span.AccountKind: "scripted", span.Replica: "AAAAAAAAAA", span.Outcome: "ok", span.Found: 15, span.CheckID: w.checker.calls("a")[0].request.CheckID,
		} {
			if got := check.Attributes[name]; got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if got := check.End.Sub(check.Start); got < 20*time.Millisecond {
			t.Errorf("the check lasted %v", got)
		}
		for i, m := range w.bubble().Found("a") {
			commit := trace[3]
			if i >= 10 {
				commit = trace[5]
			}
			if want := "00-" + commit.Trace + "-" + commit.ID + "-01"; m.Trace != want {
				t.Errorf("message %d has the trace %q, want %q", i, m.Trace, want)
			}
		}

		failed := traceOf(t, r, "fails")
		if got, want := spantest.Tree(failed), "check scripted !auth\n  claim\n  call !auth\n  commit\n"; got != want {
			t.Errorf("recorded\n%swant\n%s", got, want)
		}
		for _, s := range r.Ended() {
			if text := fmt.Sprint(s.Name, s.Class, s.Attributes); strings.Contains(text, "stranger") || strings.Contains(text, "text") {
				t.Errorf("a third party's words are recorded: %s", text)
			}
		}
	})
}

// What is not recorded costs nothing, and leaves nothing in the stream.
func TestAnUnrecordedCheckHasNoTrace(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(ctx context.Context, r poller.Request) (poller.Result, error) {
			if span.Of(ctx) != nil {
				return poller.Result{}, errors.New("the call has a span")
			}
			return counter(3, 2)(ctx, r)
		}
		w.register("every 1h", "a")
		r := &spantest.Recorder{Skip: func(string) bool { return true }}
		stop := w.recording(r, poller.Config{})
		time.Sleep(5 * time.Second)
		stop()
		found := w.bubble().Found("a")
		if len(found) != 3 || found[0].Trace+found[2].Trace != "" || len(r.Ended()) != 0 {
			t.Errorf("found %d messages, recorded %v", len(found), r.Ended())
		}
	})
}

// However a check ends, its trace ends, once.
func TestEveryTraceEnds(t *testing.T) {
	for name, test := range map[string]struct {
		check   func(context.Context, poller.Request) (poller.Result, error)
		fate    fault // of the return
		outcome string
	}{
		"the shutdown ends it": {outcome: "released", check: func(ctx context.Context, _ poller.Request) (poller.Result, error) {
			<-ctx.Done()
			return poller.Result{}, ctx.Err()
		}},
		"it is abandoned": {outcome: "transient", check: func(context.Context, poller.Request) (poller.Result, error) {
			time.Sleep(50 * time.Second)
			return poller.Result{}, nil
		}},
		"the reply of the return is lost": {outcome: "ok", fate: replyLost, check: counter(1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				var until atomic.Int64 // when steps are healthy again
				w.checker.check = func(ctx context.Context, r poller.Request) (poller.Result, error) {
					if r.Account != "a" {
						return poller.Result{}, nil
					}
					until.Store(time.Now().Add(time.Second).UnixNano())
					return test.check(ctx, r)
				}
				w.register("every 1h", "b", "c", "d") // so that Redis knows the scripts
				w.registerDue("a", "every 1h", time.Now().Add(time.Second))
				w.faulty.set(func(command string) fault {
					if command == "EVALSHA" && time.Now().UnixNano() < until.Load() {
						return test.fate
					}
					return healthy
				})
				r := &spantest.Recorder{}
				stop := w.recording(r, poller.Config{GracePeriod: 5 * time.Second})
				if test.outcome == "released" {
					time.Sleep(4 * time.Second)
				} else {
					time.Sleep(time.Minute)
				}
				stop()
				trace := traceOf(t, r, "a")
				if got := trace[0].Attributes[span.Outcome]; got != test.outcome {
					t.Errorf("the outcome is %v, want %s: %s", got, test.outcome, spantest.Tree(trace))
				}
				if last := trace[len(trace)-1]; test.fate == replyLost && last.Class != "unknown" {
					t.Errorf("the write ended as %q: %v", last.Class, last.Attributes)
				}
			})
		})
	}
}
