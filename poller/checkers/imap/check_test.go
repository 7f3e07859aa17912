package imap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/emersion/go-imap/v2"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
)

// check checks the account "a" once.
func check(t *testing.T, s *imapd.Server, cursor []byte, limit int) poller.Result {
	t.Helper()
	result, err := newChecker(t, s).Check(t.Context(), poller.Request{Config: configOf(s, "none", "a", "GOOD"), Cursor: cursor, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func ids(result poller.Result) (ids []string) {
	for _, m := range result.Messages {
		ids = append(ids, m.ID)
	}
	return ids
}

func want(t *testing.T, result poller.Result, more bool, cursor string, expected ...string) {
	t.Helper()
	if !slices.Equal(ids(result), expected) || result.HasMore != more || string(result.Cursor) != cursor {
		t.Errorf("got %v, more %t, cursor %q; want %v, more %t, cursor %q", ids(result), result.HasMore, result.Cursor, expected, more, cursor)
	}
}

func TestMail(t *testing.T) {
	s := start(t, "none")
	s.Post("a", 1)
	result := check(t, s, nil, 10)
	want(t, result, false, "1:1", "1:1")
	var got email.Data
	if err := json.Unmarshal(result.Messages[0].Data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Subject != "mail 1" || got.MessageID != "1.a@example.com" || got.Date != "1994-11-06T08:49:37Z" || got.Text != "Hello 1\r\n" ||
		got.TextType != "text/plain" || got.From[0] != (email.Address{Name: "Anna", Address: "anna@example.com"}) || got.To[0].Address != "a@example.com" ||
		len(got.Headers) != 5 || got.Truncated || got.Size == 0 || result.Messages[0].Type != "mail" {
		t.Errorf("got %s", result.Messages[0].Data)
	}
	want(t, check(t, s, []byte("1:1"), 10), false, "")
}

// A mail has its flags, and a page with damaged mails has one warning.
func TestFlagsAndDamage(t *testing.T) {
	s := start(t, "none")
	s.Deliver("a", "Subject: x\r\n\r\ntext", imap.FlagSeen, imap.FlagFlagged, imap.FlagDeleted, "$Forwarded", "Work")
	result := check(t, s, nil, 10)
	var got email.Data
	if err := json.Unmarshal(result.Messages[0].Data, &got); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got.Flags)
	if !slices.Equal(got.Flags, []string{"$deleted", "$flagged", "$forwarded", "$seen", "work"}) || len(result.Warnings) > 0 {
		t.Errorf("got %q, %v", got.Flags, result.Warnings)
	}
	s.Deliver("a", "Subject: x\r\nContent-Transfer-Encoding: base64\r\n\r\naGVsbG8=*")
	s.Deliver("a", "no header")
	s.Post("a", 1)
	result = check(t, s, result.Cursor, 10)
	want(t, result, false, "1:4", "1:2", "1:3", "1:4")
	if w := result.Warnings; len(w) != 1 || w[0].String() != "malformed: 2 of 3 mails break the rules of MIME, and have what could be read; of 1:2, a part is not encoded as it says, in base64" {
		t.Errorf("got %v", w)
	}
}

// The mailbox is empty at first. Later it has messages, and deleted ones leave gaps.
func TestExpunged(t *testing.T) {
	s := start(t, "none")
	want(t, check(t, s, nil, 10), false, "1:0")
	s.Post("a", 6)
	for _, uid := range []uint32{2, 3, 6} {
		if err := s.Expunge("a", uid); err != nil {
			t.Fatal(err)
		}
	}
	want(t, check(t, s, []byte("1:0"), 2), true, "1:4", "1:1", "1:4")
	want(t, check(t, s, []byte("1:4"), 2), false, "1:5", "1:5")
	// All messages behind the cursor are gone. "n:*" then means the last message, which is
	// known already.
	want(t, check(t, s, []byte("1:5"), 2), false, "")
	want(t, check(t, s, []byte("1:6"), 2), false, "")
	s.Post("a", 1)
	want(t, check(t, s, []byte("1:6"), 2), false, "1:7", "1:7")
	// The cursor is beyond the end. The check ignores that.
	want(t, check(t, s, []byte("1:99"), 2), false, "")
}

func TestUIDValidityChanges(t *testing.T) {
	s := start(t, "none")
	s.Post("a", 5)
	want(t, check(t, s, nil, 10), false, "1:5", "1:1", "1:2", "1:3", "1:4", "1:5")
	if err := s.Recreate("a"); err != nil {
		t.Fatal(err)
	}
	s.Post("a", 3)
	result := check(t, s, []byte("1:5"), 2)
	want(t, result, true, "2:2", "2:1", "2:2")
	if !result.CursorReset {
		t.Error("the reset is not told")
	}
	result = check(t, s, result.Cursor, 2)
	want(t, result, false, "2:3", "2:3")
	if result.CursorReset || check(t, s, nil, 1).CursorReset {
		t.Error("a reset is told where there was none")
	}
}

// A first check begins with the newest messages.
func TestLargeMailbox(t *testing.T) {
	s := start(t, "none")
	s.Post("a", firstMost+5)
	if err := s.Expunge("a", firstMost); err != nil {
		t.Fatal(err)
	}
	result := check(t, s, nil, 3)
	want(t, result, true, "1:7", "1:5", "1:6", "1:7")
	result = check(t, s, fmt.Appendf(nil, "1:%d", firstMost-2), 3)
	want(t, result, true, fmt.Sprintf("1:%d", firstMost+2), fmt.Sprintf("1:%d", firstMost-1), fmt.Sprintf("1:%d", firstMost+1), fmt.Sprintf("1:%d", firstMost+2))
}

// A page is full when it reaches the bytes that it may have, even with few messages.
func TestLargeMessages(t *testing.T) {
	s := start(t, "none")
	const mails = 100
	for range mails {
		s.Deliver("a", "Subject: x\r\n\r\n"+strings.Repeat("0123456789", 20<<10))
	}
	seen := 0
	var cursor []byte
	pages := 0
	for more := true; more; pages++ {
		result := check(t, s, cursor, 200)
		for _, m := range result.Messages {
			var d email.Data
			if err := json.Unmarshal(m.Data, &d); err != nil || len(m.Data) > 256<<10 || !d.Truncated || len(d.Text) != 64<<10 || d.Size != int64(len("Subject: x\r\n\r\n")+200<<10) {
				t.Fatalf("%s: %d bytes, truncated %t, text of %d, size %d", m.ID, len(m.Data), d.Truncated, len(d.Text), d.Size)
			}
		}
		seen += len(result.Messages)
		cursor, more = result.Cursor, result.HasMore
	}
	if seen != mails || pages < 2 {
		t.Errorf("%d messages on %d pages", seen, pages)
	}
}

func TestWrongPassword(t *testing.T) {
	s := start(t, "implicit")
	_, err := newChecker(t, s).Check(t.Context(), poller.Request{Config: configOf(s, "implicit", "a", "WRONG")})
	if got := checktest.Failure(t, err); got.Kind != poller.AuthFailed || got.Scope != "" || strings.Contains(got.Error(), "tr0ub") {
		t.Errorf("got %v, scope %q", got, got.Scope)
	}
	for _, secret := range []string{"NONE", "LINES"} {
		_, err := newChecker(t, s).Check(t.Context(), poller.Request{Config: configOf(s, "implicit", "a", secret)})
		if got := checktest.Failure(t, err); got.Kind != poller.Transient || got.Scope != poller.ScopeChecker || !strings.Contains(got.Message, secret) {
			t.Errorf("%s: got %v", secret, got)
		}
	}
	if s.Logins() != 1 {
		t.Errorf("%d logins", s.Logins())
	}
}

func TestTrust(t *testing.T) {
	for _, encryption := range []string{"implicit", "starttls"} {
		s := start(t, encryption)
		strange := New(checktest.Client(t, fetch.Options{}), source(), Options{})
		_, err := strange.Check(t.Context(), poller.Request{Config: configOf(s, encryption, "a", "GOOD")})
		if got := checktest.Failure(t, err); got.Code != string(fetch.CodeTLS) || got.Kind != poller.Transient || s.Logins() != 0 {
			t.Errorf("%s: a stranger's certificate: got %v, %d logins", encryption, got, s.Logins())
		}
	}
	plain := start(t, "none")
	_, err := newChecker(t, plain).Check(t.Context(), poller.Request{Config: configOf(plain, "implicit", "a", "GOOD")})
	if got := checktest.Failure(t, err); got.Code != string(fetch.CodeTLS) || !strings.HasPrefix(got.Message, "the server does not speak TLS") || !strings.Contains(got.Message, "starttls") || !strings.Contains(got.Message, "none") {
		t.Errorf("a port without TLS: got %v", got)
	}
	_, err = newChecker(t, plain).Check(t.Context(), poller.Request{Config: configOf(plain, "starttls", "a", "GOOD")})
	if got := checktest.Failure(t, err); got.Kind != poller.Transient || got.Code != "starttls" || !strings.Contains(got.Message, "refused: NO: ") || !strings.HasSuffix(got.Message, "; set config.tls to none if the server has no TLS") || plain.Logins() != 0 {
		t.Errorf("no STARTTLS: got %v, %d logins", got, plain.Logins())
	}
	// Without encryption the server accepts no password, and none is sent.
	encrypted := start(t, "starttls")
	_, err = newChecker(t, encrypted).Check(t.Context(), poller.Request{Config: configOf(encrypted, "none", "a", "GOOD")})
	if got := checktest.Failure(t, err); got.Kind != poller.ConfigInvalid || got.Code != "privacyrequired" {
		t.Errorf("none: got %v", got)
	}
	far := New(fetch.New(fetch.Options{}), source(), Options{})
	_, err = far.Check(t.Context(), poller.Request{Config: json.RawMessage(`{"host":"localhost","port":1,"user":"a","password":{"secret":"GOOD"}}`)})
	if got := checktest.Failure(t, err); got.Scope != poller.ScopeEgress || !strings.Contains(got.Error(), "; rounds serve needs ROUNDS_ALLOW_NETWORKS=localhost:1") {
		t.Errorf("a private address: got %v", got)
	}
}

// A host is judged with its port when it is registered, as when it is dialled.
func TestConfigIsJudgedWithItsPort(t *testing.T) {
	networks, err := fetch.ParseNetworks("127.0.0.1:1143")
	if err != nil {
		t.Fatal(err)
	}
	c := New(fetch.New(fetch.Options{Networks: networks}), source(), Options{})
	for config, want := range map[string]string{
		`"host":"127.0.0.1","port":1143`: "",
		`"host":"127.0.0.1","port":1144`: "; add 127.0.0.1:1144 to ROUNDS_ALLOW_NETWORKS of rounds serve",
		`"host":"127.0.0.1"`:             "; add 127.0.0.1:993 to ROUNDS_ALLOW_NETWORKS of rounds serve",
		`"tls":"none","host":"::1"`:      "; add [::1]:143 to ROUNDS_ALLOW_NETWORKS of rounds serve",
	} {
		err := c.Validate(json.RawMessage(`{"user":"a","password":{"secret":"A"},` + config + `}`))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), "config.host: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", config, err, want)
		}
	}
}

func TestConfig(t *testing.T) {
	c := New(fetch.New(fetch.Options{}), source(), Options{})
	const rest = `,"user":"a","password":{"secret":"A"}}`
	for config, key := range map[string]string{
		`{"host":"IMAP.Example.com."` + rest:                                "imap.example.com",
		`{"host":"imap.example.com","port":143,"tls":"starttls"` + rest:     "imap.example.com",
		`{"host":"imap.example.com","port":1993,"mailbox":"Archive"` + rest: "imap.example.com:1993",
		`{"host":"1.1.1.1","tls":"none"` + rest:                             "1.1.1.1",
	} {
		if err := c.Validate(json.RawMessage(config)); err != nil {
			t.Errorf("%s: %v", config, err)
		}
		if got := c.RateKey(json.RawMessage(config)); got != key {
			t.Errorf("%s: rate key %q", config, got)
		}
	}
	read, err := c.form.Read(json.RawMessage(`{"host":"imap.example.com","tls":"starttls"` + rest))
	if err != nil || read.port != 143 || !slices.Equal(read.mailboxes, []string{"INBOX"}) {
		t.Errorf("got %+v, %v", read, err)
	}
}

func TestCursors(t *testing.T) {
	for _, text := range []string{"1", "1:", ":1", "0:1", "01:1", "1:01", "1:-1", "+1:1", "4294967296:1", "1:4294967296", "1:1:1", " 1:1", `{"v":1}`} {
		if c, err := parseCursor([]byte(text)); err == nil {
			t.Errorf("%q: got %v", text, c)
		}
	}
	c, err := parseCursor([]byte("4294967295:4294967295"))
	if err != nil || len(c.encode()) > 44 {
		t.Errorf("got %v, %v", c, err)
	}
}

func TestTheFieldsAreThoseOfValidate(t *testing.T) {
	checktest.Declared(t, New(checktest.Client(t, fetch.Options{}), secrets.Source{}, Options{}), ".")
}

// A server without STARTTLS may answer BAD. That is a refusal, and the error quotes it.
func TestStartTLSAnsweredBad(t *testing.T) {
	server, conn := net.Pipe()
	defer server.Close()
	go func() {
		defer conn.Close()
		_, _ = io.WriteString(conn, "* OK hello\r\n")
		_, _ = readLine(conn)
		_, _ = io.WriteString(conn, startTag+" BAD Unknown command\r\n")
	}()
	var status *imap.Error
	if err := upgrade(server); !errors.As(err, &status) || common(status, stepStart) != nil {
		t.Fatalf("got %v", err)
	}
	if e := startRefused(status); e.Kind != poller.Transient || e.Message != "STARTTLS: the server refused: BAD: Unknown command" {
		t.Errorf("got %v", e)
	}
}
