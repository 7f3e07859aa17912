package weixin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
)

// asked lets a checker ask the fake once, as a pool does.
func asked(ctx context.Context, w *ilinkd.Server, cursor []byte) (poller.Result, error) {
	return New(fetch.New(fetch.Options{Transport: w}), source()).Check(ctx, poller.Request{
		Account: "a", CheckID: "c", Config: configOf("", "a"), Cursor: cursor, Limit: 200, Attempt: 1, Hold: hold,
	})
}

func newFake(o ilink.Options) *ilinkd.Server {
	w := ilinkd.New(o)
	w.AddBot(tokenOf("a"))
	return w
}

func result(t *testing.T, w *ilinkd.Server, cursor []byte) poller.Result {
	t.Helper()
	r, err := asked(t.Context(), w, cursor)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	return r
}

// Ids have 64 bits. Neither they nor any other number go through a float.
func TestIDsAreExact(t *testing.T) {
	w := newFake(ilink.Options{Hold: -1})
	for _, kind := range ilinkd.Types() {
		w.Post(tokenOf("a"), kind)
	}
	r := result(t, w, nil)
	for i, m := range r.Messages {
		if want := ilink.MessageID("", i+1); m.ID != want || !strings.Contains(string(m.Data), `"message_id":`+want+`,`) {
			t.Errorf("got %s, want %s: %s", m.ID, want, m.Data)
		}
		if m.Type != ilinkd.Types()[i] || !strings.Contains(string(m.Data), fmt.Sprintf(`"context_token":"context-%d"`, i+1)) || time.Since(m.Time) > time.Minute {
			t.Errorf("got %s at %v: %s", m.Type, m.Time, m.Data)
		}
	}
	if len(r.Messages) != 5 || string(r.Cursor[:2]) != cursorPrefix {
		t.Errorf("got %d, cursor %s", len(r.Messages), r.Cursor)
	}
	if again := result(t, w, r.Cursor); len(again.Messages) != 0 || again.Cursor != nil || w.Stats(tokenOf("a")).Buf != string(r.Cursor[2:]) {
		t.Errorf("an empty answer: got %+v", again)
	}
	if s := w.Stats(tokenOf("a")); s.Agent != defaultAgent || s.Version != "132105" || s.Starts != 0 {
		t.Errorf("got %+v", s)
	}
}

// The server gives nothing twice, so whatever can be read of an answer is kept.
func TestOddElementsAreKept(t *testing.T) {
	for name, tt := range map[string]struct {
		element, id, kind string
		warned            bool
	}{
		"an id as text":         {`{"message_id":"18446744073709551615"}`, "18446744073709551615", "none", false},
		"no id":                 {`{"item_list":[{"type":1}]}`, "", "text", false},
		"an id of 0":            {`{"message_id":0,"item_list":[{"type":11}]}`, "", "item.11", false},
		"an id that is a float": {`{"message_id":1e3}`, "", "none", false},
		"what a bot has sent":   {`{"message_id":7,"message_type":2,"item_list":[{"type":4}]}`, "7", "bot.file", false},
		"items of no type":      {`{"message_id":7,"item_list":[7]}`, "7", "item", false},
		"items that are none":   {`{"message_id":7,"item_list":{"type":1}}`, "7", "none", false},
		"a late time":           {`{"message_id":7,"create_time_ms":9e99}`, "7", "none", false},
		"no object":             {`"hello"`, "", "malformed", true},
		"null":                  {`null`, "", "malformed", true},
		"deep":                  {`{"message_id":7,"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "7", "none", true},
		"large":                 {`{"message_id":7,"context_token":"c","x":"` + strings.Repeat("y", 300<<10) + `"}`, "7", "none", true},
		"not UTF-8":             {"{\"message_id\":7,\"x\":\"\xff\"}", "7", "none", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFake(ilink.Options{Hold: -1})
			w.Fail(ilinkd.GetUpdates, ilinkd.Fault{Body: `{"ret":0,"msgs":[` + tt.element + `,{"message_id":8}],"get_updates_buf":"next"}`})
			r := result(t, w, nil)
			if len(r.Messages) != 2 || r.Messages[1].ID != "8" || string(r.Cursor) != "1:next" || tt.warned != (len(r.Warnings) > 0) {
				t.Fatalf("got %+v", r)
			}
			m := r.Messages[0]
			if m.Type != tt.kind || m.ID != tt.id && (tt.id != "" || !strings.HasPrefix(m.ID, "sha256:")) || !json.Valid(m.Data) {
				t.Errorf("got %+v", m)
			}
			if name == "large" && !strings.Contains(string(m.Data), `"context_token":"c"`) {
				t.Errorf("got %s", m.Data)
			}
		})
	}
}

func TestAnswersAreReadAsFarAsTheyCan(t *testing.T) {
	for body, want := range map[string]int{
		`{"msgs":[{"message_id":1},{"message_id":1}]}`:                             1, // one of two identical ones
		`{"msgs":[{"message_id":1,"a":1},{"message_id":1,"a":2}]}`:                 2,
		`{"ret":"0","msgs":null,"get_updates_buf":7,"longpolling_timeout_ms":"x"}`: 0,
		`{"ret":0,"msgs":{"message_id":1}}`:                                        1,
		`{"ret":0,"get_updates_buf":"` + strings.Repeat("b", 61<<10) + `"}`:        0,
	} {
		w := newFake(ilink.Options{Hold: -1})
		w.Fail(ilinkd.GetUpdates, ilinkd.Fault{Body: body})
		if r := result(t, w, nil); len(r.Messages) != want || r.Cursor != nil || r.Hold != 0 {
			t.Errorf("%.80s: got %+v", body, r)
		}
	}
	for _, body := range []string{`[]`, `{}`, `{"msgs":[`, `null`, `7`, `{"msgs":[` + strings.Repeat("{},", 30_000) + `{}]}`} {
		w := newFake(ilink.Options{Hold: -1})
		w.Fail(ilinkd.GetUpdates, ilinkd.Fault{Body: body})
		if _, err := asked(t.Context(), w, nil); checktest.Failure(t, err).Kind != poller.Protocol {
			t.Errorf("%.80s: got %v", body, err)
		}
	}
}

// Code -14 after an idle night heals with notifystart, at once and in the same check.
func TestStaleHealsByNotifyStart(t *testing.T) {
	w := newFake(ilink.Options{Hold: -1})
	cursor := result(t, w, nil).Cursor
	w.Idle(tokenOf("a"))
	w.PostN(tokenOf("a"), 2)
	if r := result(t, w, cursor); len(r.Messages) != 2 || w.Stats(tokenOf("a")).Starts != 1 {
		t.Errorf("got %+v, %+v", r, w.Stats(tokenOf("a")))
	}
}

// A second code -14 means that somebody has to scan. The check says so at once, and the next try is
// an hour later.
func TestStaleIsParkedAndSaysScanAgain(t *testing.T) {
	w := newFake(ilink.Options{Hold: -1})
	w.Void(tokenOf("a"))
	_, err := asked(t.Context(), w, []byte("1:x"))
	if e := checktest.Failure(t, err); e.Kind != poller.AuthFailed || !e.Final || e.Message != "bound elsewhere or signed out: scan again, with rounds weixin login ID or on the account's page" {
		t.Errorf("got %+v", e)
	}
	if w.Calls(ilinkd.GetUpdates) != 2 || w.Calls(ilinkd.NotifyStart) != 1 {
		t.Errorf("%d and %d calls", w.Calls(ilinkd.GetUpdates), w.Calls(ilinkd.NotifyStart))
	}
	// A failed notifystart does not prove that the token is void.
	w.Fail(ilinkd.NotifyStart, ilinkd.Fault{Status: 502})
	_, err = asked(t.Context(), w, []byte("1:x"))
	if e := checktest.Failure(t, err); e.Kind != poller.Transient {
		t.Errorf("got %+v", e)
	}
}

func TestTheServerTellsTheNextHold(t *testing.T) {
	w := newFake(ilink.Options{Hold: -1, NextHold: 50 * time.Second})
	if r := result(t, w, nil); r.Hold != 50*time.Second {
		t.Errorf("got %v", r.Hold)
	}
	w.Fail(ilinkd.GetUpdates, ilinkd.Fault{Body: `{"ret":0,"longpolling_timeout_ms":9223372036854775807}`})
	if r := result(t, w, nil); r.Hold != maxHold {
		t.Errorf("got %v", r.Hold)
	}
}

// A trial by hand takes no message away from the account.
func TestATrialFetchesNothing(t *testing.T) {
	w := newFake(ilink.Options{})
	w.Post(tokenOf("a"), "text")
	checker := New(fetch.New(fetch.Options{Transport: w}), source())
	r, err := checker.Check(t.Context(), poller.Request{Account: "a", CheckID: "by-hand", Config: configOf("", "a"), Limit: 200, Trial: true})
	if err != nil || len(r.Messages) != 0 || len(r.Warnings) != 1 || w.Stats(tokenOf("a")).Given != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	w.Void(tokenOf("a"))
	_, err = checker.Check(t.Context(), poller.Request{Account: "a", CheckID: "by-hand", Config: configOf("", "a"), Limit: 200, Trial: true})
	if checktest.Failure(t, err).Kind != poller.AuthFailed {
		t.Errorf("got %v", err)
	}
}

// A call that may not be held is no trial: it fetches what there is.
func TestACallThatIsNotHeldFetches(t *testing.T) {
	w := newFake(ilink.Options{Hold: -1})
	w.Post(tokenOf("a"), "text")
	checker := New(fetch.New(fetch.Options{Transport: w}), source())
	r, err := checker.Check(t.Context(), poller.Request{Account: "a", CheckID: "c", Config: configOf("", "a"), Limit: 200})
	if err != nil || len(r.Messages) != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// An answer whose first byte has come is read to its end, although the replica goes down.
func TestAnAnswerThatHasBegunIsRead(t *testing.T) {
	w, stop, err := ilinkd.Serve(ilink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	w.AddBot(tokenOf("a"))
	checker := New(checktest.Client(t, fetch.Options{}), source())
	for name, began := range map[string]bool{"held": false, "begun": true} {
		ctx, cancel := context.WithCancel(t.Context())
		inner, end := lasting(ctx)
		if began {
			firstByte(inner)
		}
		cancel()
		if ended := inner.Err() != nil; ended && began {
			t.Errorf("%s: it ended at once", name)
		}
		<-inner.Done()
		end()
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = checker.Check(ctx, poller.Request{Account: "a", CheckID: "c", Config: configOf(w.URL(), "a"), Cursor: []byte("1:x"), Hold: hold})
	if e := checktest.Failure(t, err); e.Code != string(fetch.CodeCanceled) {
		t.Errorf("got %v", e)
	}
}

// A server that drips, or that never ends an answer, ends with the check's own time.
func TestADripEndsWithTheCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFake(ilink.Options{})
		w.Fail(ilinkd.GetUpdates, ilinkd.Fault{Drip: true})
		ctx, cancel := context.WithTimeout(t.Context(), hold+10*time.Second)
		defer cancel()
		began := time.Now()
		_, err := asked(ctx, w, []byte("1:x"))
		if e := checktest.Failure(t, err); e.Code != string(fetch.CodeTimeout) || time.Since(began) > hold+12*time.Second {
			t.Errorf("got %v after %v", e, time.Since(began))
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
