package imap

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
)

// scripted checks an account at a server that greets and has one answer for each command's
// name. {tag} stands for the command's tag, and {end} ends the connection, as does a command without
// an answer. {then} is before the answer to the same command's next time, and {pause} divides what is
// sent at once.
func scripted(t *testing.T, greeting string, answers map[string]string) (result poller.Result, err error) {
	t.Helper()
	return scriptedHold(t, 0, greeting, answers)
}

// scriptedHold is scripted for a call that may be held.
func scriptedHold(t *testing.T, hold time.Duration, greeting string, answers map[string]string) (result poller.Result, err error) {
	t.Helper()
	config := func(port int) json.RawMessage {
		return fmt.Appendf(nil, `{"host":"127.0.0.1","port":%d,"tls":"none","user":"a","password":{"secret":"GOOD"}}`, port)
	}
	return scriptedFor(t, config, "7:3", hold, greeting, answers)
}

// scriptedFor is scripted with a config and a cursor, for a call that may be held.
func scriptedFor(t *testing.T, config func(port int) json.RawMessage, cursor string, hold time.Duration, greeting string, answers map[string]string) (result poller.Result, err error) {
	t.Helper()
	talk(t, greeting, answers, func(port int) {
		c := New(checktest.Client(t, fetch.Options{}), source(), Options{})
		defer c.lent.closeAll()
		result, err = c.Check(t.Context(), poller.Request{Config: config(port), Cursor: []byte(cursor), Limit: 10, Hold: hold})
	})
	return result, err
}

// talk serves one connection as scripted says, while it calls with with the port.
func talk(t *testing.T, greeting string, answers map[string]string, with func(port int)) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprint(conn, greeting)
		asked := make(map[string]int) // by a command's name
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			tag, rest, _ := strings.Cut(lines.Text(), " ")
			name, rest, _ := strings.Cut(rest, " ")
			if name == "UID" {
				name, _, _ = strings.Cut(rest, " ")
			}
			answer, ok := answers[name]
			if !ok {
				return
			}
			times := strings.Split(answer, "{then}")
			answer = times[min(asked[name], len(times)-1)]
			asked[name]++
			answer, ends := strings.CutSuffix(answer, "{end}")
			for piece := range strings.SplitSeq(strings.ReplaceAll(answer, "{tag}", tag), "{pause}") {
				_, _ = fmt.Fprint(conn, piece)
			}
			if ends {
				return
			}
		}
	})
	defer serving.Wait()
	defer listener.Close()
	with(listener.Addr().(*net.TCPAddr).Port)
}

const (
	greeting  = "* OK [CAPABILITY IMAP4rev1] ready\r\n"
	loggedIn  = "{tag} OK [CAPABILITY IMAP4rev1] in\r\n"
	twoMails  = "* 2 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 6] n\r\n{tag} OK [READ-ONLY] done\r\n"
	withoutID = "* 2 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n{tag} OK [READ-ONLY] done\r\n"
)

func mailAt(uid int) string {
	return fmt.Sprintf("* 1 FETCH (UID %d RFC822.SIZE 14 INTERNALDATE \"17-Jul-1996 02:44:25 -0700\" BODY[]<0> {14}\r\nSubject: x\r\n\r\n)\r\n", uid)
}

func TestAnswers(t *testing.T) {
	good := func(changes ...string) map[string]string {
		answers := map[string]string{
			"LOGIN": loggedIn, "EXAMINE": twoMails, "SEARCH": "* SEARCH 4 5\r\n{tag} OK done\r\n", "FETCH": mailAt(4) + mailAt(5) + "{tag} OK done\r\n",
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
		"good":                     {good(), "7:4 7:5"},
		"in any order":             {good("SEARCH", "* SEARCH 5 4\r\n{tag} OK done\r\n", "FETCH", mailAt(5)+mailAt(4)+"{tag} OK done\r\n"), "7:4 7:5"},
		"more than asked for":      {good("SEARCH", "* SEARCH 1 2 3 4 99\r\n{tag} OK done\r\n", "FETCH", mailAt(4)+mailAt(3)+"{tag} OK done\r\n"), "7:4"},
		"only what is known":       {good("EXAMINE", withoutID, "SEARCH", "* SEARCH 3\r\n{tag} OK done\r\n"), ""},
		"no UIDNEXT":               {good("EXAMINE", withoutID), "7:4 7:5"},
		"UIDNEXT is too small":     {good("EXAMINE", strings.ReplaceAll(twoMails, "NEXT 6", "NEXT 4")), ""},
		"one is gone":              {good("FETCH", mailAt(5)+"{tag} OK done\r\n"), "7:5"},
		"flags in between":         {good("FETCH", "* 9 FETCH (FLAGS (\\Seen))\r\n"+mailAt(4)+"* 1 EXPUNGE\r\n* 5 EXISTS\r\n"+mailAt(5)+"{tag} OK done\r\n"), "7:4 7:5"},
		"flags first":              {good("FETCH", "* 1 FETCH (UID 4 FLAGS (\\Seen))\r\n"+mailAt(4)+mailAt(5)+"{tag} OK done\r\n"), "protocol protocol"},
		"a text that is NIL":       {good("FETCH", "* 1 FETCH (UID 4 BODY[]<0> NIL)\r\n{tag} OK done\r\n"), "protocol protocol"},
		"a huge range":             {good("SEARCH", "* ESEARCH (TAG \"{tag}\") UID ALL 1:4294967295\r\n{tag} OK done\r\n"), "7:4 7:5"},
		"numbers that are no UIDs": {good("SEARCH", "* ESEARCH (TAG \"{tag}\") ALL 1:2\r\n{tag} OK done\r\n"), "protocol protocol"},
		// Gmail: https://github.com/jstedfast/MailKit/issues/1396
		"throttled, and in order":       {good("LOGIN", "{tag} OK [CAPABILITY IMAP4rev1] Success [THROTTLED]\r\n", "SEARCH", "* SEARCH 4 5\r\n{tag} OK Success [THROTTLED]\r\n"), "7:4 7:5"},
		"no UIDVALIDITY":                {good("EXAMINE", "* 2 EXISTS\r\n{tag} OK done\r\n"), "protocol protocol"},
		"expunged meanwhile":            {good("FETCH", "{tag} NO [EXPUNGEISSUED] gone\r\n"), "transient expungeissued"},
		"search is refused":             {good("SEARCH", "{tag} NO [SERVERBUG] no\r\n"), "transient serverbug"},
		"too many at login":             {good("LOGIN", "* BYE too many connections\r\n{tag} NO bye\r\n"), "rate_limited bye"},
		"too many, and the wrong code":  {good("LOGIN", "* BYE too many connections\r\n{tag} NO [AUTHENTICATIONFAILED] bye\r\n"), "rate_limited bye"},
		"too many, and away":            {good("LOGIN", "* BYE [LIMIT] no\r\n{end}"), "rate_limited limit"},
		"goodbye at login":              {good("LOGIN", "* BYE shutting down\r\n{tag} NO bye\r\n"), "transient bye"},
		"goodbye after the refusal":     {good("LOGIN", "{tag} NO wrong\r\n* BYE enough\r\n{end}"), "auth imap_no"},
		"throttled, and away":           {good("EXAMINE", "{tag} BAD Request is throttled. Suggested Backoff Time: 89117 milliseconds\r\n* BYE Connection closed. 14\r\n{end}"), "rate_limited imap_bad"},
		"goodbye to a wrong password":   {good("LOGIN", "* bye enough\r\n{tag} NO [AUTHENTICATIONFAILED] wrong\r\n"), "auth authenticationfailed"},
		"goodbye in a mail":             {good("FETCH", strings.Replace(mailAt(4), "{14}\r\nSubject: x\r\n\r\n", "{27}\r\n\r\n* BYE [LIMIT] no\r\nHello\r\n", 1)+"{tag} NO gone\r\n"), "transient imap_no"},
		"goodbye and away":              {map[string]string{}, "transient reset"},
		"an answer to another command":  {good("LOGIN", "T99 OK\r\n"), "protocol protocol"},
		"a continuation nobody wanted":  {good("LOGIN", "+ go on\r\n"), "protocol protocol"},
		"a number that is none":         {good("SEARCH", "* SEARCH 4 x\r\n"), "protocol protocol"},
		"a number that is far too long": {good("SEARCH", "* SEARCH 99999999999\r\n"), "protocol protocol"},
		"a literal that never ends":     {good("FETCH", "* 1 FETCH (UID 4 BODY[]<0> {9999999999}\r\n"+strings.Repeat("x", 9<<20)), "protocol too_large"},
		"lists in lists":                {good("FETCH", "* 1 FETCH (UID 4 BODYSTRUCTURE "+strings.Repeat("(", 1<<20)), "protocol protocol"},
		"lists behind a text":           {good("FETCH", "* OK {9999999}\r\n* 1 FETCH (UID 4 BODYSTRUCTURE "+strings.Repeat("(", 1<<20)), "protocol protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := scripted(t, greeting, c.answers)
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

func TestGreetings(t *testing.T) {
	for greeting, want := range map[string]string{
		"* BYE [UNAVAILABLE] key=" + checktest.Hidden + "\r\n": "transient unavailable rate_key",
		"* BYE key=" + checktest.Hidden + "\r\n":               "transient bye rate_key",
		"":                                                     "transient reset rate_key",
		"HTTP/1.1 400 " + checktest.Hidden + "\r\n\r\n": "protocol protocol ",
		"220 smtp.example.com\r\n":                      "protocol protocol ",
	} {
		if greeting == "" {
			continue
		}
		_, err := scripted(t, greeting, nil)
		got := checktest.Failure(t, err)
		if text := string(got.Kind) + " " + got.Code + " " + string(got.Scope); text != want || strings.Contains(got.Error(), checktest.Hidden) {
			t.Errorf("%q: got %q, %v", greeting, text, got)
		}
	}
	result, err := scripted(t, "* PREAUTH [CAPABILITY IMAP4rev1] hello\r\n", map[string]string{
		"EXAMINE": twoMails, "SEARCH": "* SEARCH 4 5\r\n{tag} OK done\r\n", "FETCH": mailAt(4) + mailAt(5) + "{tag} OK done\r\n",
	})
	if err != nil || len(result.Messages) != 2 {
		t.Errorf("PREAUTH: got %v, %v", ids(result), err)
	}
	result, err = scripted(t, "* OK [CAPABILITY IMAP4rev1 LOGINDISABLED AUTH=PLAIN SASL-IR] hello\r\n", map[string]string{
		"AUTHENTICATE": loggedIn, "EXAMINE": twoMails, "SEARCH": "* SEARCH 4 5\r\n{tag} OK done\r\n", "FETCH": mailAt(4) + mailAt(5) + "{tag} OK done\r\n",
	})
	if err != nil || len(result.Messages) != 2 {
		t.Errorf("SASL: got %v, %v", ids(result), err)
	}
}
