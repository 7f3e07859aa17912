package weixin

import (
	"encoding/json"
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
)

func TestSendSuite(t *testing.T) {
	text := poller.Outgoing{Peer: person, Type: "text", Data: json.RawMessage(`{"text":"你好"}`)}
	checktest.RunSends(t, checktest.SendKind{
		Start: startSendParty,
		Refused: []checktest.RefusedSend{
			{Send: poller.Outgoing{Peer: person, Type: "text", Data: json.RawMessage(`{"text":" "}`)}, Field: "data"},
			{Send: poller.Outgoing{Peer: person, Type: "text", Data: json.RawMessage(`{"text":"x","` + checktest.Hidden + `":1}`)}, Field: "data"},
			{Send: poller.Outgoing{Peer: person, Type: "typing", Data: json.RawMessage(`{"on":1}`)}, Field: "data"},
			{Send: poller.Outgoing{Peer: person, Type: "typing", Data: json.RawMessage(`{"on":true,"` + checktest.Hidden + `":1}`)}, Field: "data"},
			{Send: poller.Outgoing{Peer: person, Type: "image", Data: json.RawMessage(`{"file":"f","caption":"x"}`)}, Field: "data.caption"},
			{Send: poller.Outgoing{Peer: "p\x01", Type: "text", Data: text.Data}, Field: "to"},
			{Send: poller.Outgoing{Type: "text", Data: text.Data}, Answers: &poller.Message{Data: json.RawMessage(`{"from_user_id":"p","group_id":"g"}`)}, Field: "reply_to"},
		},
	})
}

func startSendParty(t *testing.T) checktest.SendParty {
	w, stop, err := ilinkd.Serve(ilink.Options{Hold: -1, Full: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	client := checktest.Client(t, fetch.Options{})
	written := func(account string) {
		w.AddBot(tokenOf(account))
		w.Post(tokenOf(account), "text")
	}
	fault := func(name string, f ilinkd.Fault, end checktest.SendEnd, code string) checktest.SendFault {
		return checktest.SendFault{Name: name, End: end, Code: code, Takes: f.Cut, Hangs: f.Hang || f.Drip, Break: func(string) { w.Fail(ilinkd.SendMessage, f) }}
	}
	config := func(account string) json.RawMessage {
		written(account)
		return configOf(w.URL(), account)
	}
	file := func(name string, size int64) checktest.ValidSend {
		return checktest.ValidSend{Send: poller.Outgoing{Peer: person, Type: name, Data: json.RawMessage(`{"file":"f"}`)}, File: &poller.File{Name: "a é.bin", Type: "image/png", Size: size}}
	}
	return checktest.SendParty{
		New:    func() poller.Sender { return New(client, source()) },
		Config: config,
		Closed: func(account string) json.RawMessage { return configOf("http://127.0.0.1:1", account) },
		Valid: []checktest.ValidSend{
			{Send: poller.Outgoing{Peer: person, Type: "text", Data: json.RawMessage(`{"text":"你好"}`)}},
			{Send: poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, Answers: &poller.Message{ID: "1", Data: json.RawMessage(`{"from_user_id":"` + person + `","message_type":1}`)}},
			{Send: poller.Outgoing{Peer: person, Type: "typing", Data: json.RawMessage(`{"on":true}`)}},
			file("image", 100_001), file("video", 16), file("file", 1),
		},
		Token: "context-1",
		Taken: func(account string) (taken []checktest.Taken) {
			for _, s := range w.Sent(tokenOf(account)) {
				taken = append(taken, checktest.Taken{ID: s.ClientID, Peer: s.To, File: []byte(s.File)})
			}
			for _, s := range w.Typing(tokenOf(account)) {
				taken = append(taken, checktest.Taken{Peer: s.To})
			}
			return taken
		},
		Calls: func() int { return w.Calls(ilinkd.SendMessage) + w.Calls(ilinkd.SendTyping) },
		Heal:  func(string) { w.Heal() },
		Faults: []checktest.SendFault{
			fault("cut", ilinkd.Fault{Cut: true}, checktest.SendUnknown, ""),
			fault("reset", ilinkd.Fault{Reset: true}, checktest.SendUnknown, "reset"),
			fault("garbage", ilinkd.Fault{Garbage: true}, checktest.SendUnknown, "protocol"),
			fault("half an object", ilinkd.Fault{Body: `{"ret":0,"message_id":`}, checktest.SendUnknown, "protocol"),
			fault("too large", ilinkd.Fault{Bytes: 9 << 20}, checktest.SendUnknown, "too_large"),
			fault("no id", ilinkd.Fault{Body: `{"ret":0}`}, checktest.SendUnknown, "no_message_id"),
			fault("502", ilinkd.Fault{Status: 502}, checktest.SendUnknown, "http_502"),
			fault("429", ilinkd.Fault{Status: 429}, checktest.SendAgain, "http_429"),
			fault("400", ilinkd.Fault{Status: 400}, checktest.SendRefused, "http_400"),
			fault("401", ilinkd.Fault{Status: 401}, checktest.SendAgain, "http_401"),
			fault("stale", ilinkd.Fault{Code: -14}, checktest.SendAgain, "weixin_-14"),
			fault("refused", ilinkd.Fault{Code: -2}, checktest.SendAgain, "weixin_-2"),
			fault("unheard of", ilinkd.Fault{Code: -99}, checktest.SendRefused, "weixin_-99"),
			fault("hang", ilinkd.Fault{Hang: true}, "", ""),
		},
		Secrets: []string{tokenOf("a"), tokenOf("fault0"), "context-1"},
	}
}

func TestSendAddresses(t *testing.T) {
	t.Parallel()
	checktest.RunSendAddresses(t, addresses(), poller.Outgoing{Peer: person, Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, "context-1")
}
