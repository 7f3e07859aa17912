package wecomkf

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

// Every type of message and event is passed on unchanged.
func TestTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, token.NewMemory(), 1, noLimits)
		id := w.accounts(1, 0)[0]
		var want []string
		for _, msgType := range append(wecom.Types(), "of_tomorrow") {
			w.wecom.Post(id, msgType)
			want = append(want, msgType)
		}
		for _, event := range wecom.Events() {
			w.wecom.PostEvent(id, event)
			want = append(want, "event."+event)
		}
		result, failed := w.page(0, id, "")
		if failed != nil || len(result.Messages) != len(want) || result.HasMore {
			t.Fatalf("got %d messages, %v", len(result.Messages), failed)
		}
		ids := make(map[string]bool)
		for i, m := range result.Messages {
			if m.Type != want[i] || wecom.Number(m.Data) != i+1 || !m.Time.Equal(time.Now()) || ids[m.ID] {
				t.Errorf("message %d: got %+v, want %s", i+1, m, want[i])
			}
			if event := strings.HasPrefix(m.Type, "event."); event != strings.HasPrefix(m.ID, "sha256:") || !event && m.ID != wecom.MessageID(id, i+1) {
				t.Errorf("message %d has the id %s", i+1, m.ID)
			}
			ids[m.ID] = true
		}
	})
}

func TestMessage(t *testing.T) {
	const digest = "sha256:"
	for raw, want := range map[string]poller.Message{
		`{"msgid":"m","msgtype":"text","send_time":1795226313}`:      {ID: "m", Type: "text", Time: time.Unix(1795226313, 0).UTC()},
		`{"msgtype":"event","event":{"event_type":"e"}}`:             {ID: digest, Type: "event.e"},
		`{"msgtype":"event"}`:                                        {ID: digest, Type: "event"},
		`{"msgid":"","send_time":-1}`:                                {ID: digest},
		`{"msgid":"a\u0000b","send_time":999999999999}`:              {ID: digest},
		`{"msgid":"` + strings.Repeat("m", 257) + `"}`:               {ID: digest},
		`{"msgid":"m","msgtype":"` + strings.Repeat("t", 257) + `"}`: {},
		`{"msgid":"m","msgtype":"a\nb"}`:                             {},
		`{"msgid":7}`:                                                {}, `7`: {}, `null`: {}, `[]`: {}, `"m"`: {},
	} {
		got, err := readMessage(json.RawMessage(raw))
		if want.ID == "" {
			if err == nil {
				t.Errorf("%s: got %+v", raw, got)
			}
			continue
		}
		if err != nil || !strings.HasPrefix(got.ID, want.ID) || got.Type != want.Type || !got.Time.Equal(want.Time) || string(got.Data) != raw {
			t.Errorf("%s: got %+v, %v", raw, got, err)
		}
	}
}

func TestPage(t *testing.T) {
	for text, want := range map[string]int{
		`{"has_more":1,"next_cursor":"c","msg_list":[]}`:                                               0,
		`{"next_cursor":"c"}`:                                                                          0,
		`{"msg_list":[{"msgid":"a"},{"msgid":"b"},{"msgid":"a"}]}`:                                     2,
		`{"msg_list":[{"msgtype":"event","n":1},{"msgtype":"event","n":1},{"msgtype":"event","n":2}]}`: 2,
		`{"has_more":1,"msg_list":[{"msgid":"a"}]}`:                                                    -1,
		`{"msg_list":[{"msgid":"a"},null]}`:                                                            -1,
	} {
		var a syncAnswer
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		p, failed := a.page()
		if want < 0 {
			if failed == nil || failed.Kind != poller.Protocol {
				t.Errorf("%s: got %+v, %v", text, p, failed)
			}
		} else if failed != nil || len(p.messages) != want {
			t.Errorf("%s: got %+v, %v", text, p, failed)
		}
	}
}

func FuzzPage(f *testing.F) {
	f.Add(`{"errcode":0,"next_cursor":"c","has_more":1,"msg_list":[{"msgid":"m","msgtype":"text","send_time":1}]}`)
	f.Add(`{"errcode":0,"has_more":1,"msg_list":[null,{}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var a syncAnswer
		if json.Unmarshal([]byte(text), &a) != nil {
			return
		}
		p, failed := a.page()
		if failed != nil {
			if len(p.messages) > 0 || p.next != "" || p.hasMore {
				t.Errorf("%+v with %v", p, failed)
			}
			return
		}
		ids := make(map[string]bool)
		for _, m := range p.messages {
			if m.ID == "" || len(m.ID) > maxID || ids[m.ID] || !json.Valid(m.Data) {
				t.Errorf("got %+v", m)
			}
			ids[m.ID] = true
		}
	})
}

func TestCursorIsBoundToTheAccount(t *testing.T) {
	raw, err := encodeCursor("next", "wk1")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"wk1": "next", "wk2": ""} {
		if got, err := decodeCursor(raw, id); err != nil || got != want {
			t.Errorf("%s: got %q, %v", id, got, err)
		}
	}
	for _, broken := range []string{"{", "7", `{"v":2,"kf":"wk1","cursor":"c"}`, `{"v":1,"kf":"wk1"}`} {
		if got, err := decodeCursor([]byte(broken), "wk1"); err == nil {
			t.Errorf("%s: got %q", broken, got)
		}
	}
}

// A callback's token lifts the limit. An expired token is left out, and the same page is
// fetched at once without it.
func TestCallbackTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, token.NewMemory(), 1, wecom.Options{})
		id := w.accounts(1, 5)[0]
		hint := func() string { return fmt.Sprintf(`{"token": %q}`, w.wecom.CallbackToken(id)) }
		w.cursors[id] = nil
		for range 30 {
			if _, failed := w.page(0, id, hint()); failed != nil {
				t.Fatal(failed)
			}
		}
		if s := w.wecom.Stats(corp); s.WithoutToken != 0 || s.SyncMsg != 30 {
			t.Errorf("got %+v", s)
		}
		late := hint()
		w.wecom.PostN(id, 1)
		time.Sleep(11 * time.Minute)
		for _, hint := range []string{late, `{"token": "forged"}`, `"odd"`, `{`, `{"other": 1}`} {
			if _, failed := w.page(0, id, hint); failed != nil {
				t.Errorf("%s: %v", hint, failed)
			}
		}
		if s := w.wecom.Stats(corp); s.WithoutToken != 5 || s.Refused != 2 {
			t.Errorf("got %+v", s)
		}
		w.complete([]string{id}, 6)
	})
}

// An account with many messages to catch up on stays below the limit for calls without a
// token. Its corporation is not paused.
func TestCatchingUpKeepsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, token.NewMemory(), 1, wecom.Options{})
		ids := w.accounts(2, 2500)
		for _, id := range ids {
			for more := true; more; {
				result, failed := w.page(0, id, "")
				if failed != nil {
					t.Fatal(failed)
				}
				more = result.HasMore
				time.Sleep(result.NextPollAfter)
			}
		}
		w.complete(ids, 2500)
		if s := w.wecom.Stats(corp); s.Refused != 0 {
			t.Errorf("got %+v", s)
		}
		// An account that goes on calling nevertheless must wait. No other account waits with
		// it.
		for range paceCalls + 1 {
			_, _ = w.page(0, ids[0], "")
		}
		if _, failed := w.page(0, ids[0], ""); failed == nil || failed.Code != "wecom_pace" || failed.Kind != poller.RateLimited || failed.RetryAfter <= 0 {
			t.Errorf("got %+v", failed)
		}
		if s := w.wecom.Stats(corp); s.Refused != 0 {
			t.Errorf("got %+v", s)
		}
		time.Sleep(time.Minute)
		if codes := w.round(ids); len(codes) != 0 {
			t.Errorf("got %v", codes)
		}
	})
}

// When others use up the calls that a corporation may make at once, the replicas make fewer.
// Some time later they make as many as before.
func TestConcurrencyIsLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, token.NewMemory(), 1, wecom.Options{Concurrency: 5, CallsWithoutToken: -1, Latency: 200 * time.Millisecond})
		w.replicas[0].paces.most = 1 << 30
		ids := w.accounts(20, 1)
		first := w.round(ids)
		if first["wecom_45033"] == 0 {
			t.Fatalf("got %v", first)
		}
		for range 20 {
			time.Sleep(crowdRetry)
			w.round(ids)
		}
		before := w.wecom.Stats(corp)
		for range 5 {
			time.Sleep(crowdRetry)
			w.round(ids)
		}
		if after := w.wecom.Stats(corp); after.Refused-before.Refused > 5 {
			t.Errorf("%d of %d calls were refused", after.Refused-before.Refused, after.SyncMsg-before.SyncMsg)
		}
		w.complete(ids, 1)
		time.Sleep(time.Hour)
		if codes := w.round(ids[:5]); len(codes) != 0 {
			t.Errorf("an hour later: %v", codes)
		}
		if len(w.replicas[0].crowds.of) > 1 {
			t.Errorf("crowds: %v", w.replicas[0].crowds.of)
		}
	})
}

// During a day with many faults, each message is found once, in order.
func TestEachMessageOnceThroughFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, token.NewMemory(), 3, wecom.Options{EmptyPages: true, TokenLife: 17 * time.Minute, Concurrency: -1})
		ids := w.accounts(20, 0)
		posted := 0
		for round := range 200 {
			for n, id := range ids {
				if (round+n)%2 == 0 {
					w.wecom.Post(id, "text")
				} else {
					w.wecom.PostEvent(id, "enter_session")
				}
			}
			posted++
			switch round % 10 {
			case 1:
				w.wecom.Revoke(corp)
			case 3:
				w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: 45009, Times: 1})
			case 5:
				w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Code: -1, Times: 3})
			case 6:
				w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Status: 502, Times: 5})
			case 7:
				w.wecom.Fail(corp, wecom.SyncMsg, wecom.Fault{Garbage: true, Times: 5})
			case 8:
				w.wecom.Fail(corp, wecom.GetToken, wecom.Fault{Code: -1, Times: 2})
			}
			w.round(ids)
			time.Sleep(time.Minute)
		}
		w.wecom.Heal()
		time.Sleep(2 * time.Hour)
		for range 10 {
			if codes := w.round(ids); len(codes) != 0 {
				t.Errorf("healed: %v", codes)
			}
			time.Sleep(time.Minute)
		}
		w.complete(ids, posted)
	})
}
