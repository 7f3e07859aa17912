package imap

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/emersion/go-imap/v2"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/dovecottest"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
)

// What was accepted stands in Dovecot's folder of sent mail, once, and is found there.
func TestSentMailOnDovecot(t *testing.T) {
	server := dovecottest.Start(t)
	s := startSMTP(t, "none")
	c := sender(t, s)
	config := mailboxConfig(&imapd.Server{Port: server.Port}, s, "none", "me")
	text := textTo(config, "anna@example.org", `{"text":"你好","subject":"你好"}`)
	file := textTo(config, "anna@example.org", `{"file":"f","caption":"."}`)
	file.ID, file.Type, file.File = "00000000FILE", "file", fileOf(poller.File{Name: "x.bin"}, bytes.Repeat([]byte("\r\n.\n"), 50_000))
	for _, r := range []poller.SendRequest{text, file, text} {
		if _, err := c.Send(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if sent, found, err := c.Trace(t.Context(), r); err != nil || !found || sent.VendorID != r.ID+".rounds@example.com" {
			t.Errorf("%s: found %t as %+v, %v", r.ID, found, sent, err)
		}
	}
	kept, err := server.Mails("me", dovecottest.Sent)
	if err != nil || len(kept) != 2 {
		t.Fatalf("the folder has %d mails, %v", len(kept), err)
	}
	for i, m := range s.Mails("me")[:2] {
		given, own := readMailOf(t, m.Text), readMailOf(t, string(kept[i]))
		if given.text != own.text || !bytes.Equal(given.file, own.file) || given.header.Get("Message-Id") != own.header.Get("Message-Id") || given.header.Get("Date") != own.header.Get("Date") {
			t.Errorf("mail %d: the folder has another: %v, %v", i, own.header, given.header)
		}
	}
	if inbox, err := server.Mails("me", "INBOX"); err != nil || len(inbox) != 0 {
		t.Errorf("INBOX has %d mails, %v", len(inbox), err)
	}
}

// A mail is accepted whatever becomes of its append.
func TestAppendsThatFail(t *testing.T) {
	s, box := startSMTP(t, "none"), start(t, "none")
	config := mailboxConfig(box, s, "none", "me")
	c := sender(t, s)
	send := func(name string, found bool) {
		t.Helper()
		r := textTo(config, "a@b", `{"text":"x"}`)
		r.ID = name
		sent, err := c.Send(t.Context(), r)
		if warned := sent.Warning.Code == "not_in_sent"; err != nil || warned == (found || name == "NOFOLDER") {
			t.Errorf("%s: %+v, %v", name, sent, err)
		}
		box.Heal("me")
		if _, is, err := c.Trace(t.Context(), r); is != found || err != nil {
			t.Errorf("%s: found %t, %v", name, is, err)
		}
	}
	send("NOFOLDER", false)
	for _, folder := range []string{"Sent Items", "Archive.Sent", "sent", "Trash"} {
		box.Folder("me", folder)
	}
	send("KEPT", true)
	no := &imap.Error{Type: imap.StatusResponseTypeNo, Text: "no"}
	for name, f := range map[string]imapd.Fault{"NOLOGIN": {Login: no}, "NOSELECT": {Select: no}, "GARBAGE": {Search: "* GARBAGE\r\n"}} {
		box.Fail("me", f)
		send(name, false)
	}
}

// An account that is over its quota is checked as before. What it sends is accepted, and a warning says
// that the folder of sent mail does not have it.
func TestAQuotaOnDovecot(t *testing.T) {
	server := dovecottest.StartQuota(t, 1)
	if _, err := server.Deliver("me", []byte("Subject: one\r\n\r\nHello\r\n")); err != nil {
		t.Fatal(err)
	}
	s := startSMTP(t, "none")
	c := sender(t, s)
	config := mailboxConfig(&imapd.Server{Port: server.Port}, s, "none", "me")
	sent, err := c.Send(t.Context(), textTo(config, "anna@example.org", `{"text":"x"}`))
	if err != nil || sent.Warning.Code != "not_in_sent" || !strings.Contains(sent.Warning.Message, "OVERQUOTA") {
		t.Errorf("got %+v, %v", sent, err)
	}
	if n := len(s.Mails("me")); n != 1 {
		t.Errorf("the SMTP server took %d mails", n)
	}
	result, err := c.Check(t.Context(), poller.Request{Account: "me", Config: config})
	if err != nil || len(result.Messages) != 1 {
		t.Errorf("got %+v, %v", result, err)
	}
}

// Folders are known by their special use, and otherwise by their name.
func TestFoldersOfSentMail(t *testing.T) {
	for name, c := range map[string]struct{ caps, list, want string }{
		"special":            {" SPECIAL-USE", `* LIST (\Sent) "/" Other` + "\r\n" + `* LIST () "/" Sent` + "\r\n", "Other/"},
		"Gmail":              {" SPECIAL-USE", `* LIST (\All) "/" "[Gmail]/All Mail"` + "\r\n" + `* LIST (\Sent) "/" "[Gmail]/Sent Mail"` + "\r\n", "[Gmail]/Sent Mail/[Gmail]/All Mail"},
		"by name":            {"", `* LIST () "." "INBOX.Sent Items"` + "\r\n" + `* LIST () "." INBOX.Sent` + "\r\n" + `* LIST () "." "INBOX.Sent Messages"` + "\r\n", "INBOX.Sent/"},
		"in Chinese":         {"", `* LIST () "/" "&XfJT0ZAB-"` + "\r\n", "已发送/"},
		"only a parent":      {"", `* LIST (\Noselect) "/" Sent` + "\r\n", "/"},
		"none":               {"", `* LIST () "/" Sentinel` + "\r\n", "/"},
		"without a hierachy": {"", `* LIST () NIL Sent` + "\r\n", "Sent/"},
	} {
		var got string
		talk(t, "* OK [CAPABILITY IMAP4rev1"+c.caps+"] ready\r\n", map[string]string{
			"LOGIN": "{tag} OK [CAPABILITY IMAP4rev1" + c.caps + "] in\r\n", "EXAMINE": twoMails, "LIST": c.list + "{tag} OK done\r\n",
		}, func(port int) {
			config := fmt.Appendf(nil, `{"host":"127.0.0.1","port":%d,"tls":"none","user":"a","password":{"secret":"GOOD"}}`, port)
			checker := New(checktest.Client(t, fetch.Options{}), source(), Options{})
			read, err := checker.form.Read(config)
			if err != nil {
				t.Fatal(err)
			}
			session, err := checker.ownMail(t.Context(), "a", read)
			if err != nil {
				t.Fatal(err)
			}
			defer session.close()
			f, err := session.folders()
			if err != nil {
				t.Error(err)
			}
			got = f.sent + "/" + f.all
		})
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
