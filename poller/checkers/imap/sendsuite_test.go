package imap

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	mimeparts "mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
	"github.com/rounds-dev/rounds/testing/upstream/smtpd"
)

func startSMTP(t *testing.T, encryption string) *smtpd.Server {
	t.Helper()
	s, err := smtpd.Start(encryption)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// sendingConfig is the config of an account that sends by a server. There is no mailbox.
func sendingConfig(s *smtpd.Server, encryption, account string) json.RawMessage {
	return mailboxConfig(&imapd.Server{Port: 1}, s, encryption, account)
}

// mailboxConfig is the config of an account with a mailbox.
func mailboxConfig(box *imapd.Server, s *smtpd.Server, encryption, account string) json.RawMessage {
	return fmt.Appendf(nil, `{"host":"127.0.0.1","port":%d,"tls":"none","user":%q,"password":{"secret":"GOOD"},"smtp":{"host":"127.0.0.1","port":%d,"tls":%q},"from":"%s@example.com"}`,
		box.Port, account, s.Port, encryption, account)
}

func sender(t *testing.T, s *smtpd.Server) *Checker {
	return New(checktest.Client(t, fetch.Options{}), source(), Options{Roots: s.Roots})
}

func TestSendSuite(t *testing.T) {
	file := func(data string) poller.Outgoing {
		return poller.Outgoing{Peer: "anna@example.org", Type: "file", Data: json.RawMessage(data)}
	}
	text := func(data string) poller.Outgoing {
		return poller.Outgoing{Peer: "anna@example.org", Type: "text", Data: json.RawMessage(data)}
	}
	to := func(peer string) checktest.RefusedSend {
		return checktest.RefusedSend{Send: poller.Outgoing{Peer: peer, Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, Field: "to"}
	}
	for _, encryption := range []string{"implicit", "starttls", "none"} {
		t.Run(encryption, func(t *testing.T) {
			t.Parallel()
			checktest.RunSends(t, checktest.SendKind{
				Start: func(t *testing.T) checktest.SendParty { return sendParty(t, encryption) },
				Refused: []checktest.RefusedSend{
					{Send: text(`{"text":" "}`), Field: "data"},
					{Send: text(`{"text":"x","` + checktest.Hidden + `":1}`), Field: "data"},
					{Send: text(`{"text":"x","subject":"a\r\nBcc: ` + checktest.Hidden + `"}`), Field: "data.subject"},
					{Send: text(`{"text":"x","subject":7}`), Field: "data.subject"},
					{Send: text(`{"text":"x","subject":"` + strings.Repeat("x", 901) + `"}`), Field: "data.subject"},
					{Send: text(`{"text":"x","in_reply_to":"a> <b"}`), Field: "data.in_reply_to"},
					{Send: text(`{"text":"x","references":"a"}`), Field: "data.references"},
					{Send: text(`{"text":"x","references":["a b"]}`), Field: "data.references"},
					{Send: text(`{"text":"x","references":["a"` + strings.Repeat(`,"a"`, 20) + `]}`), Field: "data.references"},
					{Send: file(`{"file":"f","caption":"` + strings.Repeat("x", 4097) + `"}`), Field: "data.caption"},
					{Send: file(`{"file":"f","subject":"\n"}`), Field: "data.subject"},
					to(checktest.Hidden), to("a@b, c@d"), to("A <a@b>"), to("a@b\r\nRCPT TO:<c@d>"), to("<a@b>"), to("a@[127.0.0.1]"), to("a@b c"), to("a@x\u200b\u2028y.example"), to(`"a b"@c`),
				},
			})
		})
	}
}

func sendParty(t *testing.T, encryption string) checktest.SendParty {
	s, box := startSMTP(t, encryption), start(t, "none")
	fault := func(name string, f smtpd.Fault, end checktest.SendEnd, code string) checktest.SendFault {
		return checktest.SendFault{
			Name: name, End: end, Code: code, Takes: f.Takes, Hangs: f.Hang,
			Break: func(account string) { s.Fail(account, f) },
		}
	}
	checker := sender(t, s)
	file := func(name, data string, size int64) checktest.ValidSend {
		return checktest.ValidSend{Send: poller.Outgoing{Peer: "anna@example.org", Type: name, Data: json.RawMessage(data)}, File: &poller.File{Name: "é \"你\".bin", Type: "image/png", Size: size}}
	}
	said := " no: " + smtpd.Password + " token= " + checktest.Hidden
	return checktest.SendParty{
		New: func() poller.Sender { return checker },
		Config: func(account string) json.RawMessage {
			box.Folder(account, "Sent")
			return mailboxConfig(box, s, encryption, account)
		},
		Closed: func(account string) json.RawMessage {
			return sendingConfig(&smtpd.Server{Port: 1}, encryption, account)
		},
		Valid: []checktest.ValidSend{
			{Send: poller.Outgoing{Peer: "anna@example.org", Type: "text", Data: json.RawMessage(`{"text":"你好"}`)}},
			{Send: poller.Outgoing{Peer: "anna@example.org", Type: "text", Data: json.RawMessage(`{"text":".\r\n.x","subject":"你好"}`)}},
			{Send: poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"x"}`)}, Answers: &poller.Message{ID: "1:1", Data: json.RawMessage(`{"from":[{"address":"bob@example.net"}],"message_id":"1@example.net"}`)}},
			file("file", `{"file":"f","caption":"你好","subject":"s"}`, 300_001), file("image", `{"file":"f"}`, 1), file("video", `{"file":"f"}`, 57), file("voice", `{"file":"f","caption":""}`, 58),
		},
		Taken: func(account string) (taken []checktest.Taken) {
			for _, m := range s.Mails(account) {
				one := readMailOf(t, m.Text)
				id, _, _ := strings.Cut(one.header.Get("Message-Id"), ".")
				taken = append(taken, checktest.Taken{ID: strings.TrimPrefix(id, "<"), Peer: m.To, File: one.file})
			}
			return taken
		},
		Calls: s.Calls,
		Heal:  s.Heal,
		Faults: []checktest.SendFault{
			fault("cut after the end", smtpd.Fault{Step: smtpd.End, Takes: true}, checktest.SendUnknown, "reset"),
			fault("cut at the end", smtpd.Fault{Step: smtpd.End}, checktest.SendUnknown, "reset"),
			fault("garbage at the end", smtpd.Fault{Step: smtpd.End, Reply: "what " + checktest.Hidden, Takes: true}, checktest.SendUnknown, "protocol"),
			fault("an answer of no class", smtpd.Fault{Step: smtpd.End, Reply: "354 go on", Takes: true}, checktest.SendUnknown, "protocol"),
			fault("far too much", smtpd.Fault{Step: smtpd.End, Reply: strings.Repeat("250-x\r\n", 100_000) + "250 x", Takes: true}, checktest.SendUnknown, "too_large"),
			fault("a long line", smtpd.Fault{Step: smtpd.End, Reply: "250 " + strings.Repeat("x", 5000), Takes: true}, checktest.SendUnknown, "protocol"),
			fault("refused at the end", smtpd.Fault{Step: smtpd.End, Reply: "554 5.7.1" + said}, checktest.SendRefused, "smtp_554"),
			fault("later at the end", smtpd.Fault{Step: smtpd.End, Reply: "451 4.3.0" + said}, checktest.SendAgain, "smtp_451"),
			fault("DATA is refused", smtpd.Fault{Step: smtpd.Data, Reply: "554" + said}, checktest.SendRefused, "smtp_554"),
			fault("cut at DATA", smtpd.Fault{Step: smtpd.Data}, checktest.SendAgain, "reset"),
			fault("no such person", smtpd.Fault{Step: smtpd.Recipient, Reply: "550 5.1.1" + said}, checktest.SendRefused, "smtp_550"),
			fault("greylisted", smtpd.Fault{Step: smtpd.Recipient, Reply: "450 4.7.1" + said}, checktest.SendAgain, "smtp_450"),
			fault("cut at RCPT", smtpd.Fault{Step: smtpd.Recipient}, checktest.SendAgain, "reset"),
			fault("the sender is refused", smtpd.Fault{Step: smtpd.Sender, Reply: "553 5.7.1" + said}, checktest.SendRefused, "smtp_553"),
			fault("a login is missing", smtpd.Fault{Step: smtpd.Sender, Reply: "530 5.7.0" + said}, checktest.SendAgain, "smtp_530"),
			fault("garbage at MAIL", smtpd.Fault{Step: smtpd.Sender, Reply: checktest.Hidden}, checktest.SendAgain, "protocol"),
			fault("a wrong password", smtpd.Fault{Step: smtpd.Login, Reply: "535 5.7.8" + said}, checktest.SendAgain, "smtp_535"),
			fault("a login later", smtpd.Fault{Step: smtpd.Login, Reply: "454 4.7.0" + said}, checktest.SendAgain, "smtp_454"),
			fault("hang", smtpd.Fault{Step: smtpd.End, Hang: true}, "", ""),
		},
		Secrets: []string{smtpd.Password},
	}
}

// read is a mail as its reader sees it.
type read struct {
	header mail.Header
	text   string
	name   string // of the file
	kind   string // the file's type
	file   []byte
}

// readMailOf reads a mail with the standard library, which the kind does not write with.
func readMailOf(t *testing.T, raw string) (one read) {
	t.Helper()
	for line := range strings.SplitSeq(raw, "\r\n") {
		if len(line) > 998 || strings.ContainsAny(line, "\r\n") {
			t.Fatalf("a line has %d bytes, or another line's end: %q", len(line), line)
		}
	}
	m, err := mail.ReadMessage(strings.NewReader(raw))
	if err != nil {
		t.Fatalf("%v: %q", err, raw)
	}
	one.header = m.Header
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(kind, "multipart/") {
		one.text = string(decodedPart(t, m.Header.Get("Content-Transfer-Encoding"), m.Body))
		return one
	}
	parts := mimeparts.NewReader(m.Body, params["boundary"])
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return one
		}
		if err != nil {
			t.Fatal(err)
		}
		content := decodedPart(t, part.Header.Get("Content-Transfer-Encoding"), part)
		if part.FileName() == "" {
			one.text = string(content)
			continue
		}
		one.name, one.file = part.FileName(), content
		one.kind, _, _ = mime.ParseMediaType(part.Header.Get("Content-Type"))
	}
}

func decodedPart(t *testing.T, encoding string, from io.Reader) []byte {
	t.Helper()
	switch encoding {
	case "base64":
		from = base64.NewDecoder(base64.StdEncoding, from)
	case "quoted-printable":
		from = quotedprintable.NewReader(from)
	default:
		t.Errorf("the transfer encoding is %q", encoding)
	}
	decoded, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}
