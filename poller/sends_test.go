package poller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// talker is a scripted checker that can send. It remembers what the third party has.
type talker struct {
	scripted
	doubt poller.Doubt
	fleet []string // types that are fleeting
	files []string // types that are files
	send  func(ctx context.Context, r poller.SendRequest) (poller.Sent, error)

	mu     sync.Mutex
	vendor []poller.SendRequest // what the third party has, in order
	at     []time.Time
}

func newTalker() *talker { return &talker{scripted: scripted{seen: make(map[string][]call)}} }

func (*talker) Kind() string { return "talker" }

func (k *talker) Sending(json.RawMessage) poller.Sending {
	return poller.Sending{Types: []string{"text"}, Doubt: k.doubt, Fleeting: k.fleet, Files: k.files}
}

func (*talker) PrepareSend(json.RawMessage, *poller.Outgoing, *poller.Message) error { return nil }

func (k *talker) Send(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
	if k.send != nil {
		return k.send(ctx, r)
	}
	return k.take(r), nil
}

// take is the third party taking a send.
func (k *talker) take(r poller.SendRequest) poller.Sent {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.vendor, k.at = append(k.vendor, r), append(k.at, time.Now())
	return poller.Sent{VendorID: fmt.Sprint("v", len(k.vendor))}
}

// has returns the ids of the sends that the third party has, in order.
func (k *talker) has() (ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.vendor {
		ids = append(ids, r.ID)
	}
	return ids
}

// chats registers accounts that can send, and that are seldom checked.
func (w *world) chats(more string, ids ...string) {
	w.Helper()
	for _, id := range ids {
		w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"talker","cadence":"every 1h"%s}`, id, more))
	}
}

// queue queues a send and returns its id.
func (w *world) queue(account, peer string, change func(*circulate.Send)) string {
	w.Helper()
	s := circulate.Send{ID: circulate.NewSendID(account), Account: account, Kind: "talker", Peer: peer, Type: "text", Data: json.RawMessage(`{"text":"hello"}`)}
	if change != nil {
		change(&s)
	}
	if _, _, err := w.ring.Sends().Queue(w.Context(), s, "", circulate.SendBounds{}); err != nil {
		w.Fatal(err)
	}
	return s.ID
}

// sent returns a send as it is.
func (w *world) sent(id string) circulate.Send {
	w.Helper()
	s, err := w.ring.Sends().Look(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// is expects the state and the code of a send.
func (w *world) is(id string, state circulate.SendState, code string) {
	w.Helper()
	if s := w.sent(id); s.State != state || s.Code != code {
		w.Errorf("the send is %s, %q, %q; want %s, %q", s.State, s.Code, s.Text, state, code)
	}
}

// A send that was accepted although something was wrong says so.
func TestAnAcceptedSendWithAWarning(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		k.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
			sent := k.take(r)
			sent.Warning = poller.Warning{Code: "odd", Message: "in words"}
			return sent, nil
		}
		w.chats("", "a")
		stop := w.startChecking(poller.Config{}, k, testLog(t))
		id := w.queue("a", "anna", nil)
		time.Sleep(2 * time.Second)
		stop()
		w.is(id, circulate.SendAccepted, "odd")
		if s := w.sent(id); s.Text != "in words" || s.VendorID != "v1" {
			t.Errorf("got %+v", s)
		}
	})
}

func TestSendsGoAtOnceAndInTheOrderOfTheirPeer(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		w.chats("", "a", "b")
		stop := w.startChecking(poller.Config{}, k, testLog(t))
		time.Sleep(10 * time.Second)
		began := time.Now()
		var ids []string
		for range 5 {
			ids = append(ids, w.queue("a", "anna", nil))
		}
		other := w.queue("b", "ben", nil)
		time.Sleep(2 * time.Second)
		got := slices.DeleteFunc(k.has(), func(id string) bool { return id == other })
		if !slices.Equal(got, ids) || len(k.has()) != 6 {
			t.Errorf("the third party has %q, want %q", got, ids)
		}
		for i, at := range k.at {
			if at.Sub(began) > time.Second {
				t.Errorf("send %d went %v after it was queued", i, at.Sub(began))
			}
		}
		for _, id := range append(ids, other) {
			w.is(id, circulate.SendAccepted, "")
			if s := w.sent(id); s.VendorID == "" || s.Attempts != 1 {
				t.Errorf("got %+v", s)
			}
		}
		stop()
		if n := w.counted("rounds_sends_attempted_total", "accepted"); n != 6 {
			t.Errorf("%v are counted as accepted", n)
		}
	})
}

func TestASendIsTriedAgainAsItsErrorSays(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		began := make(map[string][]time.Time)
		var mu sync.Mutex
		k.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
			mu.Lock()
			began[r.Peer] = append(began[r.Peer], time.Now())
			mu.Unlock()
			switch {
			case r.Peer == "throttled" && r.Attempt == 1:
				return poller.Sent{}, &poller.SendError{After: time.Minute, Code: "429", Message: "too many"}
			case r.Peer == "unreached" && r.Attempt < 4:
				return poller.Sent{}, &poller.SendError{Unsent: true, Code: "connect", Message: "no connection"}
			case r.Peer == "refused":
				return poller.Sent{}, &poller.SendError{Final: true, Code: "blocked", Message: "the person has blocked the bot"}
			case r.Peer == "never":
				return poller.Sent{}, &poller.SendError{Code: "busy", Message: "come again"}
			}
			return k.take(r), nil
		}
		w.chats("", "a")
		stop := w.startChecking(poller.Config{Heartbeat: time.Minute, IdleInterval: time.Minute}, k, testLog(t))
		throttled, unreached, refused := w.queue("a", "throttled", nil), w.queue("a", "unreached", nil), w.queue("a", "refused", nil)
		never := w.queue("a", "never", nil)
		expires := w.queue("a", "throttled", func(s *circulate.Send) { s.Expires = time.Now().Add(30 * time.Second) })
		time.Sleep(30 * time.Second)
		w.is(throttled, circulate.SendQueued, "429")
		w.is(refused, circulate.SendRejected, "blocked")
		w.is(unreached, circulate.SendAccepted, "")
		time.Sleep(time.Hour)
		w.is(throttled, circulate.SendAccepted, "")
		w.is(expires, circulate.SendExpired, "expired")
		time.Sleep(25 * time.Hour)
		w.is(never, circulate.SendRejected, "busy")
		if s := w.sent(never); !strings.Contains(s.Text, "given up after a day") {
			t.Errorf("got %q", s.Text)
		}
		if wait := began["throttled"][1].Sub(began["throttled"][0]); wait < time.Minute || wait > 62*time.Second {
			t.Errorf("tried again after %v", wait)
		}
		if n := len(began["never"]); n < 24*12 || n > 24*26 {
			t.Errorf("tried %d times in a day", n)
		}
		if len(began["refused"]) != 1 || len(began["unreached"]) != 4 {
			t.Errorf("got %v", began)
		}
		stop()
	})
}

// An end that nobody knows is never repeated by itself, whatever causes it.
func TestAnUnknownEndIsHeld(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		ends := map[string]struct {
			end  func(ctx context.Context) error
			code string
		}{
			"cut":      {func(context.Context) error { return errors.New("connection reset, token=sesame") }, "unknown"},
			"said":     {func(context.Context) error { return &poller.CheckError{Code: "reset", Message: "the connection broke"} }, "reset"},
			"nil":      {func(context.Context) error { return (*poller.SendError)(nil) }, "nil_error"},
			"panic":    {func(context.Context) error { panic("sesame") }, "panic"},
			"goexit":   {func(context.Context) error { runtime.Goexit(); return nil }, "panic"},
			"time-out": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "unknown"},
			"hangs":    {func(context.Context) error { time.Sleep(time.Hour); return nil }, "hung"},
		}
		k.send = func(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
			k.take(r)
			if e, ok := ends[r.Peer]; ok {
				return poller.Sent{}, e.end(ctx)
			}
			return poller.Sent{}, nil
		}
		w.chats("", "a")
		stop, unwatch := w.startChecking(poller.Config{IdleInterval: time.Minute}, k, testLog(t)), w.watch()
		ids, behind := make(map[string]string), make(map[string]string)
		for peer := range ends {
			ids[peer] = w.queue("a", peer, nil)
		}
		time.Sleep(5 * time.Minute)
		for peer, e := range ends {
			w.is(ids[peer], circulate.SendUnknown, e.code)
			if s := w.sent(ids[peer]); strings.Contains(s.Text, "sesame") {
				t.Errorf("%s: the text is %q", peer, s.Text)
			}
		}
		// It does not hold its peer up.
		delete(ends, "cut")
		behind["cut"] = w.queue("a", "cut", nil)
		time.Sleep(time.Minute)
		w.is(behind["cut"], circulate.SendAccepted, "")
		time.Sleep(2 * time.Hour)
		if n := len(k.has()); n != 8 {
			t.Errorf("the third party has %d sends: %q", n, k.has())
		}
		// The one that hung has told that it was accepted.
		w.is(ids["hangs"], circulate.SendAccepted, "")
		stop()
		unwatch()
		// Each attempt is settled once.
		if n, all := w.counted("rounds_sends_attempted_total", "unknown"), w.counted("rounds_sends_attempted_total", ""); n != 7 || all != 8 {
			t.Errorf("%v attempts are counted, %v of them as unknown", all, n)
		}
	})
}

func TestAnUnknownEndIsRepeatedWhereThatIsWanted(t *testing.T) {
	for name, tt := range map[string]struct {
		doubt poller.Doubt
		more  string
		want  int
	}{
		"the kind deduplicates":     {poller.DoubtRepeats, "", 2},
		"the account asks for that": {poller.DoubtStays, `,"on_unknown":"retry"`, 2},
		"neither":                   {poller.DoubtStays, `,"on_unknown":"hold"`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(w *world) {
				k := newTalker()
				k.doubt = tt.doubt
				k.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
					sent := k.take(r)
					if r.Attempt == 1 && r.Peer == "anna" {
						return poller.Sent{}, errors.New("cut")
					}
					return sent, nil
				}
				w.chats(tt.more, "a")
				stop := w.startChecking(poller.Config{}, k, testLog(t))
				first := w.queue("a", "anna", nil)
				expires := w.queue("a", "anna", func(s *circulate.Send) { s.Expires = time.Now().Add(time.Millisecond) })
				time.Sleep(time.Minute)
				stop()
				_ = expires
				if got := slices.DeleteFunc(k.has(), func(id string) bool { return id != first }); len(got) != tt.want {
					t.Errorf("it was sent %d times, want %d", len(got), tt.want)
				}
				want := map[int]circulate.SendState{1: circulate.SendUnknown, 2: circulate.SendAccepted}[tt.want]
				if s := w.sent(first); s.State != want {
					t.Errorf("it is %s, want %s", s.State, want)
				}
			})
		})
	}
}

func TestLimitsOfChecksHoldForSends(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		limits, err := poller.ParseLimits("talker/* rate=6/m burst=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		w.registerRecord("a", `{"id":"a","kind":"talker","cadence":"every 24h","config":{"host":"h"}}`)
		w.registerRecord("b", `{"id":"b","kind":"talker","cadence":"every 24h","config":{"host":"h"}}`)
		stop := w.startChecking(poller.Config{Limits: limits}, k, testLog(t))
		time.Sleep(time.Minute)
		var ids []string
		for i := range 10 {
			ids = append(ids, w.queue("a", fmt.Sprint("peer", i), nil), w.queue("b", fmt.Sprint("peer", i), nil))
		}
		time.Sleep(time.Minute)
		if n := len(k.has()); n < 5 || n > 8 {
			t.Errorf("%d were sent in the first minute", n)
		}
		time.Sleep(4 * time.Minute)
		for _, id := range ids {
			w.is(id, circulate.SendAccepted, "")
			if s := w.sent(id); s.Attempts != 1 {
				t.Errorf("a denial counts as an attempt: %d", s.Attempts)
			}
		}
		stop()
	})
}

// A replica that stops gives back what it has not begun, waits for what it has, and knows nothing
// of what has not ended within the grace period.
func TestSendsAtShutdown(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		k.send = func(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
			wait := map[string]time.Duration{"soon": 4 * time.Second, "late": time.Minute}[r.Peer]
			select {
			case <-ctx.Done():
				return poller.Sent{}, ctx.Err()
			case <-time.After(wait):
				return k.take(r), nil
			}
		}
		w.chats("", "a")
		stop := w.startChecking(poller.Config{GracePeriod: 10 * time.Second, SendTimeout: 2 * time.Minute, LongTimeout: 10 * time.Minute}, k, testLog(t))
		soon, late := w.queue("a", "soon", nil), w.queue("a", "late", nil)
		behind := w.queue("a", "soon", nil)
		time.Sleep(2 * time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took < 10*time.Second || took > 13*time.Second {
			t.Errorf("it stopped after %v", took)
		}
		w.is(soon, circulate.SendAccepted, "")
		w.is(behind, circulate.SendQueued, "")
		if s := w.sent(late); s.State != circulate.SendUnknown {
			t.Errorf("the late one is %s", s.State)
		}
	})
}

// Without sends, a replica asks Redis about them once each half minute.
func TestWithoutSendsNothingIsPolled(t *testing.T) {
	inFakeTime(t, func(w *world) {
		asked := func(checker poller.Checker) (commands int) {
			var mu sync.Mutex
			stop := w.startChecking(poller.Config{}, checker, testLog(t))
			time.Sleep(time.Minute)
			w.faulty.set(func(string) fault {
				mu.Lock()
				defer mu.Unlock()
				commands++
				return healthy
			})
			time.Sleep(10 * time.Minute)
			w.faulty.set(nil)
			stop()
			w.newMetrics()
			mu.Lock()
			defer mu.Unlock()
			return commands
		}
		without, with := asked(w.checker), asked(newTalker())
		// Two looks, each a command for each of two shards.
		if more := with - without; more > 10*2*4+8 {
			t.Errorf("a kind that sends asks Redis %d times more in ten minutes", more)
		}
	})
}

// A page that says that a send was not delivered turns it from accepted into failed.
func TestAPageTellsOfASendThatFailed(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		var id string
		k.check = func(context.Context, poller.Request) (poller.Result, error) {
			return poller.Result{FailedSends: []poller.FailedSend{{ID: id, Code: "closed", Text: "the session was closed"}, {ID: "another's"}}}, nil
		}
		w.chats("", "a")
		id = w.queue("a", "anna", nil)
		stop := w.startChecking(poller.Config{}, k, testLog(t))
		time.Sleep(2 * time.Hour)
		stop()
		w.is(id, circulate.SendFailed, "closed")
		if v := w.look("a"); v.Failures != 0 {
			t.Errorf("the account has %d failures", v.Failures)
		}
	})
}
