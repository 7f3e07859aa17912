package weixin

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

const person = "person@im.wechat"

// sends makes one attempt of a send.
func sends(t *testing.T, w *ilinkd.Server, attempt int, window string) (poller.Sent, error) {
	t.Helper()
	return New(fetch.New(fetch.Options{Transport: w}), source()).Send(t.Context(), poller.SendRequest{
		Account: "a", Config: configOf("", "a"), ID: "SEND0000000000000000000000000001", Attempt: attempt,
		Peer: person, Type: "text", Data: json.RawMessage(`{"text":"你好"}`), Token: window,
	})
}

func TestATextIsSentToThePersonWhoWrote(t *testing.T) {
	w := newFake(ilink.Options{Hold: -1})
	w.Post(tokenOf("a"), "text")
	found := result(t, w, nil).Messages[0]
	window := found.Answerable
	if window == nil || window.Peer != person || window.Count != 10 || window.Token != "context-1" || window.For > 24*time.Hour || window.For < 23*time.Hour {
		t.Fatalf("the window is %+v", window)
	}
	checker := New(fetch.New(fetch.Options{}), source())
	out := &poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"你好"}`)}
	if err := checker.PrepareSend(configOf("", "a"), out, &found); err != nil || out.Peer != person {
		t.Fatalf("prepared %+v, %v", out, err)
	}
	sent, err := sends(t, w, 1, window.Token)
	if err != nil {
		t.Fatal(err)
	}
	all := w.Sent(tokenOf("a"))
	if len(all) != 1 || all[0].ID != sent.VendorID || all[0].To != person || all[0].Text != "你好" || all[0].ClientID != "SEND0000000000000000000000000001" {
		t.Errorf("the server has %+v; the kind says %+v", all, sent)
	}
}

func TestOnlyPersonsInDirectChatsCanBeAnswered(t *testing.T) {
	for _, element := range []string{
		`{"message_id":7,"message_type":2,"from_user_id":"bot","context_token":"c"}`,
		`{"message_id":7,"message_type":1,"from_user_id":"p","group_id":"g","context_token":"c"}`,
		`{"message_id":7,"message_type":1,"context_token":"c"}`,
		`{"message_id":7,"message_type":1,"from_user_id":"p","context_token":"c","create_time_ms":1000}`,
		`{"message_id":7,"message_type":1,"from_user_id":"p\u0001","context_token":"c"}`,
	} {
		if m, _ := readMessage(json.RawMessage(element)); m.Answerable != nil {
			t.Errorf("%s: got %+v", element, m.Answerable)
		}
	}
	checker := New(fetch.New(fetch.Options{}), source())
	for data, out := range map[string]poller.Outgoing{
		`{"from_user_id":"p","group_id":"g"}`: {Type: "text", Data: json.RawMessage(`{"text":"x"}`)},
		``:                                    {Type: "image", Peer: "p", Data: json.RawMessage(`{"text":"x"}`)},
		` `:                                   {Type: "text", Peer: "p", Data: json.RawMessage(`{"text":" "}`)},
		`  `:                                  {Type: "text", Peer: "p", Data: json.RawMessage(`{"text":"x","y":1}`)},
	} {
		var answers *poller.Message
		if strings.TrimSpace(data) != "" {
			answers = &poller.Message{Data: json.RawMessage(data)}
		}
		if err := checker.PrepareSend(nil, &out, answers); err == nil {
			t.Errorf("%s, %+v: prepared", data, out)
		}
	}
}

// What the server says about a send, and what is not known.
func TestWhatAnAnswerToASendMeans(t *testing.T) {
	type fault struct {
		ilinkd.Fault
		attempt int
	}
	checktest.RunAnswers(t, map[string]checktest.Answer[fault]{
		"no message_id":  {Fault: fault{ilinkd.Fault{Body: `{"ret":0}`}, 1}, End: checktest.SendUnknown, Code: "no_message_id"},
		"nothing":        {Fault: fault{ilinkd.Fault{Body: `{}`}, 1}, End: checktest.SendUnknown, Code: "no_message_id"},
		"garbage":        {Fault: fault{ilinkd.Fault{Garbage: true}, 1}, End: checktest.SendUnknown, Code: "protocol"},
		"reset":          {Fault: fault{ilinkd.Fault{Reset: true}, 1}, End: checktest.SendUnknown},
		"cut":            {Fault: fault{ilinkd.Fault{Cut: true}, 1}, End: checktest.SendUnknown},
		"gateway":        {Fault: fault{ilinkd.Fault{Status: 502}, 1}, End: checktest.SendUnknown, Code: "http_502"},
		"too many":       {Fault: fault{ilinkd.Fault{Status: 429}, 1}, End: checktest.SendAgain, Code: "http_429"},
		"wrong":          {Fault: fault{ilinkd.Fault{Status: 400}, 1}, End: checktest.SendRefused, Code: "http_400"},
		"unauthorized":   {Fault: fault{ilinkd.Fault{Status: 401}, 1}, End: checktest.SendAgain, Code: "http_401", Account: true},
		"stale":          {Fault: fault{ilinkd.Fault{Code: -14}, 1}, End: checktest.SendAgain, Code: "weixin_-14", Account: true},
		"refused":        {Fault: fault{ilinkd.Fault{Code: -2}, 1}, End: checktest.SendAgain, Code: "weixin_-2", After: refusedPause},
		"refused, again": {Fault: fault{ilinkd.Fault{Code: -2}, refusedMost}, End: checktest.SendRefused, Code: "weixin_-2"},
		"unheard of":     {Fault: fault{ilinkd.Fault{Code: -99}, 1}, End: checktest.SendRefused, Code: "weixin_-99"},
	}, func(t *testing.T, f fault) ([]string, error) {
		w := newFake(ilink.Options{Hold: -1})
		w.Post(tokenOf("a"), "text")
		w.Fail(ilinkd.SendMessage, f.Fault)
		_, err := sends(t, w, f.attempt, "context-1")
		return []string{tokenOf("a"), "context-1"}, err
	})
}

func TestASendWithoutATokenOrAServerIsNotSent(t *testing.T) {
	w := newFake(ilink.Options{Hold: -1})
	var known *poller.SendError
	if _, err := sends(t, w, 1, ""); !errors.As(err, &known) || !known.Final {
		t.Errorf("got %v", err)
	}
	checker := New(fetch.New(fetch.Options{AllowPrivate: true, Transport: nil}), source())
	_, err := checker.Send(t.Context(), poller.SendRequest{
		Account: "a", Config: configOf("http://127.0.0.1:1", "a"), ID: "S", Attempt: 1, Peer: person, Data: json.RawMessage(`{"text":"x"}`), Token: "c",
	})
	if !errors.As(err, &known) || !known.Unsent {
		t.Errorf("no connection: got %v", err)
	}
	if w.Calls(ilinkd.SendMessage) != 0 {
		t.Error("it was sent")
	}
}

// A typing notice needs a ticket, which is got once a day for each person. It is no message: it takes
// nothing from the window.
func TestTyping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFake(ilink.Options{Hold: -1})
		w.Post(tokenOf("a"), "text")
		c := New(fetch.New(fetch.Options{Transport: w}), source())
		types := func(on bool) error {
			_, err := c.Send(t.Context(), poller.SendRequest{
				Account: "a", Config: configOf("", "a"), ID: "S", Attempt: 1, Peer: person, Type: "typing", Data: json.RawMessage(fmt.Sprintf(`{"on":%t}`, on)), Token: "context-1",
			})
			return err
		}
		for _, on := range []bool{true, false, true} {
			if err := types(on); err != nil {
				t.Error(err)
			}
		}
		want := []ilink.Typing{{To: person, On: true}, {To: person}, {To: person, On: true}}
		if got := w.Typing(tokenOf("a")); !slices.Equal(got, want) || w.Calls(ilinkd.GetConfig) != 1 || len(w.Sent(tokenOf("a"))) != 0 {
			t.Errorf("shown %+v, with %d tickets", got, w.Calls(ilinkd.GetConfig))
		}
		time.Sleep(25 * time.Hour)
		if err := types(true); err != nil || w.Calls(ilinkd.GetConfig) != 2 {
			t.Errorf("a day later: %v, %d tickets", err, w.Calls(ilinkd.GetConfig))
		}
		// A ticket that is refused is not used again.
		w.Fail(ilinkd.SendTyping, ilinkd.Fault{Code: -2, Times: 1})
		if err := types(true); err == nil {
			t.Error("a refusal is accepted")
		}
		if err := types(true); err != nil || w.Calls(ilinkd.GetConfig) != 3 {
			t.Errorf("after a refusal: %v, %d tickets", err, w.Calls(ilinkd.GetConfig))
		}
		sending := c.Sending(nil)
		if !slices.Equal(sending.Fleeting, []string{"typing"}) || !slices.Equal(sending.Types, []string{"text", "typing", "image", "video", "file"}) {
			t.Errorf("got %+v", sending)
		}
	})
}
