package imap

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/quotedprintable"
	"strings"
	"testing"

	"github.com/emersion/go-imap/v2"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/dovecottest"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
)

// wrapped returns the base64 of bytes, in lines.
func wrapped(data []byte) string {
	var out strings.Builder
	for text := base64.StdEncoding.EncodeToString(data); text != ""; {
		n := min(76, len(text))
		out.WriteString(text[:n] + "\r\n")
		text = text[n:]
	}
	return out.String()
}

// attachmentPart returns a part of a mail, with one of the three encodings.
func attachmentPart(name, encoding string, data []byte) string {
	head := "Content-Type: application/pdf\r\nContent-Disposition: attachment; filename=" + name + "\r\nContent-Transfer-Encoding: " + encoding + "\r\n\r\n"
	switch encoding {
	case "base64":
		return head + wrapped(data)
	case "quoted-printable":
		var out bytes.Buffer
		w := quotedprintable.NewWriter(&out)
		w.Binary = true
		_, _ = w.Write(data)
		_ = w.Close()
		return head + out.String()
	}
	return head + string(data)
}

// multipart returns a part of parts.
func multipart(boundary string, parts ...string) string {
	return "Content-Type: multipart/mixed; boundary=" + boundary + "\r\n\r\n--" + boundary + "\r\n" + strings.Join(parts, "\r\n--"+boundary+"\r\n") + "\r\n--" + boundary + "--\r\n"
}

const (
	textPart = "Content-Type: text/plain\r\n\r\ntext"
	mailHead = "From: a@example.com\r\nSubject: files\r\nMIME-Version: 1.0\r\n"
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
			s.Deliver(account, mailHead+multipart("x", attachmentPart("plan.pdf", encoding, data)))
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

// nestedMail is a mail with files at several depths, and what they hold.
func nestedMail() (mail string, want map[string][]byte) {
	large := bytes.Repeat([]byte("large \x00\xff"), 60_000)
	forwarded := mailHead + multipart("y", textPart, attachmentPart("inner.pdf", "base64", []byte("inner")))
	plain := "Subject: plain\r\n\r\nforwarded"
	mail = mailHead + multipart("x",
		multipart("z", textPart, attachmentPart("first.pdf", "quoted-printable", []byte("first = é"))),
		"Content-Type: message/rfc822\r\n\r\n"+forwarded,
		"Content-Type: message/rfc822\r\n\r\n"+plain,
		attachmentPart("none.pdf", "base64", nil),
		attachmentPart("large.pdf", "base64", large),
		attachmentPart("unread.pdf", "base64", []byte("behind what is read")),
	)
	return mail, map[string][]byte{"first.pdf": []byte("first = é"), "message/rfc822 2": []byte(forwarded), "message/rfc822 3": []byte(plain), "none.pdf": nil, "large.pdf": large, "mail.eml": []byte(mail)}
}

// Parts are counted as servers count them, and a mail that was not read whole is a file too.
func filesOfANestedMail(t *testing.T, checker *Checker, config json.RawMessage) {
	t.Helper()
	result, err := checker.Check(t.Context(), poller.Request{Config: config})
	if err != nil || len(result.Messages) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	m := &result.Messages[0]
	_, want := nestedMail()
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
	mail, _ := nestedMail()
	s.Deliver("a", mail)
	filesOfANestedMail(t, newChecker(t, s), configOf(s, "none", "a", "GOOD"))
}

func TestFilesFromDovecot(t *testing.T) {
	server := dovecottest.Start(t)
	mail, _ := nestedMail()
	if _, err := server.Deliver("nested", []byte(mail)); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Deliver("single", []byte(mailHead+attachmentPart("single.pdf", "base64", []byte("single")))); err != nil {
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
	mail, _ := nestedMail()
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
	mail, _ := nestedMail()
	f.Add([]byte(email.Parse([]byte(mail[:maxRaw]), int64(len(mail))).Encode()))
	for _, seed := range []string{`{"attachments":[{"part":"1.2","type":"a/b"}],"size":9999999}`, `{"attachments":{}}`, `{`} {
		f.Add([]byte(seed))
	}
	c := New(fetch.New(fetch.Options{}), source(), Options{})
	f.Fuzz(func(t *testing.T, data []byte) { checktest.JudgeFiles(t, c, &poller.Message{ID: "1:1", Data: data}) })
}
