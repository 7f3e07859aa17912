package poller_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// same returns a check that brings the same page whatever cursor it is asked with.
func same(more bool, cursor []byte) func(context.Context, poller.Request) (poller.Result, error) {
	return func(context.Context, poller.Request) (poller.Result, error) {
		return poller.Result{Messages: []circulate.Message{{ID: "1", Data: []byte("1")}, {ID: "2", Data: []byte("2")}}, Cursor: cursor, HasMore: more}, nil
	}
}

// A page of messages that says there is more, under the cursor that it was asked with, is a
// failure, and is not written again. The account is parked like any other that keeps failing.
func TestACursorThatStaysStormsNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		cursor []byte
		found  int
	}{
		"no cursor":         {nil, 0},
		"always the cursor": {[]byte("1"), 2}, // the first page moves it
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				w.checker.check = same(true, tt.cursor)
				w.faulty.quiet = true // a day of idle claims is the dearest part of the test
				w.register("every 30s", "a")
				stop := w.start(poller.Config{IdleInterval: time.Hour, Heartbeat: time.Hour})
				defer stop()
				time.Sleep(10 * time.Minute)
				if got := w.found("a"); len(got) != tt.found {
					t.Errorf("found %v", got)
				}
				v := w.look("a")
				if v.Failures < 3 || !strings.HasPrefix(v.Error, "cursor_stuck: 2 messages and more to come, but the cursor has not moved: the next page would be the same") || accounts.MarkWord(v.History.Marks[0]) != "protocol" {
					t.Errorf("%d failures, %q, %s", v.Failures, v.Error, v.History.Marks)
				}
				if n := len(w.checker.calls("a")); n > 20 {
					t.Errorf("%d calls in ten minutes", n)
				}
				time.Sleep(24 * time.Hour)
				if v := w.look("a"); v.Place != circulate.Parked || !strings.Contains(v.Reason, "cursor_stuck") {
					t.Errorf("%s, %q", v.Place, v.Reason)
				}
			})
		})
	}
}

// Messages that the next check finds again are written, and the account says why they come
// again. One that would be checked at once waits.
func TestMessagesUnderACursorThatStaysWarn(t *testing.T) {
	for name, tt := range map[string]struct {
		cadence string
		held    bool
		most    int // pages in ten minutes
	}{
		"a slot":  {cadence: "every 1m", most: 11},
		"at once": {cadence: "every 0", most: 21},
		"held":    {cadence: "every 0", held: true, most: 21},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				w.checker.check = same(false, nil)
				var stop func()
				if tt.held {
					w.registerHeld("a", "30", tt.cadence)
					stop = w.startHolding(poller.Config{})
				} else {
					w.register(tt.cadence, "a")
					stop = w.start(poller.Config{})
				}
				defer stop()
				time.Sleep(10 * time.Minute)
				if n := len(w.found("a")); n < 10 || n > 2*tt.most {
					t.Errorf("%d messages", n)
				}
				e, err := accounts.NewRegistry(w.ring, nil).Explain(w.Context(), "a")
				if want := "cursor_stuck: found 2 messages but its cursor has not moved: the next check finds them again"; err != nil || e.Warning != want || e.State.Failures != 0 {
					t.Errorf("got %q, %d failures, %v", e.Warning, e.State.Failures, err)
				}
				list, err := accounts.NewRegistry(w.ring, nil).List(w.Context(), accounts.Query{Selector: accounts.Selector{Errors: []string{"cursor_stuck"}}})
				if err != nil || len(list.Views) != 1 || list.Views[0].State.Warning != e.Warning {
					t.Errorf("listed by its warning: %+v, %v", list.Views, err)
				}
			})
		})
	}
}

// A third party that gives each message once moves on by itself, whatever cursor it returns.
func TestACursorMayStayWhereMessagesAreGivenOnce(t *testing.T) {
	inFakeTime(t, func(w *world) {
		n := 0
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
			n++
			return poller.Result{Messages: []circulate.Message{{ID: numbers(n)[n-1], Data: []byte("1")}}, HasMore: n%3 > 0}, nil
		}
		w.register("every 1h", "a")
		stop := w.startChecking(poller.Config{}, &forgetting{w.checker}, testLog(w.T))
		defer stop()
		time.Sleep(2 * time.Second)
		e, err := accounts.NewRegistry(w.ring, nil).Explain(w.Context(), "a")
		if got := w.found("a"); !slices.Equal(got, numbers(3)) || err != nil || e.Warning != "" || e.State.Failures != 0 {
			t.Errorf("found %v, %q, %d failures, %v", got, e.Warning, e.State.Failures, err)
		}
	})
}

func TestAnErrorSaysItsWordOnce(t *testing.T) {
	for want, err := range map[string]*poller.CheckError{
		"gone: deleted":           {Kind: poller.Gone, Code: "gone", Message: "deleted"},
		"transient: http_503: no": {Kind: poller.Transient, Code: "http_503", Message: "no"},
		"gone: http_410: Gone":    {Kind: poller.Gone, Code: "http_410", Message: "Gone"},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A result that a checker may not return fails the check with a code that names the checker's
// fault. Nothing of it is written.
func TestWhatNoCheckerMayReturn(t *testing.T) {
	message := func(data string) poller.Result {
		return poller.Result{Messages: []poller.Message{{ID: "1", Data: []byte(`{}`)}, {ID: "2", Data: []byte(data)}}, Cursor: []byte("1")}
	}
	for name, tt := range map[string]struct {
		result poller.Result
		err    error
		want   string
	}{
		"data that is no JSON": {message("{x}"), nil, "bad_result: messages[1].data: must be JSON"},
		"data cut off":         {message(`{"a":`), nil, "bad_result: messages[1].data: must be JSON"},
		"an unknown kind":      {poller.Result{}, &poller.CheckError{Kind: "oops", Code: "c", Message: "m"}, `bad_result: the checker's error has the kind "oops", which does not exist: c: m`},
		"no code, no message":  {poller.Result{}, &poller.CheckError{Kind: poller.Protocol}, "bad_result: the checker's error has neither a code nor a message"},
		"no code":              {poller.Result{}, &poller.CheckError{Kind: poller.Protocol, Message: "m"}, "bad_result: the checker's error has no code: m"},
		"no message":           {poller.Result{}, &poller.CheckError{Kind: poller.Protocol, Code: "c"}, "c: the checker's error has no message"},
		"an unknown scope":     {poller.Result{}, &poller.CheckError{Kind: poller.Gone, Scope: "oops", Code: "c", Message: "m"}, `bad_result: the checker's error has the scope "oops", which does not exist: c: m`},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				w.checker.check = func(context.Context, poller.Request) (poller.Result, error) { return tt.result, tt.err }
				w.register("every 1h", "a")
				stop := w.start(poller.Config{})
				time.Sleep(10 * time.Second)
				stop()
				if v := w.look("a"); v.Error != tt.want || v.Failures != 1 || accounts.MarkWord(v.History.Marks[0]) != "protocol" || len(w.found("a")) != 0 {
					t.Errorf("%d failures, %q, %s, found %v", v.Failures, v.Error, v.History.Marks, w.found("a"))
				}
			})
		})
	}
}

// Two messages with one id are both written, because the third party may not give them again. The
// account says so.
func TestTwoMessagesWithOneIDWarn(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
			return poller.Result{Messages: []poller.Message{{ID: "1"}, {ID: "2"}, {ID: "1"}}, Cursor: []byte("1")}, nil
		}
		w.register("every 1h", "a")
		stop := w.start(poller.Config{})
		time.Sleep(10 * time.Second)
		stop()
		e, err := accounts.NewRegistry(w.ring, nil).Explain(w.Context(), "a")
		if err != nil || e.State.Failures != 0 || !strings.Contains(e.Warning, "same_id: messages[0] and messages[2] have the same id") || len(w.found("a")) != 3 {
			t.Errorf("got %q, %d failures, %v, found %v", e.Warning, e.State.Failures, err, w.found("a"))
		}
	})
}

// When a third party begins anew, the account's timeline and a warning say so, once for as long as
// that lasts, even if the page that said so was not the last one.
func TestACursorThatWasResetIsTold(t *testing.T) {
	inFakeTime(t, func(w *world) {
		n := 0
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			n++
			result := poller.Result{Cursor: fmt.Append(nil, n)}
			switch n {
			case 1: // the first of two pages
				result.Messages, result.HasMore, result.CursorReset = []circulate.Message{{ID: "1"}}, true, true
			case 3, 4, 6:
				result.CursorReset = true
			}
			return result, nil
		}
		ring, err := circulate.Open(w.Context(), w.faulty, circulate.Options{Shards: 2, Timeline: func() int { return 1000 }})
		if err != nil {
			t.Fatal(err)
		}
		w.ring = ring
		w.register("every 1m", "a")
		stop := w.start(poller.Config{})
		defer stop()
		warned := func() bool {
			e, err := accounts.NewRegistry(w.ring, nil).Explain(w.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			return strings.HasPrefix(e.Warning, "cursor_reset: the third party no longer knew the cursor")
		}
		for minute, want := range []bool{true, true, false, true, false} { // after the calls 3 to 7
			time.Sleep(time.Minute)
			if got := warned(); got != want {
				t.Errorf("minute %d: a warning: %t", minute, got)
			}
		}
		page, err := w.ring.Timeline().Before(w.Context(), "a", circulate.LinePlace{}, 20)
		if err != nil {
			t.Fatal(err)
		}
		resets := 0
		for _, line := range page.Lines {
			if line.Event == circulate.EventCursorReset {
				resets++
				if line.N != 0 || !strings.HasPrefix(line.Text, "the third party no longer knew the cursor") {
					t.Errorf("%+v", line)
				}
			}
		}
		if resets != 2 {
			t.Errorf("%d lines, want one for the calls 1 to 4 and one for call 6: %+v", resets, page.Lines)
		}
	})
}
