package imap

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/dovecottest"
)

// mails returns the mails in testdata, and what people read in them.
func mails(tb testing.TB) (mails map[string][]byte, want map[string]data) {
	tb.Helper()
	raw, err := os.ReadFile("testdata/mails/want.json")
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		tb.Fatal(err)
	}
	files, err := filepath.Glob("testdata/mails/*.eml")
	if err != nil || len(files) != len(want) {
		tb.Fatalf("%d files, %d wanted: %v", len(files), len(want), err)
	}
	mails = make(map[string][]byte)
	for _, file := range files {
		if mails[strings.TrimSuffix(filepath.Base(file), ".eml")], err = os.ReadFile(file); err != nil {
			tb.Fatal(err)
		}
	}
	return mails, want
}

// judge compares what people read in a mail.
func judge(t *testing.T, name string, raw json.RawMessage, want data) {
	t.Helper()
	var got data
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	read := data{Subject: got.Subject, From: got.From, Text: got.Text, TextType: got.TextType, HTML: got.HTML, References: got.References, Attachments: got.Attachments, Damaged: got.Damaged}
	if want.To != nil {
		read.To = got.To
	}
	if !reflect.DeepEqual(read, want) || got.Truncated {
		t.Errorf("%s:\ngot  %+v\nwant %+v", name, read, want)
	}
}

// Mails as QQ, NetEase, Outlook and broken software write them.
func TestMails(t *testing.T) {
	all, want := mails(t)
	for name, mail := range all {
		judge(t, name, parse(mail, int64(len(mail))).fit(), want[name])
	}
}

func dovecotConfig(s *dovecottest.Server, account, secret, mailbox string) json.RawMessage {
	return fmt.Appendf(nil, `{"host":"127.0.0.1","port":%d,"tls":"none","user":%q,"password":{"secret":%q},"mailbox":%q}`, s.Port, account, secret, mailbox)
}

// The same mails come from a real server.
func TestDovecot(t *testing.T) {
	server := dovecottest.Start(t)
	checker := New(checktest.Client(t, fetch.Options{UserAgent: "rounds/1.2.3 (test)"}), source(), Options{})
	all, want := mails(t)
	for name, mail := range all {
		validity, err := server.Deliver(name, mail)
		if err != nil {
			t.Fatal(err)
		}
		result, err := checker.Check(t.Context(), poller.Request{Config: dovecotConfig(server, name, "GOOD", "INBOX")})
		if err != nil || len(result.Messages) != 1 || result.Messages[0].ID != string(cursor{validity, 1}.encode()) {
			t.Fatalf("%s: got %+v, %v", name, result, err)
		}
		judge(t, name, result.Messages[0].Data, want[name])
	}
}
