package telegram

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/telegram"
)

// sends makes one attempt of a send.
func sends(t *testing.T, w *telegram.Telegram, chat, data string) (poller.Sent, error) {
	t.Helper()
	return New(fetch.New(fetch.Options{Transport: w}), source()).Send(t.Context(), poller.SendRequest{
		Account: "a", Config: configOf("", "a", ""), ID: "S", Attempt: 1, Peer: chat, Type: "text", Data: json.RawMessage(data),
	})
}

func TestAnAnswerGoesToTheChatAndNamesItsMessage(t *testing.T) {
	w := telegram.New(telegram.Options{})
	w.AddBot(tokenOf("a"))
	found := poller.Message{Data: json.RawMessage(`{"update_id":1,"message":{"message_id":7,"chat":{"id":-1001234567890123}}}`)}
	out := &poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"你好"}`)}
	if err := New(fetch.New(fetch.Options{}), source()).PrepareSend(nil, out, &found); err != nil || out.Peer != "-1001234567890123" {
		t.Fatalf("prepared %+v, %v", out, err)
	}
	sent, err := sends(t, w, out.Peer, string(out.Data))
	if err != nil {
		t.Fatal(err)
	}
	want := telegram.Sent{ID: 1_000_001, Chat: "-1001234567890123", Text: "你好", Reply: 7}
	if all := w.Sent(tokenOf("a")); len(all) != 1 || all[0] != want || sent.VendorID != "1000001" {
		t.Errorf("Telegram has %+v; the kind says %+v", all, sent)
	}
	if _, err := sends(t, w, "5", `{"text":"alone"}`); err != nil || w.Sent(tokenOf("a"))[1].Reply != 0 {
		t.Errorf("got %+v, %v", w.Sent(tokenOf("a")), err)
	}
}

func TestWhatCannotBeSentIsRefused(t *testing.T) {
	c := New(fetch.New(fetch.Options{}), source())
	for name, out := range map[string]poller.Outgoing{
		"a chat without an id": {Peer: "anna", Type: "text", Data: json.RawMessage(`{"text":"x"}`)},
		"no chat":              {Type: "text", Data: json.RawMessage(`{"text":"x"}`)},
		"another type":         {Peer: "7", Type: "photo", Data: json.RawMessage(`{"text":"x"}`)},
		"a long text":          {Peer: "7", Type: "text", Data: json.RawMessage(`{"text":"` + strings.Repeat("x", 4097) + `"}`)},
		"a wrong reply":        {Peer: "7", Type: "text", Data: json.RawMessage(`{"text":"x","reply_to_message_id":"7"}`)},
		"another field":        {Peer: "7", Type: "text", Data: json.RawMessage(`{"text":"x","parse_mode":"HTML"}`)},
	} {
		if err := c.PrepareSend(nil, &out, nil); err == nil {
			t.Errorf("%s: prepared", name)
		}
	}
	if c.PrepareSend(nil, &poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, &poller.Message{Data: json.RawMessage(`{"update_id":1}`)}) == nil {
		t.Error("an update without a chat is answered")
	}
}

func TestWhatAnAnswerToASendMeans(t *testing.T) {
	checktest.RunAnswers(t, map[string]checktest.Answer[telegram.Fault]{
		"limited":   {Fault: telegram.Fault{RetryAfter: 7}, End: checktest.SendAgain, After: 7 * time.Second},
		"revoked":   {Fault: telegram.Fault{Code: 401}, End: checktest.SendAgain, Account: true},
		"blocked":   {Fault: telegram.Fault{Code: 403}, End: checktest.SendRefused},
		"wrong":     {Fault: telegram.Fault{Code: 400}, End: checktest.SendRefused},
		"migrated":  {Fault: telegram.Fault{MigrateTo: -7}, End: checktest.SendRefused},
		"their own": {Fault: telegram.Fault{Code: 500}, End: checktest.SendUnknown},
		"gateway":   {Fault: telegram.Fault{Status: 502}, End: checktest.SendUnknown},
		"garbage":   {Fault: telegram.Fault{Garbage: true}, End: checktest.SendUnknown},
		"reset":     {Fault: telegram.Fault{Reset: true}, End: checktest.SendUnknown},
	}, func(t *testing.T, f telegram.Fault) ([]string, error) {
		w := telegram.New(telegram.Options{})
		w.AddBot(tokenOf("a"))
		w.FailSends(tokenOf("a"), f)
		_, err := sends(t, w, "7", `{"text":"x"}`)
		return []string{tokenOf("a")}, err
	})
}

// An edit changes a text that the bot has sent. One that finds the text already there is accepted, as
// after an attempt whose end was unknown.
func TestAnEditChangesAText(t *testing.T) {
	w := telegram.New(telegram.Options{})
	token := tokenOf("a")
	w.AddBot(token)
	sent, err := sends(t, w, "7", `{"text":"one"}`)
	if err != nil {
		t.Fatal(err)
	}
	edits := func(id, text string) error {
		_, err := New(fetch.New(fetch.Options{Transport: w}), source()).Send(t.Context(), poller.SendRequest{
			Account: "a", Config: configOf("", "a", ""), ID: "S", Attempt: 1, Peer: "7", Type: "edit", Data: json.RawMessage(`{"text":"` + text + `","message_id":"` + id + `"}`),
		})
		return err
	}
	w.FailSends(token, telegram.Fault{Cut: true, Times: 1})
	var refused *poller.SendError
	if err := edits(sent.VendorID, "two"); err == nil || errors.As(err, &refused) {
		t.Errorf("cut: got %v", err)
	}
	for _, text := range []string{"two", "three"} {
		if err := edits(sent.VendorID, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if all := w.Sent(token); len(all) != 1 || all[0].Text != "three" || len(w.Edits(token)) != 2 {
		t.Errorf("Telegram has %+v, edited by %+v", all, w.Edits(token))
	}
	if err := edits("5", "x"); !errors.As(err, &refused) || !refused.Final {
		t.Errorf("of no message: %v", err)
	}
}
