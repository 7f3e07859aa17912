package wecomkf

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

const sendID = "SEND0000000000000000000000000001"

// sends makes one attempt of a send of an account.
func (w *world) sends(id string) (poller.Sent, error) {
	return w.replicas[0].Send(w.Context(), poller.SendRequest{
		Account: id, Config: configOf("", id), ID: sendID, Attempt: 1, Peer: "wm-customer", Type: "text", Data: json.RawMessage(`{"text":"你好"}`),
	})
}

func TestATextIsSentToTheCustomerWhoWrote(t *testing.T) {
	w := newWorld(t, token.NewMemory(), 1, wecom.Options{})
	id := w.accounts(1, 1)[0]
	r, failed := w.page(0, id, "")
	if failed != nil {
		t.Fatal(failed)
	}
	window := r.Messages[0].Answerable
	if window == nil || window.Peer != "wm-customer" || window.Count != 5 || window.For > 48*time.Hour || window.For < 47*time.Hour {
		t.Fatalf("the window is %+v", window)
	}
	out := &poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"你好"}`)}
	if err := w.replicas[0].PrepareSend(nil, out, &r.Messages[0]); err != nil || out.Peer != "wm-customer" {
		t.Fatalf("prepared %+v, %v", out, err)
	}
	sent, err := w.sends(id)
	if want := (wecom.Sent{MsgID: sendID, To: "wm-customer", Type: "text", Text: "你好"}); err != nil || sent.VendorID != sendID || len(w.wecom.Sent(id)) != 1 || w.wecom.Sent(id)[0] != want {
		t.Errorf("WeCom has %+v; the kind says %+v, %v", w.wecom.Sent(id), sent, err)
	}
	// WeCom says later that it could not deliver it.
	w.wecom.FailSent(id, sendID, 5)
	if r, failed = w.page(0, id, ""); failed != nil {
		t.Fatal(failed)
	}
	if want := (poller.FailedSend{ID: sendID, Code: "fail_type_5", Text: "the session was closed"}); len(r.FailedSends) != 1 || r.FailedSends[0] != want {
		t.Errorf("failed are %+v", r.FailedSends)
	}
	if m := r.Messages[0]; m.Answerable != nil || m.Type != "event.msg_send_fail" {
		t.Errorf("the event is %+v", m)
	}
}

func TestWhatAnAnswerToASendMeans(t *testing.T) {
	checktest.RunAnswers(t, map[string]checktest.Answer[wecom.Fault]{
		"served":    {Fault: wecom.Fault{Code: 95018}, End: checktest.SendRefused},
		"too many":  {Fault: wecom.Fault{Code: 95001}, End: checktest.SendRefused},
		"gone":      {Fault: wecom.Fault{Code: 95000}, End: checktest.SendRefused, Account: true},
		"limited":   {Fault: wecom.Fault{Code: 45009}, End: checktest.SendAgain, After: time.Minute},
		"crowded":   {Fault: wecom.Fault{Code: 45033}, End: checktest.SendAgain, After: 2 * time.Second},
		"refused":   {Fault: wecom.Fault{Code: 40001}, End: checktest.SendAgain, Account: true},
		"our IP":    {Fault: wecom.Fault{Code: 60020}, End: checktest.SendAgain, After: 10 * time.Minute},
		"busy":      {Fault: wecom.Fault{Code: -1}, End: checktest.SendUnknown},
		"gateway":   {Fault: wecom.Fault{Status: 502}, End: checktest.SendUnknown},
		"throttled": {Fault: wecom.Fault{Status: 429}, End: checktest.SendAgain},
		"garbage":   {Fault: wecom.Fault{Garbage: true}, End: checktest.SendUnknown},
	}, func(t *testing.T, f wecom.Fault) ([]string, error) {
		w := newWorld(t, token.NewMemory(), 1, wecom.Options{})
		id := w.accounts(1, 1)[0]
		w.wecom.Fail(corp, wecom.SendMsg, f)
		_, err := w.sends(id)
		return []string{w.wecom.Token(corp), secret}, err
	})
}

func TestARefusedTokenIsReplacedBeforeTheSendGoes(t *testing.T) {
	w := newWorld(t, token.NewMemory(), 1, wecom.Options{})
	id := w.accounts(1, 1)[0]
	if _, err := w.sends(id); err != nil {
		t.Fatal(err)
	}
	w.wecom.Revoke(corp)
	if _, err := w.sends(id); err != nil || len(w.wecom.Sent(id)) != 2 {
		t.Errorf("got %v, and WeCom has %+v", err, w.wecom.Sent(id))
	}
}

// A customer who enters for the first time may be welcomed once, within 20 seconds, by the code of the
// event. Who has written is answered as usual.
func TestWhoEntersIsWelcomed(t *testing.T) {
	w := newWorld(t, token.NewMemory(), 1, wecom.Options{})
	w.wecom.AddAccount(corp, "wk-new")
	w.wecom.Enter("wk-new")
	r, failed := w.page(0, "wk-new", "")
	if failed != nil {
		t.Fatal(failed)
	}
	window := r.Messages[0].Answerable
	if window == nil || window.Peer != "wm-customer" || window.Count != 1 || window.For > 20*time.Second || window.For < 15*time.Second || window.Token == "" {
		t.Fatalf("the window is %+v", window)
	}
	sends := func(kind, data, token string) error {
		out := &poller.Outgoing{Type: kind, Data: json.RawMessage(data)}
		if err := w.replicas[0].PrepareSend(nil, out, &r.Messages[0]); err != nil || out.Peer != "wm-customer" {
			t.Fatalf("prepared %+v, %v", out, err)
		}
		_, err := w.replicas[0].Send(w.Context(), poller.SendRequest{
			Account: "wk-new", Config: configOf("", "wk-new"), ID: sendID, Attempt: 1, Peer: out.Peer, Type: out.Type, Data: out.Data, Token: token,
		})
		return err
	}
	var refused *poller.SendError
	if err := sends("link", `{"title":"x","url":"https://example.com/","thumb_media_id":"m"}`, window.Token); !errors.As(err, &refused) || !refused.Final {
		t.Errorf("a link as a welcome: %v", err)
	}
	if err := sends("menu", `{"list":[{"type":"click","click":{"content":"yes"}}]}`, window.Token); err != nil {
		t.Error(err)
	}
	if err := sends("text", `{"text":"again"}`, window.Token); !errors.As(err, &refused) || !refused.Final {
		t.Errorf("a second welcome: %v", err)
	}
	if all := w.wecom.Sent("wk-new"); len(all) != 1 || !all[0].Welcome || all[0].Type != "msgmenu" || all[0].MsgID != sendID {
		t.Errorf("WeCom has %+v", all)
	}
	w.wecom.Post("wk-new", "text")
	w.wecom.Enter("wk-new")
	if r, failed = w.page(0, "wk-new", ""); failed != nil {
		t.Fatal(failed)
	}
	if written, entered := r.Messages[0].Answerable, r.Messages[1].Answerable; written == nil || written.Token != "" || written.Count != 5 || entered != nil {
		t.Errorf("the windows are %+v, %+v", written, entered)
	}
}
