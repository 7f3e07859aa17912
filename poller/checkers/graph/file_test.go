package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/mailtest"
	"github.com/rounds-dev/rounds/testing/upstream/graphd"
)

func startFileParty(t *testing.T, encoding string) checktest.FileParty {
	g := start(t, graphd.Options{})
	checker := newChecker(t, g)
	fault := func(name string, f graphd.Fault, kind poller.ErrorKind, code string) checktest.FileFault {
		f.Step = "value"
		return checktest.FileFault{Name: name, Kind: kind, Code: code, Cuts: f.Cut, Hangs: f.Hang, Endless: f.Endless, Break: func(account string) { g.Fail(account, f) }}
	}
	return checktest.FileParty{
		New:    func() poller.FileKeeper { return checker },
		Config: func(string) json.RawMessage { return configOf(g.URL()) },
		Post: func(account string, data []byte) poller.Message {
			mail := mailtest.Head + mailtest.Multipart("x", mailtest.Text, mailtest.Attachment("plan.pdf", encoding, data))
			// As if all of it had been read: the suite wants one file.
			return poller.Message{ID: g.Deliver(account, mail), Type: "mail", Data: email.Parse([]byte(mail[:min(len(mail), email.MaxRaw)]), 1).Encode()}
		},
		Heal:   func(string) { g.Heal() },
		Forget: func(account string, m poller.Message) { g.Delete(account, m.ID) },
		Faults: []checktest.FileFault{
			fault("401", graphd.Fault{Status: 401, Code: "InvalidAuthenticationToken"}, poller.AuthFailed, "graph_401"),
			fault("429", graphd.Fault{Status: 429, RetryAfter: 3}, poller.RateLimited, "http_429"),
			fault("503", graphd.Fault{Status: 503}, poller.Transient, "http_503"),
			fault("404 of a gateway", graphd.Fault{Status: 404}, poller.Transient, "http_404"),
			fault("no mail", graphd.Fault{Body: "<html>"}, poller.Protocol, "protocol"),
			fault("another mail", graphd.Fault{Body: "Subject: x\r\n\r\n"}, poller.Gone, "no_part"),
			fault("half a mail", graphd.Fault{Body: mailtest.Head + "Content-Type: multipart/mixed; boundary=x\r\n\r\n"}, poller.Protocol, "protocol"),
			fault("reset", graphd.Fault{Reset: true}, poller.Transient, "reset"),
			fault("cut", graphd.Fault{Cut: true}, poller.Transient, "reset"),
			fault("hang", graphd.Fault{Hang: true}, "", ""),
			fault("endless", graphd.Fault{Endless: true, Body: mailtest.Head + "Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\n--x\r\n\r\n"}, "", ""),
		},
		Secrets: []string{g.Token("a"), g.Token("many1")},
	}
}

func TestFileSuite(t *testing.T) {
	for _, encoding := range []string{"base64", "quoted-printable"} {
		t.Run(encoding, func(t *testing.T) {
			checktest.RunFiles(t, checktest.FileKind{Start: func(t *testing.T) checktest.FileParty { return startFileParty(t, encoding) }})
		})
	}
}

// The files of a mail come as they do over IMAP, at whatever depth, and so does the mail itself.
func TestFilesOfAMail(t *testing.T) {
	g := start(t, graphd.Options{})
	mail, want := mailtest.Nested()
	g.Deliver("a", mail)
	c := newChecker(t, g)
	result, err := c.Check(t.Context(), poller.Request{Account: "a", Config: configOf(g.URL())})
	if err != nil || len(result.Messages) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	m := &result.Messages[0]
	files := c.Files(m)
	if len(files) != len(want) {
		t.Errorf("%d files: %+v", len(files), files)
	}
	for n, file := range files {
		name := file.Name
		if name == "" {
			name = fmt.Sprint(file.Type, " ", n+1)
		}
		body, err := c.FetchFile(t.Context(), poller.FileRequest{Account: "a", Config: configOf(g.URL()), Message: m, File: n})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(body)
		if err := errors.Join(err, body.Close()); err != nil || !bytes.Equal(got, want[name]) {
			t.Errorf("%s: %d bytes, want %d, %v: %.60q", name, len(got), len(want[name]), err, got)
		}
	}
}

func FuzzFiles(f *testing.F) {
	mail, _ := mailtest.Nested()
	f.Add([]byte(email.Parse([]byte(mail[:email.MaxRaw]), 0).Encode()))
	f.Add([]byte(`{"attachments":[{"part":"1.2","type":"a/b"}],"size":0}`))
	c := New(fetch.New(fetch.Options{}), stored{})
	f.Fuzz(func(t *testing.T, data []byte) { checktest.JudgeFiles(t, c, &poller.Message{ID: "x", Data: data}) })
}
