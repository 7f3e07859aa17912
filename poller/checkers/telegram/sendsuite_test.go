package telegram

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/telegram"
)

func TestSendSuite(t *testing.T) {
	text := func(data string) poller.Outgoing {
		return poller.Outgoing{Peer: "7", Type: "text", Data: json.RawMessage(data)}
	}
	checktest.RunSends(t, checktest.SendKind{
		Start: startSendParty,
		Refused: []checktest.RefusedSend{
			{Send: text(`{"text":" "}`), Field: "data"},
			{Send: text(`{"text":"x","` + checktest.Hidden + `":1}`), Field: "data"},
			{Send: text(`{"text":"` + strings.Repeat("x", maxText+1) + `"}`), Field: "data.text"},
			{Send: poller.Outgoing{Peer: "7", Type: "image", Data: json.RawMessage(`{"file":"f","caption":"` + strings.Repeat("x", maxCaption+1) + `"}`)}, Field: "data.caption"},
			{Send: poller.Outgoing{Peer: "7", Type: "image", Data: json.RawMessage(`{"file":"f","reply_to_message_id":"x"}`)}, Field: "data.reply_to_message_id"},
			{Send: text(`{"text":"x","reply_to_message_id":0}`), Field: "data.reply_to_message_id"},
			{Send: poller.Outgoing{Peer: "7", Type: "edit", Data: json.RawMessage(`{"text":"x"}`)}, Field: "data.message_id"},
			{Send: poller.Outgoing{Peer: "7", Type: "edit", Data: json.RawMessage(`{"text":" ","message_id":7}`)}, Field: "data"},
			{Send: poller.Outgoing{Peer: checktest.Hidden, Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, Field: "to"},
		},
	})
}

func startSendParty(t *testing.T) checktest.SendParty {
	w, stop, err := telegram.Serve(telegram.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	client := checktest.Client(t, fetch.Options{})
	fault := func(name string, f telegram.Fault, end checktest.SendEnd, code string) checktest.SendFault {
		return checktest.SendFault{
			Name: name, End: end, Code: code, After: time.Duration(f.RetryAfter) * time.Second, Takes: f.Cut, Hangs: f.Hang,
			Break: func(account string) { w.FailSends(tokenOf(account), f) },
		}
	}
	file := func(name, data string, size int64) checktest.ValidSend {
		return checktest.ValidSend{Send: poller.Outgoing{Peer: "7", Type: name, Data: json.RawMessage(data)}, File: &poller.File{Name: "a \"é\".bin", Type: "image/png", Size: size}}
	}
	return checktest.SendParty{
		New: func() poller.Sender { return New(client, source()) },
		Config: func(account string) json.RawMessage {
			w.AddBot(tokenOf(account))
			if len(w.Sent(tokenOf(account))) == 0 {
				w.Say(tokenOf(account), "7", "to be edited")
			}
			return configOf(w.URL(), account, "")
		},
		Closed: func(account string) json.RawMessage { return configOf("http://127.0.0.1:1", account, "") },
		Valid: []checktest.ValidSend{
			{Send: poller.Outgoing{Peer: "7", Type: "text", Data: json.RawMessage(`{"text":"你好"}`)}},
			{Send: poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, Answers: &poller.Message{ID: "1", Data: json.RawMessage(`{"update_id":1,"message":{"message_id":7,"chat":{"id":-100}}}`)}},
			{Send: poller.Outgoing{Peer: "7", Type: "edit", Data: json.RawMessage(`{"text":"你好","message_id":1000001}`)}},
			{Send: poller.Outgoing{Peer: "7", Type: "edit", Data: json.RawMessage(`{"text":"x","message_id":"1000001"}`)}},
			file("image", `{"file":"f","caption":"你好"}`, 100_001), file("voice", `{"file":"f"}`, 1), file("video", `{"file":"f"}`, 2), file("file", `{"file":"f","caption":"","reply_to_message_id":7}`, 3),
		},
		Taken: func(account string) (taken []checktest.Taken) {
			for _, s := range w.Sent(tokenOf(account)) {
				taken = append(taken, checktest.Taken{Peer: s.Chat, File: []byte(s.File)}) // Telegram is told no id
			}
			for _, e := range w.Edits(tokenOf(account)) {
				taken = append(taken, checktest.Taken{Peer: e.Chat})
			}
			return taken[min(1, len(taken)):] // without the text to be edited
		},
		Calls: func() int { return w.Sends() },
		Heal:  func(string) { w.Heal() },
		Faults: []checktest.SendFault{
			fault("cut", telegram.Fault{Cut: true}, checktest.SendUnknown, ""),
			fault("reset", telegram.Fault{Reset: true}, checktest.SendUnknown, "reset"),
			fault("garbage", telegram.Fault{Garbage: true}, checktest.SendUnknown, "protocol"),
			fault("too large", telegram.Fault{Bytes: 9 << 20}, checktest.SendUnknown, "too_large"),
			fault("500", telegram.Fault{Code: 500}, checktest.SendUnknown, "telegram_500"),
			fault("502 of a gateway", telegram.Fault{Status: 502}, checktest.SendUnknown, "http_502"),
			fault("429", telegram.Fault{RetryAfter: 17}, checktest.SendAgain, "telegram_429"),
			fault("401", telegram.Fault{Code: 401}, checktest.SendAgain, "telegram_401"),
			fault("403", telegram.Fault{Code: 403}, checktest.SendRefused, "telegram_403"),
			fault("a moved chat", telegram.Fault{MigrateTo: -100}, checktest.SendRefused, "telegram_400"),
			fault("hang", telegram.Fault{Hang: true}, "", ""),
		},
		Secrets: []string{tokenOf("a"), tokenOf("fault0"), tokenOf("hangs0")},
	}
}

func TestSendAddresses(t *testing.T) {
	t.Parallel()
	checktest.RunSendAddresses(t, addresses(), poller.Outgoing{Peer: "7", Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, "")
}
