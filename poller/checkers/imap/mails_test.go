package imap

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/dovecottest"
)

func dovecotConfig(s *dovecottest.Server, account, secret, mailbox string) json.RawMessage {
	return fmt.Appendf(nil, `{"host":"127.0.0.1","port":%d,"tls":"none","user":%q,"password":{"secret":%q},"mailbox":%q}`, s.Port, account, secret, mailbox)
}

// A real server gives the mails byte for byte. Package email's own tests judge how they are read.
func TestDovecot(t *testing.T) {
	server := dovecottest.Start(t)
	checker := New(checktest.Client(t, fetch.Options{UserAgent: "rounds/1.2.3 (test)"}), source(), Options{})
	files, err := filepath.Glob("../email/testdata/mails/*.eml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no mails: %v", err)
	}
	for n, file := range files {
		mail, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint("mail", n)
		validity, err := server.Deliver(name, mail)
		if err != nil {
			t.Fatal(err)
		}
		result, err := checker.Check(t.Context(), poller.Request{Config: dovecotConfig(server, name, "GOOD", "INBOX")})
		if err != nil || len(result.Messages) != 1 || result.Messages[0].ID != string(cursor{validity, 1}.encode()) {
			t.Fatalf("%s: got %+v, %v", file, result, err)
		}
		want := email.Parse(mail, int64(len(mail)))
		want.Mailbox = "INBOX"
		if want := want.Encode(); string(result.Messages[0].Data) != string(want) {
			t.Errorf("%s:\ngot  %s\nwant %s", file, result.Messages[0].Data, want)
		}
	}
}
