package imap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/dovecottest"
	"github.com/rounds-dev/rounds/testing/eximtest"
)

// An account sends through Exim, and its mailbox at Dovecot gets what Exim delivers: an answer that
// stays in its thread, a file, and a bounce, which says which send has failed.
func TestExim(t *testing.T) {
	exim, dovecot := eximtest.Start(t), dovecottest.Start(t)
	c := New(checktest.Client(t, fetch.Options{}), source(), Options{Roots: exim.Roots})
	config := func(secret string) json.RawMessage {
		return fmt.Appendf(nil, `{"host":"127.0.0.1","port":%d,"tls":"none","user":"me@example.net","password":{"secret":%q},"smtp":{"host":"127.0.0.1","port":%d,"tls":"starttls"}}`,
			dovecot.Port, secret, exim.Port)
	}
	send := func(id, secret, peer, data string, file []byte) error {
		r := textTo(config(secret), peer, data)
		if r.ID = id; file != nil {
			r.Type, r.File = "file", fileOf(poller.File{Name: "发票.pdf", Type: "application/pdf"}, file)
		}
		sent, err := c.Send(t.Context(), r)
		if err == nil && sent.VendorID != id+".rounds@example.net" {
			t.Errorf("%s: got %+v", id, sent)
		}
		return err
	}
	content := bytes.Repeat([]byte("\r\n.\r\n\x00."), 100_000)
	for name, err := range map[string]error{
		"a text": send("0000000000TEXT", "GOOD", "anna@example.net", `{"text":".\n你好\n","subject":"你好","in_reply_to":"1@x","references":["1@x"]}`, nil),
		"a file": send("0000000000FILE", "GOOD", "anna@example.net", `{"file":"f"}`, content),
		"gone":   send("0000000000GONE", "GOOD", eximtest.Gone, `{"text":"x"}`, nil),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, err := range map[string]error{
		"smtp_550 true false": send("00000000NOBODY", "GOOD", eximtest.Nobody, `{"text":"x"}`, nil),
		"smtp_535 false true": send("000000000LOGIN", "WRONG", "anna@example.net", `{"text":"x"}`, nil),
	} {
		known, ok := errors.AsType[*poller.SendError](err)
		if !ok || fmt.Sprint(known.Code, " ", known.Final, " ", known.Account) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}

	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	mails, err := exim.Await(within, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dovecot.Deliver("me@example.net", mails...); err != nil {
		t.Fatal(err)
	}
	result, err := c.Check(t.Context(), poller.Request{Account: "a", Config: config("GOOD")})
	if want := []poller.FailedSend{{ID: "0000000000GONE", Code: "5.0.0"}}; err != nil || len(result.Messages) != 3 || !slices.Equal(result.FailedSends, want) {
		t.Fatalf("got %v, %+v, %v; want %+v", ids(result), result.FailedSends, err, want)
	}
	for _, raw := range mails {
		if _, bounce := email.ReadBounce(raw); bounce {
			continue
		}
		switch one := readMailOf(t, string(raw)); one.header.Get("Message-Id") {
		case "<0000000000TEXT.rounds@example.net>":
			if one.text != ".\r\n你好\r\n" || one.header.Get("In-Reply-To") != "<1@x>" {
				t.Errorf("the text is %q", one.text)
			}
		case "<0000000000FILE.rounds@example.net>":
			if one.name != "发票.pdf" || !bytes.Equal(one.file, content) {
				t.Errorf("the file %q has %d bytes", one.name, len(one.file))
			}
		default:
			t.Errorf("got another mail: %v", one.header)
		}
	}
}
