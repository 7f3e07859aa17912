package imap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/smtpd"
)

// textTo is the first attempt of a text.
func textTo(config json.RawMessage, peer, data string) poller.SendRequest {
	return poller.SendRequest{Account: "a", Config: config, ID: "00000000SEND", Attempt: 1, Peer: peer, Type: "text", Data: json.RawMessage(data)}
}

// foundMail is a mail as a check finds it.
func foundMail(raw string) *poller.Message {
	return &poller.Message{ID: "1:1", Data: email.Parse([]byte(raw), int64(len(raw))).Encode()}
}

func TestAnAnswerStaysInItsThread(t *testing.T) {
	s := startSMTP(t, "none")
	c := sender(t, s)
	config := sendingConfig(s, "none", "me")
	out := poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"Hallo\nWelt"}`)}
	mail := "From: =?utf-8?b?5L2g5aW9?= <Anna@Bücher.example>\r\nReply-To: <desk@bücher.example>\r\nSubject: =?utf-8?b?5L2g5aW9?=\r\n" +
		"Message-ID: <3@x.example>\r\nIn-Reply-To: <2@x.example>\r\nReferences: <1@x.example>\r\n <2@x.example>\r\n\r\nx\r\n"
	if err := c.PrepareSend(config, &out, foundMail(mail)); err != nil || out.Peer != "desk@bücher.example" {
		t.Fatalf("prepared %+v, %v", out, err)
	}
	sent, err := c.Send(t.Context(), textTo(config, out.Peer, string(out.Data)))
	if err != nil || sent.VendorID != "00000000SEND.rounds@example.com" {
		t.Fatalf("got %+v, %v", sent, err)
	}
	m := s.Mails("me")[0]
	one := readMailOf(t, m.Text)
	subject, _ := new(mime.WordDecoder).DecodeHeader(one.header.Get("Subject"))
	got := []string{
		m.From, m.To, m.Parameters, one.text, subject, one.header.Get("From"), one.header.Get("To"), one.header.Get("Message-Id"),
		one.header.Get("In-Reply-To"), one.header.Get("References"),
	}
	want := []string{
		"me@example.com", "desk@xn--bcher-kva.example", fmt.Sprintf("BODY=8BITMIME SIZE=%d RET=HDRS ENVID=00000000SEND", len(m.Text)), "Hallo\r\nWelt\r\n", "Re: 你好", "<me@example.com>", "<desk@xn--bcher-kva.example>",
		"<00000000SEND.rounds@example.com>", "<3@x.example>", "<1@x.example> <2@x.example> <3@x.example>",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	if _, err := one.header.Date(); err != nil {
		t.Error(err)
	}
}

// Own mail may be found too, and must not be answered to oneself for ever.
func TestOwnMailIsAnsweredOnlyByName(t *testing.T) {
	c := New(checktest.Client(t, fetch.Options{}), source(), Options{})
	config := sendingConfig(&smtpd.Server{Port: 1}, "none", "me")
	own := foundMail("From: Me <ME@example.com>\r\n\r\nx")
	out := poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"t"}`)}
	if err := c.PrepareSend(config, &out, own); err == nil || !strings.HasPrefix(err.Error(), "reply_to: ") {
		t.Errorf("got %v", err)
	}
	out.Peer = "me@example.com"
	if err := c.PrepareSend(config, &out, own); err != nil {
		t.Error(err)
	}
}

func TestAddressesBeyondASCII(t *testing.T) {
	s := startSMTP(t, "none")
	c := sender(t, s)
	config := sendingConfig(s, "none", "me")
	_, err := c.Send(t.Context(), textTo(config, "用户@例子.example", `{"text":"x"}`))
	if known, ok := errors.AsType[*poller.SendError](err); !ok || !known.Final || known.Code != "smtputf8" || s.Calls() != 0 {
		t.Errorf("not offered: got %v after %d calls", err, s.Calls())
	}
	s = startSMTP(t, "none")
	s.Offer = append(s.Offer, "SMTPUTF8")
	if _, err := c.Send(t.Context(), textTo(sendingConfig(s, "none", "me"), "用户@例子.example", `{"text":"x"}`)); err != nil {
		t.Fatal(err)
	}
	if m := s.Mails("me")[0]; m.To != "用户@xn--fsqu00a.example" || !strings.HasSuffix(m.Parameters, "SMTPUTF8 RET=HDRS ENVID=00000000SEND") || !strings.Contains(m.Text, "\r\nTo: <用户@xn--fsqu00a.example>\r\n") {
		t.Errorf("got %+v", m)
	}
}

// fileOf is the file of a send.
func fileOf(f poller.File, data []byte) *poller.SendFile {
	f.Size = int64(len(data))
	return &poller.SendFile{File: f, Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// A file goes as an attachment, under its name and type.
func TestFiles(t *testing.T) {
	s := startSMTP(t, "none")
	c := sender(t, s)
	for given, want := range map[poller.File]string{
		{Name: "发票 1.pdf", Type: "application/pdf"}:                         "发票 1.pdf application/pdf",
		{Name: "a.txt", Type: "text/plain; charset=gbk"}:                    "a.txt text/plain",
		{Name: "forwarded.eml", Type: "message/rfc822"}:                     "forwarded.eml application/octet-stream",
		{Name: "x", Type: "multipart/mixed"}:                                "x application/octet-stream",
		{Name: "x", Type: "nonsense"}:                                       "x application/octet-stream",
		{Type: "image/png"}:                                                 "file.png image/png",
		{Name: strings.Repeat("长", 80) + ".png", Type: "image/png"}:         strings.Repeat("长", 80) + ".png image/png",
		{Name: "a\"; filename=b\\.png", Type: "image/png; name=\"x\r\ny\""}: "a\"; filename=b\\.png application/octet-stream",
	} {
		r := textTo(sendingConfig(s, "none", "me"), "a@b", `{"file":"f"}`)
		r.Type, r.File = "file", fileOf(given, []byte("abc"))
		if _, err := c.Send(t.Context(), r); err != nil {
			t.Errorf("%+v: %v", given, err)
			continue
		}
		all := s.Mails("me")
		if got := readMailOf(t, all[len(all)-1].Text); got.name+" "+got.kind != want || string(got.file) != "abc" || got.text != "" {
			t.Errorf("%+v: got %+v", given, got)
		}
	}
}

// A server may name the most that it takes, and hang up before a long mail has ended. It then has no
// mail.
func TestMailThatDoesNotFit(t *testing.T) {
	s := startSMTP(t, "none")
	c := sender(t, s)
	r := textTo(sendingConfig(s, "none", "me"), "a@b", `{"file":"f"}`)
	r.Type, r.File = "file", fileOf(poller.File{Name: "x"}, make([]byte, 40<<20))
	_, err := c.Send(t.Context(), r)
	if known, ok := errors.AsType[*poller.SendError](err); !ok || !known.Final || known.Code != "size" || s.Calls() != 0 {
		t.Errorf("got %v after %d calls", err, s.Calls())
	}
	s.Fail("me", smtpd.Fault{Step: smtpd.Within})
	r.File = fileOf(poller.File{Name: "x"}, make([]byte, 20<<20))
	_, err = c.Send(t.Context(), r)
	if known, ok := errors.AsType[*poller.SendError](err); !ok || known.Final || known.Unsent || known.Code != "reset" || s.Calls() != 1 {
		t.Errorf("got %v after %d calls", err, s.Calls())
	}
}

// What a server does not offer, and what it says before it was told of a mail, is no fault of the mail.
func TestServersThatTakeNoMail(t *testing.T) {
	for name, c := range map[string]struct {
		encryption, config string // of the server, and of the account
		logins             string
		fault              *smtpd.Fault
		want               string // code, and whether the account is checked
	}{
		"no STARTTLS":        {"none", "starttls", "PLAIN", nil, "starttls false"},
		"TLS to a plain one": {"none", "implicit", "PLAIN", nil, "tls false"},
		"another login":      {"none", "none", "XOAUTH2", nil, "login false"},
		"no logins":          {"none", "none", "", nil, ""},
		"no service":         {"none", "none", "PLAIN", &smtpd.Fault{Step: smtpd.Greeting, Reply: "554 5.3.2 x"}, "smtp_554 false"},
		"no EHLO":            {"none", "none", "PLAIN", &smtpd.Fault{Step: smtpd.Hello, Reply: "550 x"}, "smtp_550 false"},
		"a web server":       {"starttls", "starttls", "PLAIN", &smtpd.Fault{Step: smtpd.Greeting, Reply: "HTTP/1.1 400 Bad Request"}, "protocol false"},
		"away":               {"none", "none", "PLAIN", &smtpd.Fault{Step: smtpd.Greeting}, "reset false"},
		"a wrong password":   {"none", "none", "PLAIN", &smtpd.Fault{Step: smtpd.Login, Reply: "535 x"}, "smtp_535 true"},
		"a login before":     {"none", "none", "PLAIN", &smtpd.Fault{Step: smtpd.Sender, Reply: "530 5.7.0 x"}, "smtp_530 true"},
	} {
		s := startSMTP(t, c.encryption)
		s.Logins = c.logins
		if f := c.fault; f != nil {
			s.Fail(map[bool]string{true: "me"}[f.Step == smtpd.Login || f.Step == smtpd.Sender], *f)
		}
		_, err := sender(t, s).Send(t.Context(), textTo(sendingConfig(s, c.config, "me"), "a@b", `{"text":"x"}`))
		got := ""
		if known, ok := errors.AsType[*poller.SendError](err); ok {
			got = fmt.Sprint(known.Code, " ", known.Account)
			if !known.Unsent || known.Final {
				t.Errorf("%s: unsent %t, final %t", name, known.Unsent, known.Final)
			}
		} else if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q: %v", name, got, c.want, err)
		}
	}
}

// The password goes only to servers that its binding names.
func TestThePasswordIsBoundToTheServer(t *testing.T) {
	s := startSMTP(t, "implicit")
	for hosts, allowed := range map[string]bool{"127.0.0.1:1": false, fmt.Sprint("127.0.0.1:", s.Port): true} {
		values := map[string]string{secrets.EnvPrefix + "GOOD": smtpd.Password, secrets.BindingEnvPrefix + "GOOD": "hosts=" + hosts}
		source := secrets.Source{Lookup: func(name string) (string, bool) { v, ok := values[name]; return v, ok }}
		c := New(checktest.Client(t, fetch.Options{}), source, Options{Roots: s.Roots})
		_, err := c.Send(t.Context(), textTo(sendingConfig(s, "implicit", "me"), "a@b", `{"text":"x"}`))
		if known, ok := errors.AsType[*poller.SendError](err); (err == nil) != allowed || err != nil && (!ok || !known.Unsent) {
			t.Errorf("%s: %v", hosts, err)
		}
	}
	if n := len(s.Mails("me")); n != 1 {
		t.Errorf("the server has %d mails", n)
	}
}

func TestConfigOfSending(t *testing.T) {
	c := New(checktest.Client(t, fetch.Options{}), source(), Options{})
	for more, want := range map[string]string{
		`"user":"me@example.com"`:                                                                               "cannot send",
		`"user":"me@example.com","smtp":{"host":"smtp.example.com"}`:                                            "me@example.com smtp.example.com:465",
		`"user":"me@example.com","smtp":{"host":"smtp.example.com","tls":"starttls"}`:                           "me@example.com smtp.example.com:587",
		`"user":"me","smtp":{"host":"SMTP.例子.example.","port":2525},"from":"Büro <büro@例子.example>"`:            "büro@xn--fsqu00a.example smtp.xn--fsqu00a.example:2525",
		`"user":"me","smtp":{"host":"smtp.example.com"}`:                                                        "config.from",
		`"user":"me","smtp":{"host":"smtp.example.com"},"from":"nobody"`:                                        "config.from",
		`"user":"me","smtp":{"host":"smtp.example.com"},"from":"a@b, c@d"`:                                      "config.from",
		`"user":"me@example.com","smtp":"smtp.example.com"`:                                                     "config.smtp",
		`"user":"me@example.com","smtp":{}`:                                                                     "config.smtp.host",
		`"user":"me@example.com","smtp":{"host":"smtp.example.com:25"}`:                                         "config.smtp.host",
		`"user":"me@example.com","smtp":{"host":"10.0.0.1"}`:                                                    "config.smtp.host",
		`"user":"me@example.com","smtp":{"host":"smtp.example.com","tls":"ssl"}`:                                "config.smtp.tls",
		`"user":"me@example.com","smtp":{"host":"smtp.example.com","port":0}`:                                   "config.smtp.port",
		`"user":"me@example.com","smtp":{"host":"smtp.example.com","user":"` + checktest.Hidden + `"}`:          "config.smtp.user",
		`"user":"me@example.com","smtp":{"host":"smtp.example.com"},"from":"` + checktest.Hidden + `\n <a@b>"}`: "config",
	} {
		raw := `{"host":"imap.example.com","password":{"secret":"GOOD"},` + more + `}`
		read, err := c.form.Read(json.RawMessage(raw))
		var got string
		switch {
		case err != nil:
			got, _, _ = strings.Cut(err.Error(), ": ")
		case len(c.Sending(json.RawMessage(raw)).Types) == 0:
			got = "cannot send"
		default:
			got = fmt.Sprintf("%s %s:%d", read.from.Address, read.smtp.host, read.smtp.port)
		}
		if got != want || err != nil && strings.Contains(err.Error(), checktest.Hidden) {
			t.Errorf("%s: got %q, want %q: %v", more, got, want, err)
		}
	}
}
