package wecomkf

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

const customer = "wm-customer"

func TestSendSuite(t *testing.T) {
	refused := func(kind, data, field string) checktest.RefusedSend {
		return checktest.RefusedSend{Send: poller.Outgoing{Peer: customer, Type: kind, Data: json.RawMessage(data)}, Field: field}
	}
	checktest.RunSends(t, checktest.SendKind{
		Start: startSendParty,
		Refused: []checktest.RefusedSend{
			{Send: poller.Outgoing{Peer: customer, Type: "text", Data: json.RawMessage(`{"text":" "}`)}, Field: "data"},
			{Send: poller.Outgoing{Peer: customer, Type: "text", Data: json.RawMessage(`{"text":"x","` + checktest.Hidden + `":1}`)}, Field: "data"},
			{Send: poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, Answers: &poller.Message{Data: json.RawMessage(`{"msgid":"1","msgtype":"event"}`)}, Field: "reply_to"},
			refused("link", `{"title":"x","url":"https://example.com/"}`, "data"),
			refused("link", `{"title":"x","url":"javascript:1","thumb_media_id":"m"}`, "data"),
			refused("link", `{"title":"`+strings.Repeat("x", 129)+`","url":"https://example.com/","thumb_media_id":"m"}`, "data"),
			refused("link", `{"title":"x","url":"https://example.com/","thumb_media_id":"m","`+checktest.Hidden+`":1}`, "data"),
			refused("menu", `{"list":[]}`, "data"),
			refused("menu", `{"list":[`+strings.TrimSuffix(strings.Repeat(`{"type":"text","text":{"content":"x"}},`, 11), ",")+`]}`, "data"),
			refused("menu", `{"list":[{"type":"click","view":{"url":"https://example.com/","content":"x"}}]}`, "data.list"),
			refused("menu", `{"list":[{"type":"view","view":{"url":"ftp://example.com/","content":"x"}}]}`, "data.list"),
			refused("menu", `{"list":[{"type":"text","text":{"content":""}}]}`, "data.list"),
		},
	})
}

func startSendParty(t *testing.T) checktest.SendParty {
	w, stop, err := wecom.Serve(wecom.Options{Concurrency: -1, CallsWithoutToken: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	w.AddCorp(corp, secret)
	client, shared := checktest.Client(t, fetch.Options{}), token.NewMemory()
	fault := func(name string, f wecom.Fault, end checktest.SendEnd, code string) checktest.SendFault {
		return checktest.SendFault{Name: name, End: end, Code: code, Takes: f.Cut, Hangs: f.Hang, Break: func(string) { w.Fail(corp, wecom.SendMsg, f) }}
	}
	file := func(name string, size int64) checktest.ValidSend {
		return checktest.ValidSend{Send: poller.Outgoing{Peer: customer, Type: name, Data: json.RawMessage(`{"file":"f"}`)}, File: &poller.File{Name: "a \"é\".bin", Type: "image/png", Size: size}}
	}
	return checktest.SendParty{
		New: func() poller.Sender { return New(client, source(secret), shared) },
		Config: func(openKfID string) json.RawMessage {
			w.AddAccount(corp, openKfID)
			w.Post(openKfID, "text")
			return configOf(w.URL(), openKfID)
		},
		Closed: func(openKfID string) json.RawMessage { return configOf("http://127.0.0.1:1", openKfID) },
		Valid: []checktest.ValidSend{
			{Send: poller.Outgoing{Peer: customer, Type: "text", Data: json.RawMessage(`{"text":"你好"}`)}},
			{Send: poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, Answers: &poller.Message{ID: "1", Data: json.RawMessage(`{"msgid":"1","msgtype":"text","external_userid":"` + customer + `"}`)}},
			{Send: poller.Outgoing{Peer: customer, Type: "link", Data: json.RawMessage(`{"title":"你好","desc":"x","url":"https://example.com/?a=b","thumb_media_id":"m1"}`)}},
			{Send: poller.Outgoing{Peer: customer, Type: "menu", Data: json.RawMessage(`{"head_content":"你好","list":[{"type":"click","click":{"id":"1","content":"yes"}},{"type":"view","view":{"url":"https://example.com/","content":"more"}},{"type":"text","text":{"content":"or"}}],"tail_content":"x"}`)}},
			file("image", 100_001), file("voice", 16), file("video", 7), file("file", 6),
		},
		Taken: func(openKfID string) (taken []checktest.Taken) {
			for _, s := range w.Sent(openKfID) {
				taken = append(taken, checktest.Taken{ID: s.MsgID, Peer: s.To, File: []byte(s.File)})
			}
			return taken
		},
		Calls: func() int { return w.Stats(corp).SendMsg },
		Heal:  func(string) { w.Heal() },
		Faults: []checktest.SendFault{
			fault("cut", wecom.Fault{Cut: true}, checktest.SendUnknown, ""),
			fault("reset", wecom.Fault{Reset: true}, checktest.SendUnknown, "reset"),
			fault("garbage", wecom.Fault{Garbage: true}, checktest.SendUnknown, "protocol"),
			fault("too large", wecom.Fault{Bytes: 9 << 20}, checktest.SendUnknown, "too_large"),
			fault("502", wecom.Fault{Status: 502}, checktest.SendUnknown, "http_502"),
			fault("busy", wecom.Fault{Code: -1}, checktest.SendUnknown, "wecom_-1"),
			fault("429", wecom.Fault{Status: 429}, checktest.SendAgain, "http_429"),
			fault("crowded", wecom.Fault{Code: 45033}, checktest.SendAgain, "wecom_45033"),
			fault("no such account", wecom.Fault{Code: 95000}, checktest.SendRefused, "wecom_95000"),
			fault("a servicer has the session", wecom.Fault{Code: 95018}, checktest.SendRefused, "wecom_95018"),
			fault("unheard of", wecom.Fault{Code: 99999}, checktest.SendRefused, "wecom_99999"),
			fault("hang", wecom.Fault{Hang: true}, "", ""),
		},
		Secrets: []string{secret, w.Token(corp)},
	}
}

func TestSendAddresses(t *testing.T) {
	t.Parallel()
	checktest.RunSendAddresses(t, addresses(), poller.Outgoing{Peer: customer, Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, "")
}
