package imap

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/dovecottest"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
)

// The check tells a server that offers ID the name and the version before it opens a
// mailbox. The server of NetEase opens none otherwise.
func TestIdentifies(t *testing.T) {
	for _, encryption := range []string{"implicit", "none"} {
		s := start(t, encryption)
		s.Post("a", 1)
		checker := New(checktest.Client(t, fetch.Options{UserAgent: fetch.UserAgent("1.2.3", "", "")}), source(), Options{Roots: s.Roots})
		result, err := checker.Check(t.Context(), poller.Request{Config: configOf(s, encryption, "a", "GOOD")})
		if err != nil || len(result.Messages) != 1 || s.ID() != `("name" "rounds" "version" "1.2.3")` {
			t.Errorf("%s: got %v, %v; the server was told %s", encryption, ids(result), err, s.ID())
		}
	}
}

// What a server answers to ID does not matter, as long as it answers.
func TestAnswersToID(t *testing.T) {
	const offers = "* OK [CAPABILITY IMAP4rev1 ID] ready\r\n"
	answers := map[string]string{
		"LOGIN": "{tag} OK [CAPABILITY IMAP4rev1 ID] in\r\n", "EXAMINE": twoMails,
		"SEARCH": "* SEARCH 4 5\r\n{tag} OK done\r\n", "FETCH": mailAt(4) + mailAt(5) + "{tag} OK done\r\n",
	}
	for name, c := range map[string]struct{ answer, want string }{
		"its name":          {"* ID (\"name\" \"x\" \"vendor\" \"y\")\r\n{tag} OK done\r\n", "7:4 7:5"},
		"nothing":           {"{tag} OK done\r\n", "7:4 7:5"},
		"NIL":               {"* ID NIL\r\n{tag} OK done\r\n", "7:4 7:5"},
		"nil":               {"* id nil\r\n{tag} OK done\r\n", "7:4 7:5"},
		"a value of NIL":    {"* ID (\"name\" NIL)\r\n{tag} OK done\r\n", "7:4 7:5"},
		"no pairs":          {"* ID ()\r\n{tag} OK done\r\n", "7:4 7:5"},
		"a value too much":  {"* ID (\"name\")\r\n{tag} OK done\r\n", "7:4 7:5"},
		"a literal":         {"* ID (\"name\" {3}\r\nx\r\n)\r\n{tag} OK done\r\n", "7:4 7:5"},
		"no":                {"{tag} NO no\r\n", "7:4 7:5"},
		"bad":               {"{tag} BAD unknown\r\n", "7:4 7:5"},
		"an end":            {"", "transient reset"},
		"lists in lists":    {"* ID " + strings.Repeat("(", 1<<20), "protocol protocol"},
		"what is unlimited": {"* ID (\"" + strings.Repeat("x", 9<<20), "protocol"},
	} {
		answers := maps.Clone(answers)
		if c.answer != "" {
			answers["ID"] = c.answer
		}
		result, err := scripted(t, offers, answers)
		got := strings.Join(ids(result), " ")
		if err != nil {
			failed := checktest.Failure(t, err)
			got = string(failed.Kind) + " " + failed.Code
		}
		if got != c.want && !(c.want == "protocol" && strings.HasPrefix(got, "protocol ")) {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// A NO without a code does not tell whether the mailbox exists. LIST does.
func TestMailboxThatDoesNotOpen(t *testing.T) {
	const no = "{tag} NO Mailbox doesn't exist: INBOX (0.001 + 0.000 secs).\r\n"
	for name, c := range map[string]struct{ examine, list, want string }{
		"none":              {no, "{tag} OK done\r\n", "config nonexistent config.mailbox: there is no such mailbox: NO: Mailbox doesn't exist: INBOX (0.001 + 0.000 secs)."},
		"only the name":     {no, "* LIST (\\NonExistent) \"/\" INBOX\r\n{tag} OK done\r\n", "config nonexistent config.mailbox: there is no such mailbox"},
		"another":           {no, "* LIST () \"/\" INBOXES\r\n{tag} OK done\r\n", "config nonexistent config.mailbox: there is no such mailbox"},
		"only a folder":     {no, "* LIST (\\Noselect) \"/\" INBOX\r\n{tag} OK done\r\n", "config cannot config.mailbox: it only holds other mailboxes"},
		"it exists":         {"{tag} NO EXAMINE Unsafe Login\r\n", "* LIST () \"/\" Inbox\r\n{tag} OK done\r\n", "transient imap_no mailbox: the server refused to open it: NO: EXAMINE Unsafe Login"},
		"LIST is refused":   {no, "{tag} NO later\r\n", "transient imap_no mailbox: the server refused to open it: NO: Mailbox doesn't"},
		"LIST is cut":       {no, "", "transient imap_no mailbox: the server refused to open it: NO: Mailbox doesn't"},
		"LIST has no sense": {no, "* LIST x\r\n", "transient imap_no mailbox: the server refused to open it: NO: Mailbox doesn't"},
		"it says so":        {"{tag} NO [NONEXISTENT] no\r\n", "* LIST () \"/\" INBOX\r\n{tag} OK done\r\n", "config nonexistent config.mailbox: there is no such mailbox: NO [NONEXISTENT]: no"},
		"bad":               {"{tag} BAD no\r\n", "", "protocol imap_bad mailbox: the server refused: BAD: no"},
	} {
		answers := map[string]string{"LOGIN": loggedIn, "EXAMINE": c.examine, "LIST": c.list}
		if c.list == "" {
			delete(answers, "LIST")
		}
		_, err := scripted(t, greeting, answers)
		failed := checktest.Failure(t, err)
		if got := string(failed.Kind) + " " + failed.Code + " " + failed.Message; !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// The server's words are one printable line, and do not repeat the password in any form.
func TestWordsOfTheServer(t *testing.T) {
	for said, want := range map[string]string{
		"Unsafe Login. Please contact kefu@example.com":      "NO: Unsafe Login. Please contact kefu@example.com",
		"Web login required: https://mail.example.com/a?b=c": "NO: Web login required: https://mail.example.com/a?b=c",
		"a \x1b[31m\tred\u202e  line":                        "NO: a [31m red line",
		strings.Repeat("长", maxSaid+1):                       "NO: " + strings.Repeat("长", maxSaid) + "…",
		"\xc4\xe3 x":                                         "NO: x",
		"login a " + imapd.Password:                          "NO",
		strings.ToUpper(imapd.Password):                      "NO",
		"AGEAY29ycmVjdC1ob3JzZS1iYXR0ZXJ5":                   "NO", // \0a\0 and the password
		"token= x":                                           "NO",
	} {
		_, err := scripted(t, greeting, map[string]string{"LOGIN": "{tag} NO " + said + "\r\n"})
		failed := checktest.Failure(t, err)
		if got := strings.TrimPrefix(failed.Message, "login: the server refused user or password: "); got != want {
			t.Errorf("%q: got %q", said, got)
		}
	}
}

// Dovecot as a stranger knows it: a mailbox that does not exist, a wrong password, and
// cursors.
func TestRefusalsOfDovecot(t *testing.T) {
	server := dovecottest.Start(t)
	if _, err := server.Deliver("a", []byte("Subject: x\r\n\r\ntext")); err != nil {
		t.Fatal(err)
	}
	checker := New(checktest.Client(t, fetch.Options{}), source(), Options{})
	for name, c := range map[string]struct{ secret, mailbox, want string }{
		"no mailbox":     {"GOOD", "Nobody's", "config nonexistent config.mailbox: there is no such mailbox: NO: Mailbox doesn't exist: Nobody's"},
		"a wildcard":     {"GOOD", "IN%", "config nonexistent config.mailbox: there is no such mailbox: NO"},
		"a wrong secret": {"WRONG", "INBOX", "auth authenticationfailed login: the server refused user or password: NO [AUTHENTICATIONFAILED]: Authentication failed."},
		"a case":         {"GOOD", "inbox", ""},
	} {
		result, err := checker.Check(t.Context(), poller.Request{Config: dovecotConfig(server, "a", c.secret, c.mailbox)})
		if c.want == "" {
			if err != nil || len(result.Messages) != 1 {
				t.Errorf("%s: got %v, %v", name, ids(result), err)
			}
			continue
		}
		failed := checktest.Failure(t, err)
		if got := string(failed.Kind) + " " + failed.Code + " " + failed.Message; !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// The suite that every kind passes, against a server that others wrote.
func TestSuiteOnDovecot(t *testing.T) {
	checktest.Run(t, checktest.Kind{
		Start: func(t *testing.T) checktest.Party {
			server := dovecottest.Start(t)
			checker := New(checktest.Client(t, fetch.Options{}), source(), Options{})
			return checktest.Party{
				New:    func() poller.Checker { return checker },
				Config: func(account string) json.RawMessage { return dovecotConfig(server, account, "GOOD", "INBOX") },
				Post: func(account string, n int) {
					mails := make([][]byte, n)
					for i := range mails {
						mails[i] = fmt.Appendf(nil, "From: a@example.com\r\nSubject: mail %d\r\n\r\nHello\r\n", i)
					}
					if _, err := server.Deliver(account, mails...); err != nil {
						t.Error(err)
					}
				},
				Faults: []checktest.Fault{{Name: "no answer", Hangs: true, Break: func(string) {
					if err := server.Pause(); err != nil {
						t.Error(err)
					}
				}}},
				Heal: func(string) {
					if err := server.Resume(); err != nil {
						t.Error(err)
					}
				},
				Secrets: []string{dovecottest.Password},
			}
		},
		Invalid: []string{`{"host":"imap.example.com"}`},
		Faulty:  `{"host":"a:993","port":0}`,
		Fields:  []string{"config.host", "config.port"},
	})
}
