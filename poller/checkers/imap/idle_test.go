package imap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
)

// held is an account of a fake server whose calls follow one another.
type held struct {
	*testing.T
	server     *imapd.Server
	encryption string
	checker    *Checker
	secret     string
	config     json.RawMessage // nil: that of one mailbox
	cursor     []byte
}

// hold starts a server with an account, and makes the first call, which finds a mail.
func hold(t *testing.T) *held {
	t.Helper()
	return holdOver(t, "implicit")
}

func holdOver(t *testing.T, encryption string) *held {
	t.Helper()
	s := start(t, encryption)
	s.Post("a", 1)
	h := &held{T: t, server: s, encryption: encryption, checker: newChecker(t, s), secret: "GOOD"}
	if got := h.found(h.call(t.Context(), time.Minute)); got != "1:1" {
		t.Fatalf("the first call: %s", got)
	}
	return h
}

func (h *held) call(ctx context.Context, hold time.Duration) (poller.Result, error) {
	config := h.config
	if config == nil {
		config = configOf(h.server, h.encryption, "a", h.secret)
	}
	result, err := h.checker.Check(ctx, poller.Request{Account: "a", Config: config, Cursor: h.cursor, Limit: 10, Hold: hold})
	if result.Cursor != nil {
		h.cursor = result.Cursor
	}
	return result, err
}

// found returns the ids of what a call found, or its error.
func (h *held) found(result poller.Result, err error) string {
	if err != nil {
		var failed *poller.CheckError
		errors.As(err, &failed)
		return string(failed.Kind) + " " + failed.Code
	}
	return strings.Join(ids(result), " ")
}

// when makes a call, and does something once the account is in IDLE.
func (h *held) when(do func()) (poller.Result, error) {
	h.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.server.AwaitIdle(h.Context(), "a", 1); err != nil {
			h.Error(err)
		}
		do()
	}()
	defer func() { <-done }()
	return h.call(h.Context(), time.Hour)
}

// A mail ends the call that waits for it, and all calls share a connection.
func TestIdle(t *testing.T) {
	for _, encryption := range []string{"implicit", "starttls", "none"} {
		t.Run(encryption, func(t *testing.T) { testIdle(holdOver(t, encryption)) })
	}
}

func testIdle(h *held) {
	for n := range 3 {
		if got, want := h.found(h.when(func() { h.server.Post("a", 1) })), fmt.Sprint("1:", n+2); got != want {
			h.Errorf("got %s, want %s", got, want)
		}
	}
	h.server.Post("a", 2) // while no call is under way
	if got := h.found(h.call(h.Context(), time.Hour)); got != "1:5 1:6" {
		h.Errorf("got %s", got)
	}
	if result, err := h.call(h.Context(), time.Millisecond); err != nil || len(result.Messages) > 0 || result.NextPollAfter != 0 {
		h.Errorf("at the end of a hold: %+v, %v", result, err)
	}
	if n := h.server.Logins(); n != 1 {
		h.Errorf("%d logins", n)
	}
}

// A call waits in IDLE on the first of several mailboxes, whichever was read last, and finds at its
// start what has come into the others.
func TestIdleOnTheFirstOfSeveral(t *testing.T) {
	s := startSeveral(t)
	deliver(s, "INBOX", "支持")
	h := &held{T: t, server: s, checker: newChecker(t, s), config: severalOf(s.Port, "a", "INBOX", "支持", `\Sent`)}
	if got := h.found(h.call(t.Context(), time.Hour)); got != "1:1:INBOX 2:1:支持" {
		t.Errorf("the first call: %s", got)
	}
	for n := range 2 {
		s.Opened()
		if got, want := h.found(h.when(func() { deliver(s, "INBOX") })), fmt.Sprintf("1:%d:INBOX", 2*n+2); got != want {
			t.Errorf("in IDLE: got %s, want %s", got, want)
		}
		if opened := s.Opened(); len(opened) > 1 || len(opened) == 1 && opened[0] != "INBOX" {
			t.Errorf("opened %q", opened)
		}
		deliver(s, "支持")
		if got, want := h.found(h.call(t.Context(), time.Hour)), fmt.Sprintf("2:%d:支持", 3*n+2); got != want {
			t.Errorf("in another mailbox: got %s, want %s", got, want)
		}
		deliver(s, "INBOX", "Gesendet")
		if got, want := h.found(h.call(t.Context(), time.Hour)), fmt.Sprintf("3:%d:Gesendet 1:%d:INBOX", n+1, 2*n+3); got != want {
			t.Errorf("in two mailboxes: got %s, want %s", got, want)
		}
		deliver(s, "支持", "支持")
		if got, want := len(strings.Fields(h.found(h.call(t.Context(), time.Hour)))), 2; got != want {
			t.Errorf("%d mails, want %d", got, want)
		}
	}
	if n := s.Logins(); n != 1 {
		t.Errorf("%d logins", n)
	}
}

// A call without a hold leaves no connection behind.
func TestNoIdle(t *testing.T) {
	s := start(t, "implicit")
	s.Post("a", 1)
	c := newChecker(t, s)
	if _, err := c.Check(t.Context(), poller.Request{Account: "a", Config: configOf(s, "implicit", "a", "GOOD")}); err != nil || c.lent.take("a") != nil {
		t.Errorf("got %v", err)
	}
}

// A connection is used for the password and the config that it was made with, and only while it lives.
func TestConnectionsThatAreNotUsedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *held)
		want   string
	}{
		"the connection broke": {func(h *held) { h.server.Cut("a"); <-h.checker.lent.waiting["a"].client.Closed() }, "1:2"},
		"another password":     {func(h *held) { h.secret = "WRONG" }, "auth authenticationfailed"},
		"another cursor":       {func(h *held) { h.cursor = []byte("9:9") }, "1:1 1:2"},
	} {
		t.Run(name, func(t *testing.T) {
			h := hold(t)
			c.change(h)
			h.server.Post("a", 1)
			if got := h.found(h.call(t.Context(), time.Hour)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// An account keeps one connection, also if a claim was lost and two calls end one after the other.
func TestOneConnectionIsKept(t *testing.T) {
	h := hold(t)
	first := h.checker.lent.take("a")
	if got := h.found(h.call(t.Context(), time.Millisecond)); got != "" {
		t.Fatal(got)
	}
	second := h.checker.lent.waiting["a"]
	first.conn.bind(t.Context(), overhead)
	h.checker.lent.keep("a", first)
	_, _ = io.Copy(io.Discard, second.conn) // until it is closed
	h.server.Post("a", 1)
	if got := h.found(h.call(t.Context(), time.Hour)); got != "1:2" {
		t.Error(got)
	}
	if n := h.server.Logins(); n != 2 {
		t.Errorf("%d logins", n)
	}
}

// The pool takes a connection that breaks, or a server that goes away, for the end of a hold.
func TestIdleIsCut(t *testing.T) {
	h := hold(t)
	if got := h.found(h.when(func() { h.server.Cut("a") })); got != "transient reset" {
		t.Errorf("got %s", got)
	}
	h.server.Post("a", 1)
	if got := h.found(h.call(t.Context(), time.Hour)); got != "1:2" {
		t.Errorf("got %s", got)
	}
}

// A call that is called off ends at once, with its connection.
func TestIdleIsCalledOff(t *testing.T) {
	h := hold(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_ = h.server.AwaitIdle(t.Context(), "a", 1)
		cancel()
	}()
	if _, err := h.call(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if h.checker.lent.take("a") != nil {
		t.Error("its connection was kept")
	}
	if err := h.server.AwaitIdle(t.Context(), "a", 0); err != nil {
		t.Error(err)
	}
}

// A server that always says that there are mails does not make a call look for ever.
func TestIdleWithoutMail(t *testing.T) {
	h := hold(t)
	h.server.Fail("a", imapd.Fault{Exists: 5})
	if got := h.found(h.call(t.Context(), time.Hour)); got != "" {
		t.Errorf("got %s", got)
	}
	h.server.Heal("a")
	if got := h.found(h.when(func() { h.server.Post("a", 1) })); got != "1:2" {
		t.Errorf("got %s", got)
	}
}

// A mailbox whose server has no IDLE, or refuses it, is polled.
func TestServersWithoutIdle(t *testing.T) {
	const offers = "{tag} OK [CAPABILITY IMAP4rev1 IDLE] in\r\n"
	none, two := "* SEARCH\r\n{tag} OK done\r\n", "* SEARCH 4 5\r\n{tag} OK done\r\n"
	for name, c := range map[string]struct{ login, search, idle, want string }{
		"not offered":           {loggedIn, none, "", ""},
		"not offered, and mail": {loggedIn, two, "", "7:4 7:5"},
		"refused":               {offers, none, "{tag} NO not now\r\n", ""},
		"unknown":               {offers, none, "{tag} BAD unknown\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := scriptedHold(t, time.Hour, greeting, map[string]string{
				"LOGIN": c.login, "EXAMINE": twoMails, "SEARCH": c.search, "FETCH": mailAt(4) + mailAt(5) + "{tag} OK done\r\n", "IDLE": c.idle,
			})
			if got := strings.Join(ids(result), " "); err != nil || got != c.want || result.NextPollAfter != pollPause {
				t.Errorf("got %q, %v, again after %v", got, err, result.NextPollAfter)
			}
		})
	}
}

// What a server says in IDLE is bounded, and what is no IMAP ends the call.
func TestAnswersToIdle(t *testing.T) {
	for name, c := range map[string]struct{ idle, want string }{
		"goodbye":         {"+ idling\r\n* BYE timeout\r\n", "reset"},
		"too many":        {"+ idling\r\n* BYE Too many simultaneous connections. (Failure)\r\n", "bye"},
		"no continuation": {"* 3 EXISTS\r\n", "reset"},
		"what is unknown": {"+ idling\r\n* GARBAGE x\r\n", "reset"},
		"another tag":     {"+ idling\r\nT7 OK done\r\n", "protocol"},
		"its own end":     {"+ idling\r\nI1 OK enough\r\n", "protocol"},
		"a word too much": {"go on\r\n", "protocol"},
		"lists in lists":  {"+ idling\r\n* 1 FETCH (BODYSTRUCTURE " + strings.Repeat("(", 1<<20), "protocol"},
		"without end":     {"+ idling\r\n" + strings.Repeat("* OK Still here\r\n", 1<<16), "too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scriptedHold(t, time.Hour, greeting, map[string]string{
				"LOGIN": "{tag} OK [CAPABILITY IMAP4rev1 IDLE] in\r\n", "EXAMINE": twoMails, "SEARCH": "* SEARCH\r\n{tag} OK done\r\n", "IDLE": c.idle + "{end}",
			})
			if failed := checktest.Failure(t, err); failed.Code != c.want {
				t.Errorf("got %s, %v; want %s", failed.Code, failed, c.want)
			}
		})
	}
}

// Whatever else a server says in IDLE, and in however many pieces, its mails are found.
func TestIdleHearsMail(t *testing.T) {
	for name, said := range map[string]string{
		"with the answer":  "+ idling\r\n* 3 EXISTS\r\n",
		"after other news": "* 2 RECENT\r\n+ idling\r\n* OK Still here\r\n* 1 FETCH (FLAGS (\\Seen))\r\n* 1 EXPUNGE\r\n* 4 exists\r\n",
		"before":           "* 3 EXISTS\r\n+ idling\r\n",
		"in pieces":        "+ idling\r\n* OK Sti{pause}ll here\r\n* 3 EXI{pause}STS\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			result, err := scriptedHold(t, time.Hour, greeting, map[string]string{
				"LOGIN": "{tag} OK [CAPABILITY IMAP4rev1 IDLE] in\r\n", "EXAMINE": twoMails, "IDLE": said, "": "* 3 EXISTS\r\nI1 OK done\r\n",
				"SEARCH": "* SEARCH\r\n{tag} OK done\r\n{then}* SEARCH 6\r\n{tag} OK done\r\n", "FETCH": mailAt(6) + "{tag} OK done\r\n",
			})
			if got := strings.Join(ids(result), " "); err != nil || got != "7:6" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
