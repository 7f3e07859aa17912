package imap

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2/imapclient"
)

// A check ends, whatever the server answers.
func FuzzServer(f *testing.F) {
	f.Add([]byte("* PREAUTH [CAPABILITY IMAP4rev1] hello\r\n" + "* 2 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 6] n\r\nT1 OK done\r\n* SEARCH 4 5\r\nT2 OK done\r\n" + mailAt(4) + mailAt(5) + "T3 OK done\r\n"))
	f.Add([]byte("* OK [CAPABILITY IMAP4rev1 LOGINDISABLED AUTH=PLAIN] hello\r\n+ \r\nT1 OK [CAPABILITY IMAP4rev2] in\r\n* LIST () \"/\" {3}\r\nabc\r\nT2 NO [LIMIT] no\r\n"))
	f.Add([]byte("* PREAUTH [CAPABILITY IMAP4rev1 ID] hello\r\n* ID (\"name\" NIL)\r\nT1 OK done\r\nT2 NO none\r\n* LIST () \"/\" INBOX\r\nT3 OK done\r\n"))
	f.Add([]byte("* BYE [UNAVAILABLE] later\r\n"))
	f.Add([]byte("* OK [CAPABILITY(00aa00000p 0000"))
	f.Add([]byte("* OK hello\r\n* CAPABILITY  (\r\n"))
	f.Add([]byte("* PREAUTH [CAPABILITY IMAP4rev1 SPECIAL-USE LIST-EXTENDED] hello\r\n* LIST (\\Sent) \"/\" \"&ZS9jAQ-\"\r\nT1 OK done\r\n" +
		"* STATUS INBOX (UIDNEXT 6 UIDVALIDITY 7)\r\nT2 OK done\r\n* STATUS \"&ZS9jAQ-\" (UIDNEXT 4)\r\nT3 OK done\r\n" +
		"* 2 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 6] n\r\nT4 OK done\r\n* SEARCH 4 5\r\nT5 OK done\r\n" + mailAt(4) + mailAt(5) + "T6 OK done\r\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		for _, mailboxes := range [][]string{{"INBOX"}, {"INBOX", `\Sent`}} {
			fuzzServer(t, said, mailboxes)
		}
	})
}

// fuzzServer checks mailboxes at a server that says something.
func fuzzServer(t *testing.T, said []byte, mailboxes []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	near, far := net.Pipe()
	var server sync.WaitGroup
	server.Go(func() { _, _ = io.Copy(io.Discard, far) })
	server.Go(func() {
		_, _ = far.Write(said)
		_ = far.Close()
	})
	defer server.Wait()
	s := &session{ctx: ctx, conn: meter(ctx, near, overhead)}
	s.client = imapclient.New(&guarded{Conn: s.conn, below: s.conn}, nil)
	defer s.close()
	if s.client.WaitGreeting() != nil || s.login(config{user: "a"}, credential{password: "b"}) != nil || s.identify("rounds", "1") != nil {
		return
	}
	marks := []mark{{cursor: cursor{validity: 7, last: 3}}}
	if s.config.mailboxes = mailboxes; s.resolve() != nil {
		return
	}
	if result, err := s.look(marks, 3); err == nil && len(result.Messages) > 3 {
		t.Errorf("%d messages", len(result.Messages))
	}
	if ctx.Err() != nil {
		t.Error("only the time ended the check")
	}
}
