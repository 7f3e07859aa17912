package imap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/emersion/go-imap/v2"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/dovecottest"
	"github.com/rounds-dev/rounds/testing/mailtest"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
)

func startFileParty(t *testing.T, encoding string) checktest.FileParty {
	s := start(t, "none")
	checker := newChecker(t, s)
	posted := make(map[string]int)
	config := func(account string) json.RawMessage { return configOf(s, "none", account, "GOOD") }
	fault := func(name string, f imapd.Fault, kind poller.ErrorKind, code string) checktest.FileFault {
		return checktest.FileFault{Name: name, Break: func(account string) { s.Fail(account, f) }, Kind: kind, Code: code, Hangs: f.Hang != "", Cuts: f.CutBody, Endless: f.Bytes > 1<<30}
	}
	return checktest.FileParty{
		New:    func() poller.FileKeeper { return checker },
		Config: config,
		Post: func(account string, data []byte) poller.Message {
			// The file stands before the text, so that all of its mail's parts are read if it is small.
			s.Deliver(account, mailtest.Head+mailtest.Multipart("x", mailtest.Attachment("plan.pdf", encoding, data)))
			posted[account]++
			r, err := checker.Check(t.Context(), poller.Request{Account: account, Config: config(account), Cursor: cursor{1, uint32(posted[account] - 1)}.encode(), Limit: 1})
			if err != nil || len(r.Messages) != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
			return withoutMail(r.Messages[0])
		},
		Heal: s.Heal,
		Forget: func(account string, m poller.Message) {
			at, _ := parseCursor([]byte(m.ID))
			if err := s.Expunge(account, at.last); err != nil {
				t.Error(err)
			}
		},
		Faults: []checktest.FileFault{
			fault("login", imapd.Fault{Login: &imap.Error{Type: imap.StatusResponseTypeNo, Text: "no: " + imapd.Password}}, poller.AuthFailed, "imap_no"),
			fault("garbage", imapd.Fault{Fetch: "* 1 FETCH (UID x " + checktest.Hidden + "\r\n"}, poller.Protocol, "protocol"),
			fault("reset", imapd.Fault{Cut: true}, poller.Transient, "reset"),
			fault("cut", imapd.Fault{CutBody: true}, poller.Transient, "reset"),
			fault("hang", imapd.Fault{Hang: "fetch"}, "", ""),
			fault("endless", imapd.Fault{Bytes: 1 << 32}, "", ""),
		},
		Secrets: []string{imapd.Password},
	}
}

// withoutMail returns a message that says that it was read whole: the suite wants one file.
func withoutMail(m poller.Message) poller.Message {
	var d map[string]any
	if json.Unmarshal(m.Data, &d) == nil {
		d["size"] = 1
		m.Data, _ = json.Marshal(d)
	}
	return m
}

func TestFileSuite(t *testing.T) {
	for _, encoding := range []string{"base64", "quoted-printable"} {
		t.Run(encoding, func(t *testing.T) {
			checktest.RunFiles(t, checktest.FileKind{Start: func(t *testing.T) checktest.FileParty { return startFileParty(t, encoding) }})
		})
	}
}

// Parts are counted as servers count them, and a mail that was not read whole is a file too.
func filesOfANestedMail(t *testing.T, checker *Checker, config json.RawMessage) {
	t.Helper()
	result, err := checker.Check(t.Context(), poller.Request{Config: config})
	if err != nil || len(result.Messages) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	m := &result.Messages[0]
	_, want := mailtest.Nested()
	files := checker.Files(m)
	if len(files) != len(want) {
		t.Errorf("%d files: %+v\n%s", len(files), files, m.Data)
	}
	for n, file := range files {
		name := file.Name
		if name == "" {
			name = fmt.Sprint(file.Type, " ", n+1)
		}
		body, err := checker.FetchFile(t.Context(), poller.FileRequest{Config: config, Message: m, File: n})
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

func TestFilesOfAMail(t *testing.T) {
	s := start(t, "none")
	mail, _ := mailtest.Nested()
	s.Deliver("a", mail)
	filesOfANestedMail(t, newChecker(t, s), configOf(s, "none", "a", "GOOD"))
}

func TestFilesFromDovecot(t *testing.T) {
	server := dovecottest.Start(t)
	mail, _ := mailtest.Nested()
	if _, err := server.Deliver("nested", []byte(mail)); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Deliver("single", []byte(mailtest.Head+mailtest.Attachment("single.pdf", "base64", []byte("single")))); err != nil {
		t.Fatal(err)
	}
	checker := New(checktest.Client(t, fetch.Options{}), source(), Options{})
	filesOfANestedMail(t, checker, dovecotConfig(server, "nested", "GOOD", "INBOX"))
	config := dovecotConfig(server, "single", "GOOD", "INBOX")
	result, err := checker.Check(t.Context(), poller.Request{Config: config})
	if err != nil || len(result.Messages) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	body, err := checker.FetchFile(t.Context(), poller.FileRequest{Config: config, Message: &result.Messages[0]})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil || string(got) != "single" {
		t.Errorf("%q, %v", got, err)
	}
}

// Under another UIDVALIDITY a UID is another mail's.
func TestFilesOfARecreatedMailbox(t *testing.T) {
	s := start(t, "none")
	checker, config := newChecker(t, s), configOf(s, "none", "a", "GOOD")
	mail, _ := mailtest.Nested()
	s.Deliver("a", mail)
	result, err := checker.Check(t.Context(), poller.Request{Config: config})
	if err != nil || len(result.Messages) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	if err := s.Recreate("a"); err != nil {
		t.Fatal(err)
	}
	s.Deliver("a", mail)
	_, err = checker.FetchFile(t.Context(), poller.FileRequest{Config: config, Message: &result.Messages[0]})
	if failed := checktest.Failure(t, err); failed.Kind != poller.Gone || failed.Code != "uidvalidity" {
		t.Errorf("%v", err)
	}
}

func FuzzFiles(f *testing.F) {
	mail, _ := mailtest.Nested()
	f.Add([]byte(email.Parse([]byte(mail[:maxRaw]), int64(len(mail))).Encode()))
	for _, seed := range []string{`{"attachments":[{"part":"1.2","type":"a/b"}],"size":9999999}`, `{"attachments":{}}`, `{`} {
		f.Add([]byte(seed))
	}
	c := New(fetch.New(fetch.Options{}), source(), Options{})
	f.Fuzz(func(t *testing.T, data []byte) { checktest.JudgeFiles(t, c, &poller.Message{ID: "1:1", Data: data}) })
}
