package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/graphd"
)

// sendingConfig is the config of an account that sends.
func sendingConfig(base string) json.RawMessage {
	return fmt.Appendf(nil, `{"oauth":{"secret":"T"},"base_url":%q,"from":"Support <support@example.com>"}`, base)
}

// taken returns what a mail says that was sent.
func taken(t *testing.T, raw string) (one checktest.Taken, d *email.Data) {
	t.Helper()
	d = email.Parse([]byte(raw[:min(len(raw), email.MaxRaw)]), int64(len(raw)))
	one.ID, _, _ = strings.Cut(d.MessageID, ".")
	if len(d.To) == 1 {
		one.Peer = d.To[0].Address
	}
	wanted, failed := email.SectionAt(poller.FileRequest{Message: &poller.Message{Data: d.Encode()}})
	if failed != nil {
		return one, d
	}
	content, err := wanted.In(strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if one.File, err = io.ReadAll(content); err != nil {
		t.Fatal(err)
	}
	return one, d
}

func TestSendSuite(t *testing.T) {
	text := func(peer, data string) poller.Outgoing {
		return poller.Outgoing{Peer: peer, Type: "text", Data: json.RawMessage(data)}
	}
	checktest.RunSends(t, checktest.SendKind{
		Start: startSendParty,
		Refused: []checktest.RefusedSend{
			{Send: text("anna@example.org", `{"text":" "}`), Field: "data"},
			{Send: text("anna@example.org", `{"text":"x","subject":"a\r\nBcc: `+checktest.Hidden+`"}`), Field: "data.subject"},
			{Send: text(checktest.Hidden, `{"text":"x"}`), Field: "to"},
			{Send: poller.Outgoing{Peer: "anna@example.org", Type: "file", Data: json.RawMessage(`{"file":"f"}`), File: &poller.File{Size: maxFile + 1}}, Field: "data.file"},
		},
	})
}

func startSendParty(t *testing.T) checktest.SendParty {
	g := start(t, graphd.Options{})
	client := checktest.Client(t, fetch.Options{})
	fault := func(name string, f graphd.Fault, end checktest.SendEnd, code string) checktest.SendFault {
		f.Step = "send"
		return checktest.SendFault{
			Name: name, End: end, Code: code, After: time.Duration(f.RetryAfter) * time.Second, Takes: f.Takes || f.Cut, Hangs: f.Hang,
			Break: func(account string) { g.Fail(account, f) },
		}
	}
	file := func(name, data string, size int64) checktest.ValidSend {
		return checktest.ValidSend{Send: poller.Outgoing{Peer: "anna@example.org", Type: name, Data: json.RawMessage(data)}, File: &poller.File{Name: "é \"你\".bin", Type: "image/png", Size: size}}
	}
	return checktest.SendParty{
		New:    func() poller.Sender { return New(client, issued{g}) },
		Config: func(string) json.RawMessage { return sendingConfig(g.URL()) },
		Closed: func(string) json.RawMessage { return sendingConfig("http://127.0.0.1:1") },
		Valid: []checktest.ValidSend{
			{Send: poller.Outgoing{Peer: "anna@example.org", Type: "text", Data: json.RawMessage(`{"text":"你好"}`)}},
			{Send: poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, Answers: &poller.Message{ID: "x", Data: json.RawMessage(`{"from":[{"address":"bob@example.net"}],"message_id":"1@example.net"}`)}},
			file("file", `{"file":"f","caption":"你好","subject":"s"}`, 300_001), file("image", `{"file":"f"}`, 1), file("video", `{"file":"f"}`, 57), file("voice", `{"file":"f"}`, 58),
		},
		Taken: func(account string) (all []checktest.Taken) {
			for _, raw := range g.Sent(account) {
				one, _ := taken(t, raw)
				all = append(all, one)
			}
			return all
		},
		Calls: g.Sends,
		Heal:  func(string) { g.Heal() },
		Faults: []checktest.SendFault{
			fault("cut", graphd.Fault{Cut: true}, checktest.SendUnknown, "reset"),
			fault("reset", graphd.Fault{Reset: true}, checktest.SendUnknown, "reset"),
			fault("500 after it", graphd.Fault{Status: 500, Code: "ErrorInternalServerError", Takes: true}, checktest.SendUnknown, "http_500"),
			fault("504 after it", graphd.Fault{Status: 504, Takes: true}, checktest.SendUnknown, "http_504"),
			fault("200 after it", graphd.Fault{Body: "{}", Takes: true}, checktest.SendUnknown, "http_200"),
			fault("429", graphd.Fault{Status: 429, Code: "ApplicationThrottled", RetryAfter: 7}, checktest.SendAgain, "http_429"),
			fault("400", graphd.Fault{Status: 400, Code: "ErrorMimeContentInvalid"}, checktest.SendRefused, "http_400"),
			fault("403", graphd.Fault{Status: 403, Code: "ErrorSendAsDenied"}, checktest.SendRefused, "graph_403"),
			fault("413", graphd.Fault{Status: 413, Code: "RequestEntityTooLarge"}, checktest.SendRefused, "size"),
			fault("hang", graphd.Fault{Hang: true}, "", ""),
		},
		Secrets: []string{g.Token("a")},
	}
}

// A send is in the thread of the mail that it answers, and has the account's address.
func TestAnAnswer(t *testing.T) {
	g := graphd.New(graphd.Options{})
	j := judging(t, g)
	c := New(fetch.New(fetch.Options{Transport: j}), issued{g})
	g.Deliver("a", "Message-ID: <2@example.org>\r\nReferences: <1@example.org>\r\nFrom: Anna <anna@example.org>\r\nSubject: 你好\r\n\r\nx")
	result := check(t, c, nil, 10)
	config := sendingConfig("https://graph.microsoft.com")
	out := poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"yes"}`)}
	if err := c.PrepareSend(config, &out, &result.Messages[0]); err != nil || out.Peer != "anna@example.org" {
		t.Fatalf("%+v, %v", out, err)
	}
	sent, err := c.Send(t.Context(), poller.SendRequest{Account: "a", Config: config, ID: "s1", Peer: out.Peer, Type: out.Type, Data: out.Data})
	if err != nil || sent.VendorID != "s1.rounds@example.com" || len(g.Sent("a")) != 1 {
		t.Fatalf("%+v, %v", sent, err)
	}
	_, d := taken(t, g.Sent("a")[0])
	if d.MessageID != sent.VendorID || d.InReplyTo != "2@example.org" || strings.Join(d.References, " ") != "1@example.org 2@example.org" || d.From[0] != (email.Address{Name: "Support", Address: "support@example.com"}) || !strings.Contains(d.Subject, "你好") || strings.TrimSpace(d.Text) != "yes" {
		t.Errorf("got %+v", d)
	}
}

// A refused access token is replaced before the mail is sent, and a sign-in that is refused may be signed
// in again.
func TestSendWithARefusedToken(t *testing.T) {
	g := graphd.New(graphd.Options{})
	c := near(g)
	r := poller.SendRequest{Account: "a", Config: sendingConfig("https://graph.microsoft.com"), ID: "s1", Peer: "anna@example.org", Type: "text", Data: json.RawMessage(`{"text":"x"}`)}
	g.Fail("a", graphd.Fault{Step: "send", Times: 1, Status: 401, Code: "InvalidAuthenticationToken"})
	if _, err := c.Send(t.Context(), r); err != nil || len(g.Sent("a")) != 1 {
		t.Errorf("%d sent, %v", len(g.Sent("a")), err)
	}
	g.Fail("a", graphd.Fault{Step: "send", Status: 401, Code: "InvalidAuthenticationToken"})
	_, err := c.Send(t.Context(), r)
	if failed, ok := errors.AsType[*poller.SendError](err); !ok || failed.Final || failed.Unsent || !failed.Account || failed.Code != codeToken {
		t.Errorf("got %+v", err)
	}
	if len(g.Sent("a")) != 1 {
		t.Errorf("%d sent", len(g.Sent("a")))
	}
}

// A file of the most bytes that are taken fits into what Graph takes, with everything that may be beside it.
func TestTheLargestFile(t *testing.T) {
	g := graphd.New(graphd.Options{})
	c := near(g)
	data := bytes.Repeat([]byte("x"), maxFile)
	caption := strings.Repeat("你", 4096)
	var references []string
	for n := range 20 {
		references = append(references, fmt.Sprint(n, strings.Repeat("r", 240)))
	}
	text, _ := json.Marshal(map[string]any{"file": "f", "caption": caption, "subject": strings.Repeat("é", 450), "references": references})
	_, err := c.Send(t.Context(), poller.SendRequest{
		Account: "a", Config: sendingConfig("https://graph.microsoft.com"), ID: "s1", Peer: "anna@example.org", Type: "file", Data: text,
		File: &poller.SendFile{File: poller.File{Size: maxFile}, Open: func(_ context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }},
	})
	if err != nil || len(g.Sent("a")) != 1 {
		t.Fatalf("%d sent, %v", len(g.Sent("a")), err)
	}
	if one, _ := taken(t, g.Sent("a")[0]); !bytes.Equal(one.File, data) {
		t.Errorf("%d bytes", len(one.File))
	}
}

// A mail whose end is unknown is found in Sent Items, if Graph has it.
func TestTrace(t *testing.T) {
	g := graphd.New(graphd.Options{})
	j := judging(t, g)
	c := New(fetch.New(fetch.Options{Transport: j}), issued{g})
	r := poller.SendRequest{Account: "a", Config: sendingConfig("https://graph.microsoft.com"), ID: "s1", Peer: "anna@example.org", Type: "text", Data: json.RawMessage(`{"text":"x"}`)}
	if _, found, err := c.Trace(t.Context(), r); found || err != nil {
		t.Errorf("before: found %t, %v", found, err)
	}
	g.Fail("a", graphd.Fault{Step: "send", Times: 1, Takes: true, Status: 504})
	if _, err := c.Send(t.Context(), r); err == nil {
		t.Error("the end is known")
	}
	if sent, found, err := c.Trace(t.Context(), r); !found || err != nil || sent.VendorID != "s1.rounds@example.com" {
		t.Errorf("after: found %t, %+v, %v", found, sent, err)
	}
	g.Fail("a", graphd.Fault{Step: "list", Status: 503, Code: "x"})
	if _, found, err := c.Trace(t.Context(), r); found || err == nil {
		t.Errorf("away: found %t, %v", found, err)
	}
}
