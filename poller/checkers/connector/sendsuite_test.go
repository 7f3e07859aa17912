package connector

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// sendingConfig is a config whose sends go to an address.
func sendingConfig(url string, once bool) json.RawMessage {
	return json.RawMessage(strings.TrimSuffix(string(signedConfig(url)), "}") + fmt.Sprintf(`,"send_url":%q,"deduplicates":%t,"send_files":true}`, url, once))
}

func TestSendSuite(t *testing.T) {
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprintf("deduplicates %t", once), func(t *testing.T) {
			checktest.RunSends(t, checktest.SendKind{
				Start: func(t *testing.T) checktest.SendParty { return startSendParty(t, once) },
				Refused: []checktest.RefusedSend{
					{Send: poller.Outgoing{Peer: "anna", Type: "text", Data: json.RawMessage(`{"text":" "}`)}, Field: "data"},
					{Send: poller.Outgoing{Peer: "anna", Type: "text", Data: json.RawMessage(`{"text":"x","` + checktest.Hidden + `":1}`)}, Field: "data"},
					{Send: poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, Answers: &poller.Message{Data: json.RawMessage(`{"from":7}`)}, Field: "to"},
				},
			})
		})
	}
}

func startSendParty(t *testing.T, once bool) checktest.SendParty {
	u := checktest.Upstream(t, upstream.Options{SigningSecret: signingKey, Deduplicates: once})
	client := checktest.Client(t, fetch.Options{})
	fault := func(name string, f upstream.Fault, end checktest.SendEnd, code string) checktest.SendFault {
		wait, _ := time.ParseDuration(f.RetryAfter + "s") // none: 0
		if end == checktest.SendUnknown {
			wait = 0
		}
		return checktest.SendFault{Name: name, End: end, Code: code, After: wait, Takes: f.Cut, Hangs: f.Hang, Break: func(account string) { u.FailSends(account, f) }}
	}
	file := func(name, data string, size int64) checktest.ValidSend {
		return checktest.ValidSend{Send: poller.Outgoing{Peer: "anna", Type: name, Data: json.RawMessage(data)}, File: &poller.File{Name: "a \"é\".bin", Type: "image/png", Size: size}}
	}
	return checktest.SendParty{
		New:    func() poller.Sender { return New(client, source()) },
		Config: func(account string) json.RawMessage { return sendingConfig(u.URL("send", account), once) },
		Closed: func(string) json.RawMessage { return sendingConfig("http://127.0.0.1:1", once) },
		Valid: []checktest.ValidSend{
			{Send: poller.Outgoing{Peer: "anna", Type: "text", Data: json.RawMessage(`{"text":"你好"}`)}},
			{Send: poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, Answers: &poller.Message{ID: "1", Data: json.RawMessage(`{"from":"ben"}`)}},
			file("image", `{"file":"f","caption":"你好"}`, 100_001), file("voice", `{"file":"f"}`, 1), file("video", `{"file":"f"}`, 2), file("file", `{"file":"f"}`, 3),
		},
		Taken: func(account string) (taken []checktest.Taken) {
			for _, s := range u.Sent(account) {
				taken = append(taken, checktest.Taken{ID: s.ID, Peer: s.To, File: []byte(s.File)})
			}
			return taken
		},
		Calls: func() (calls int) {
			for _, account := range u.Accounts() {
				calls += u.Stats(account).Sends
			}
			return calls
		},
		Heal: u.Heal,
		Faults: []checktest.SendFault{
			fault("cut", upstream.Fault{Cut: true}, checktest.SendUnknown, ""),
			fault("garbage", upstream.Fault{Garbage: true}, checktest.SendUnknown, "protocol"),
			fault("too large", upstream.Fault{Bytes: 1 << 20}, checktest.SendUnknown, "too_large"),
			fault("502", upstream.Fault{Status: 502}, checktest.SendUnknown, "http_502"),
			fault("503", upstream.Fault{Status: 503, RetryAfter: "9"}, checktest.SendUnknown, "http_503"),
			fault("429", upstream.Fault{Status: 429, RetryAfter: "9"}, checktest.SendAgain, "http_429"),
			fault("rejected", upstream.Fault{ErrorKind: "rejected"}, checktest.SendRefused, "injected"),
			fault("transient", upstream.Fault{ErrorKind: "transient", Status: 500}, checktest.SendAgain, "injected"),
			fault("404", upstream.Fault{Status: 404}, checktest.SendAgain, "http_404"),
			fault("422", upstream.Fault{Status: 422}, checktest.SendRefused, "http_422"),
			fault("hang", upstream.Fault{Hang: true}, "", ""),
		},
		Secrets: []string{signingKey, apiToken},
	}
}

func TestSendAddresses(t *testing.T) {
	t.Parallel()
	h := party()
	h.Config = func(url string) json.RawMessage { return sendingConfig(url, false) }
	checktest.RunSendAddresses(t, h, poller.Outgoing{Peer: "anna", Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, "")
}
