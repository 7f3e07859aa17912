package imap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/dovecottest"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
)

// severalOf is a config with several mailboxes.
func severalOf(port int, account string, mailboxes ...string) json.RawMessage {
	names, _ := json.Marshal(mailboxes)
	return fmt.Appendf(nil, `{"host":"127.0.0.1","port":%d,"tls":"none","user":%q,"password":{"secret":"GOOD"},"mailboxes":%s}`, port, account, names)
}

// startSeveral starts a server whose account "a" has INBOX, 支持 and Gesendet, which is \Sent.
func startSeveral(t *testing.T) *imapd.Server {
	t.Helper()
	s := start(t, "none")
	if err := s.Create("a", "支持"); err != nil {
		t.Fatal(err)
	}
	if err := s.Create("a", "Gesendet", imap.MailboxAttrSent); err != nil {
		t.Fatal(err)
	}
	return s
}

// deliver adds mails to mailboxes.
func deliver(s *imapd.Server, mailboxes ...string) {
	for _, mailbox := range mailboxes {
		s.DeliverTo("a", mailbox, "Subject: in "+mailbox+"\r\n\r\ntext")
	}
}

// several checks the account "a" once.
func several(t *testing.T, s *imapd.Server, cursor []byte, limit int, mailboxes ...string) poller.Result {
	t.Helper()
	result, err := newChecker(t, s).Check(t.Context(), poller.Request{Config: severalOf(s.Port, "a", mailboxes...), Cursor: cursor, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	if err := result.Validate(); err != nil {
		t.Error(err)
	}
	return result
}

// Only mailboxes with news are opened, after one question for all of them.
func TestSeveralMailboxes(t *testing.T) {
	s := startSeveral(t)
	all := []string{"inbox", "支持", `\sent`, "Gesendet"}
	deliver(s, "INBOX", "INBOX", "Gesendet")
	result := several(t, s, nil, 10, all...)
	want(t, result, false, "1:2:INBOX\n2:0:支持\n3:1:Gesendet", "1:1:INBOX", "1:2:INBOX", "3:1:Gesendet")
	var got email.Data
	if err := json.Unmarshal(result.Messages[2].Data, &got); err != nil || got.Mailbox != "Gesendet" || got.Subject != "in Gesendet" {
		t.Errorf("got %s, %v", result.Messages[2].Data, err)
	}
	if opened := s.Opened(); !slices.Equal(opened, []string{"INBOX", "支持", "Gesendet"}) {
		t.Errorf("opened %q", opened)
	}
	want(t, several(t, s, result.Cursor, 10, all...), false, "")
	if opened := s.Opened(); opened != nil {
		t.Errorf("without news: opened %q", opened)
	}
	deliver(s, "支持")
	want(t, several(t, s, result.Cursor, 10, all...), false, "1:2:INBOX\n3:1:Gesendet\n2:1:支持", "2:1:支持")
	if opened := s.Opened(); !slices.Equal(opened, []string{"支持"}) {
		t.Errorf("with news in one: opened %q", opened)
	}
	if logins := s.Logins(); logins != 3 {
		t.Errorf("%d logins", logins)
	}
}

// A mailbox with many mails does not keep the others from their turn, on a page of any size.
func TestFairPages(t *testing.T) {
	for limit := 1; limit <= 7; limit++ {
		s := startSeveral(t)
		for range 6 {
			deliver(s, "INBOX")
		}
		deliver(s, "支持", "支持", "Gesendet")
		var got []string
		var cursor []byte
		for more := true; more; {
			result := several(t, s, cursor, limit, "INBOX", "支持", `\Sent`)
			if len(result.Messages) > limit || len(got) > 9 {
				t.Fatalf("limit %d: a page of %v after %v", limit, ids(result), got)
			}
			got = append(got, ids(result)...)
			cursor, more = result.Cursor, result.HasMore
		}
		for _, id := range []string{"2:1:支持", "3:1:Gesendet"} {
			if i := slices.Index(got, id); i < 0 || i > max(2, limit) {
				t.Errorf("limit %d: %s comes late in %v", limit, id, got)
			}
		}
		slices.Sort(got)
		if w := []string{"1:1:INBOX", "1:2:INBOX", "1:3:INBOX", "1:4:INBOX", "1:5:INBOX", "1:6:INBOX", "2:1:支持", "2:2:支持", "3:1:Gesendet"}; !slices.Equal(got, w) {
			t.Errorf("limit %d: got %v", limit, got)
		}
	}
}

// A mailbox that joins others, leaves them or comes back is read from where it was.
func TestMailboxesChange(t *testing.T) {
	s := startSeveral(t)
	deliver(s, "INBOX", "支持", "Gesendet")
	one := check(t, s, nil, 10)
	want(t, one, false, "1:1", "1:1")
	both := several(t, s, one.Cursor, 10, "INBOX", "支持")
	want(t, both, false, "1:1:INBOX\n2:1:支持", "2:1:支持")
	other := several(t, s, both.Cursor, 10, "Gesendet", "支持")
	want(t, other, false, "1:1:INBOX\n2:1:支持\n3:1:Gesendet", "3:1:Gesendet")
	deliver(s, "INBOX")
	want(t, several(t, s, other.Cursor, 10, "Gesendet", "INBOX"), false, "2:1:支持\n3:1:Gesendet\n1:2:INBOX", "1:2:INBOX")
	want(t, check(t, s, other.Cursor, 10), false, "1:2", "1:2")
	// A list of one is the same as one.
	want(t, several(t, s, []byte("2:1"), 10, "支持"), false, "")
	deliver(s, "支持")
	want(t, several(t, s, []byte("2:1"), 10, "支持"), false, "2:2", "2:2")
}

// If the UIDs of one mailbox mean other messages, the others go on.
func TestUIDValidityOfOneMailbox(t *testing.T) {
	s := startSeveral(t)
	deliver(s, "INBOX", "支持")
	before := several(t, s, nil, 10, "INBOX", "支持")
	if err := s.Recreate("a"); err != nil {
		t.Fatal(err)
	}
	deliver(s, "INBOX")
	result := several(t, s, before.Cursor, 10, "INBOX", "支持")
	want(t, result, false, "2:1:支持\n4:1:INBOX", "4:1:INBOX")
	if !result.CursorReset || before.CursorReset {
		t.Error("the reset is not told")
	}
}

// A mail that is in two mailboxes is one mail to an account that remembers mails.
func TestRememberedMails(t *testing.T) {
	s := startSeveral(t)
	for _, mailbox := range []string{"INBOX", "支持"} {
		s.DeliverTo("a", mailbox, "Message-ID: <1@example.com>\r\n\r\ntext")
		s.DeliverTo("a", mailbox, "Subject: no id\r\n\r\ntext")
	}
	config := severalOf(s.Port, "a", "INBOX", "支持")
	for config, remembered := range map[string]bool{string(config): false, strings.Replace(string(config), "{", `{"remember":"message_id",`, 1): true} {
		result, err := newChecker(t, s).Check(t.Context(), poller.Request{Config: json.RawMessage(config)})
		if err != nil || len(result.Messages) != 4 {
			t.Fatalf("got %v, %v", ids(result), err)
		}
		for i, m := range result.Messages {
			if with := i%2 == 0 && remembered; m.NoID != with || (m.Content == "1@example.com") != with {
				t.Errorf("%s: no id %t, content %q", m.ID, m.NoID, m.Content)
			}
		}
		if r := newChecker(t, s).Remembers(json.RawMessage(config)); (r.Messages == 2*firstMost) != remembered {
			t.Errorf("%s: remembers %+v", config, r)
		}
	}
}

func TestMailboxesThatDoNotExist(t *testing.T) {
	s := startSeveral(t)
	for _, c := range []struct{ mailboxes, want string }{
		{"INBOX|Support", `config nonexistent config.mailboxes: "Support": there is no such mailbox: NO: Mailbox doesn't exist: Support (0.001 + 0.000 secs).`},
		{`INBOX|\Trash`, `config nonexistent config.mailboxes: "\\Trash": the server says of no mailbox that it is this one; give the mailbox' own name`},
		{`\Trash`, `config nonexistent config.mailbox: the server says of no mailbox that it is this one; give the mailbox' own name`},
	} {
		_, err := newChecker(t, s).Check(t.Context(), poller.Request{Config: severalOf(s.Port, "a", strings.Split(c.mailboxes, "|")...)})
		failed := checktest.Failure(t, err)
		if got := string(failed.Kind) + " " + failed.Code + " " + failed.Message; got != c.want {
			t.Errorf("%s: got %s", c.mailboxes, got)
		}
	}
}

// A file comes from the mailbox of its mail, and only from one that the account reads.
func TestFileOfOneMailbox(t *testing.T) {
	s := startSeveral(t)
	const mail = "Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\ntext\r\n--x\r\nContent-Type: text/csv; name=a.csv\r\nContent-Disposition: attachment\r\n\r\n1,2\r\n--x--"
	s.DeliverTo("a", "支持", mail)
	found := several(t, s, nil, 10, "INBOX", "支持")
	want(t, found, false, "1:0:INBOX\n2:1:支持", "2:1:支持")
	checker := newChecker(t, s)
	for mailboxes, code := range map[string]string{"INBOX|支持": "", "支持": "", "INBOX": "no_mailbox", "INBOX|Gesendet": "no_mailbox"} {
		body, err := checker.FetchFile(t.Context(), poller.FileRequest{Config: severalOf(s.Port, "a", strings.Split(mailboxes, "|")...), Message: &found.Messages[0]})
		if code != "" {
			if failed := checktest.Failure(t, err); failed.Code != code {
				t.Errorf("%s: got %v", mailboxes, failed)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", mailboxes, err)
		}
		content, err := io.ReadAll(body)
		if err != nil || string(content) != "1,2" || body.Close() != nil {
			t.Errorf("%s: got %q, %v", mailboxes, content, err)
		}
	}
}

// Servers may answer anything to STATUS and LIST.
func TestAnswersToStatus(t *testing.T) {
	const status = "* STATUS INBOX (UIDNEXT 4 UIDVALIDITY 7)\r\n* STATUS Sent (UIDNEXT 6 UIDVALIDITY 7)\r\n"
	list := "* LIST (\\HasNoChildren \\Sent) \"/\" Sent\r\n{tag} OK done\r\n"
	good := func(changes ...string) map[string]string {
		answers := map[string]string{
			"LOGIN": loggedIn, "LIST": list, "STATUS": status + "{tag} OK done\r\n", "EXAMINE": twoMails,
			"SEARCH": "* SEARCH 4 5\r\n{tag} OK done\r\n", "FETCH": mailAt(4) + mailAt(5) + "{tag} OK done\r\n",
		}
		for i := 0; i < len(changes); i += 2 {
			answers[changes[i]] = changes[i+1]
		}
		return answers
	}
	for name, c := range map[string]struct {
		answers map[string]string
		want    string // the ids, or the error's kind and code
	}{
		"good":                  {good(), "7:4:Sent 7:5:Sent"},
		"nothing new":           {good("STATUS", strings.ReplaceAll(status, "NEXT 6", "NEXT 4")+"{tag} OK done\r\n"), ""},
		"no UIDNEXT":            {good("STATUS", "* STATUS INBOX (UIDVALIDITY 7)\r\n* STATUS Sent (UIDVALIDITY 7)\r\n{tag} OK done\r\n"), "7:4:INBOX 7:5:INBOX 7:4:Sent 7:5:Sent"},
		"no state at all":       {good("STATUS", "{tag} OK done\r\n"), "7:4:INBOX 7:5:INBOX 7:4:Sent 7:5:Sent"},
		"of another mailbox":    {good("STATUS", "* STATUS Trash (UIDNEXT 9)\r\n{tag} OK done\r\n"), "7:4:INBOX 7:5:INBOX 7:4:Sent 7:5:Sent"},
		"no state":              {good("STATUS", "{tag} NO [SERVERBUG] no\r\n"), "transient serverbug"},
		"bad":                   {good("STATUS", "{tag} BAD no\r\n"), "protocol imap_bad"},
		"a number that is none": {good("STATUS", "* STATUS INBOX (UIDNEXT x)\r\n{tag} OK done\r\n"), "protocol protocol"},
		"cut":                   {good("STATUS", status+"{end}"), "transient reset"},
		"it does not open":      {good("EXAMINE", "{tag} NO [UNAVAILABLE] no\r\n"), "transient unavailable"},
		"it cannot be read":     {good("FETCH", "{tag} NO [SERVERBUG] no\r\n"), "transient serverbug"},
		"no special use":        {good("LIST", "* LIST () \"/\" Sent\r\n{tag} OK done\r\n"), "config nonexistent"},
		"a use that only holds": {good("LIST", "* LIST (\\Noselect \\Sent) \"/\" Sent\r\n{tag} OK done\r\n"), "config nonexistent"},
		"a use with line ends":  {good("LIST", "* LIST (\\Sent) \"/\" \"a&AAo-b\"\r\n{tag} OK done\r\n"), "config nonexistent"},
		"two of one use":        {good("LIST", "* LIST (\\Sent) \"/\" Tsent\r\n"+list), "7:4:Sent 7:5:Sent"},
		"LIST is refused":       {good("LIST", "{tag} NO no\r\n"), "transient imap_no"},
		"a list without end":    {good("LIST", strings.Repeat("* LIST () \"/\" aaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", 50_000)), "protocol too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			config := func(port int) json.RawMessage { return severalOf(port, "a", "INBOX", `\Sent`) }
			result, err := scriptedFor(t, config, "7:3:INBOX\n7:3:Sent", 0, greeting, c.answers)
			got := strings.Join(ids(result), " ")
			if err != nil {
				failed := checktest.Failure(t, err)
				got = string(failed.Kind) + " " + failed.Code
			}
			if got != c.want {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// Mail may come into the first mailbox after the server was asked for its state, and before it is
// opened for IDLE.
func TestNewsBeforeIdle(t *testing.T) {
	const none = "* STATUS INBOX (UIDNEXT 4 UIDVALIDITY 7)\r\n* STATUS Sent (UIDNEXT 4 UIDVALIDITY 7)\r\n{tag} OK done\r\n"
	answers := map[string]string{
		"LOGIN": "{tag} OK [CAPABILITY IMAP4rev1 IDLE] in\r\n", "STATUS": none, "EXAMINE": twoMails,
		"SEARCH": "* SEARCH 4 5\r\n{tag} OK done\r\n", "FETCH": mailAt(4) + mailAt(5) + "{tag} OK done\r\n",
	}
	config := func(port int) json.RawMessage { return severalOf(port, "a", "INBOX", "Sent") }
	result, err := scriptedFor(t, config, "7:3:INBOX\n7:3:Sent", time.Hour, greeting, answers)
	if got := strings.Join(ids(result), " "); err != nil || got != "7:4:INBOX 7:5:INBOX" {
		t.Errorf("got %q, %v", got, err)
	}
	answers["EXAMINE"] = "{tag} NO [UNAVAILABLE] no\r\n"
	_, err = scriptedFor(t, config, "7:3:INBOX\n7:3:Sent", time.Hour, greeting, answers)
	if failed := checktest.Failure(t, err); failed.Code != "unavailable" {
		t.Errorf("got %v", failed)
	}
}

// The bytes of a page are bounded for all mailboxes together.
func TestLargePageOfSeveral(t *testing.T) {
	s := startSeveral(t)
	mail := "Subject: x\r\n\r\n" + strings.Repeat("0123456789", maxPage/60/10)
	for range 75 {
		s.DeliverTo("a", "INBOX", mail)
	}
	deliver(s, "支持")
	result := several(t, s, nil, 200, "INBOX", "支持")
	if n := len(result.Messages); n != 75 || !result.HasMore || string(result.Cursor) != "1:75:INBOX" {
		t.Errorf("%d messages, more %t, cursor %q", n, result.HasMore, result.Cursor)
	}
	want(t, several(t, s, result.Cursor, 200, "INBOX", "支持"), false, "1:75:INBOX\n2:1:支持", "2:1:支持")
}

func TestMarks(t *testing.T) {
	var lines []string
	for i := range maxMarks + 1 {
		lines = append(lines, fmt.Sprintf("1:1:%d", i))
	}
	many, most := strings.Join(lines, "\n"), strings.Join(lines[:maxMarks], "\n")
	for _, text := range []string{"1:1:", "1:1:a\n1:1:a", "1:1:a\n", "\n1:1:a", "1:1\n1:2", "1:a:b", "0:1:a", "1:1:a\r\n1:1:b", "1:1:" + strings.Repeat("x", maxMailbox+1), many} {
		if marks, err := parseMarks([]byte(text)); err == nil {
			t.Errorf("%q: got %v", text, marks)
		}
	}
	for _, text := range []string{"1:1", "1:1:a", "1:1:a:b\n2:0:支持", "1:0:\\Sent", most} {
		marks, err := parseMarks([]byte(text))
		if err != nil || string(encodeMarks(marks)) != text {
			t.Errorf("%q: got %v, %v", text, marks, err)
		}
	}
	// Of more mailboxes than a cursor may have, those are dropped that the config does not name.
	marks, err := parseMarks([]byte(most))
	if err != nil {
		t.Fatal(err)
	}
	kept := limited(append(marks, mark{"x", cursor{1, 1}}, mark{"y", cursor{1, 1}}), []string{"0", "x", "y"})
	if len(kept) != maxMarks || kept[0].name != "0" || kept[1].name != "3" || kept[maxMarks-1].name != "y" {
		t.Errorf("got %v", kept)
	}
}

func TestMailboxesInConfig(t *testing.T) {
	c := New(fetch.New(fetch.Options{}), source(), Options{})
	for config, want := range map[string]string{
		`"mailboxes":["INBOX","Support"]`:                  "",
		`"mailboxes":["\\Sent","支持","a:b"]`:                "",
		`"mailbox":"\\archive"`:                            "",
		`"mailbox":"\\Inbox"`:                              "config.mailbox: must be a mailbox' name, or one of the uses",
		`"mailboxes":["INBOX","\\Outbox"]`:                 "config.mailboxes: must be a mailbox' name, or one of the uses",
		`"mailbox":"INBOX","mailboxes":["INBOX"]`:          "config.mailboxes: must be left out if mailbox is given",
		`"mailboxes":"INBOX"`:                              "config.mailboxes: must be a list of 1 to 16 strings",
		`"mailboxes":[]`:                                   "config.mailboxes: must be a list of 1 to 16 strings",
		`"mailboxes":["a\nb"]`:                             "config.mailboxes: must be names of one line, from 1 to 200 bytes",
		`"mailboxes":[""]`:                                 "config.mailboxes: must be names of one line, from 1 to 200 bytes",
		`"mailboxes":["` + strings.Repeat("x", 201) + `"]`: "config.mailboxes: must be names of one line, from 1 to 200 bytes",
	} {
		err := c.Validate(json.RawMessage(`{"host":"imap.example.com","user":"a","password":{"secret":"A"},` + config + `}`))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", config, err, want)
		}
	}
}

// Dovecot has names in UTF-7, answers STATUS, and knows which mailbox is \Sent.
func TestMailboxesOfDovecot(t *testing.T) {
	server := dovecottest.Start(t)
	validity := make(map[string]uint32)
	for _, name := range []string{"INBOX", "支持/一 & 二", "Gesendete Objekte"} {
		v, err := server.DeliverTo("a", name, []byte("Subject: in "+name+"\r\n\r\ntext"))
		if err != nil {
			t.Fatal(err)
		}
		validity[name] = v
	}
	checker := New(checktest.Client(t, fetch.Options{}), source(), Options{})
	config := severalOf(server.Port, "a", "INBOX", "支持/一 & 二", `\Sent`)
	result, err := checker.Check(t.Context(), poller.Request{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	var expected []string
	for _, name := range []string{"INBOX", "支持/一 & 二", "Gesendete Objekte"} {
		expected = append(expected, fmt.Sprintf("%d:1:%s", validity[name], name))
	}
	want(t, result, false, strings.Join(expected, "\n"), expected...)
	again, err := checker.Check(t.Context(), poller.Request{Config: config, Cursor: result.Cursor})
	if err != nil {
		t.Fatal(err)
	}
	want(t, again, false, "")
	if _, err := server.DeliverTo("a", "支持/一 & 二", []byte("Subject: more\r\n\r\ntext")); err != nil {
		t.Fatal(err)
	}
	again, err = checker.Check(t.Context(), poller.Request{Config: config, Cursor: result.Cursor})
	if err != nil || len(again.Messages) != 1 || again.Messages[0].ID != fmt.Sprintf("%d:2:支持/一 & 二", validity["支持/一 & 二"]) {
		t.Errorf("got %v, %v", ids(again), err)
	}
	// A held call finds what comes into the first mailbox, whether it is in IDLE by then or not, and what
	// has come into another one before.
	t.Cleanup(checker.lent.closeAll)
	cursor := again.Cursor
	for _, name := range []string{"INBOX", "支持/一 & 二", "INBOX"} {
		delivered := make(chan error, 1)
		deliver := func() {
			_, err := server.DeliverTo("a", name, []byte("Subject: more\r\n\r\ntext"))
			delivered <- err
		}
		if name == "INBOX" {
			go deliver()
		} else {
			deliver()
		}
		held, err := checker.Check(t.Context(), poller.Request{Account: "a", Config: config, Cursor: cursor, Hold: time.Hour})
		if err := errors.Join(err, <-delivered); err != nil || len(held.Messages) != 1 {
			t.Fatalf("%s: got %v, %v", name, ids(held), err)
		}
		cursor = held.Cursor
	}
	_, err = checker.Check(t.Context(), poller.Request{Config: severalOf(server.Port, "a", "INBOX", "Nowhere")})
	if failed := checktest.Failure(t, err); failed.Kind != poller.ConfigInvalid || failed.Code != "nonexistent" || !strings.HasPrefix(failed.Message, `config.mailboxes: "Nowhere": there is no such mailbox: `) {
		t.Errorf("got %v", failed)
	}
}
