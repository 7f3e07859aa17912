package imap

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/emersion/go-imap/v2"
	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
)

// Large mails, which one goroutine reads, and the suites run without the race detector. It watches the
// suites in telegram, and the pool and every answer here.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(processes.Apart(m, "TestLargeMessages", "TestLargePageOfSeveral", "TestFileSuite", "TestSuite", "TestSendSuite"))
}

// source has the secrets GOOD, WRONG and LINES.
func source() secrets.Source {
	values := map[string]string{
		"ROUNDS_SECRET_GOOD": imapd.Password, "ROUNDS_SECRET_WRONG": "tr0ub4dor&3-wrong", "ROUNDS_SECRET_LINES": "two\nlines",
	}
	return secrets.Source{Lookup: func(name string) (string, bool) { v, ok := values[name]; return v, ok }}
}

func start(t *testing.T, encryption string) *imapd.Server {
	t.Helper()
	s, err := imapd.Start(encryption)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func newChecker(t *testing.T, s *imapd.Server) *Checker {
	t.Helper()
	c := New(checktest.Client(t, fetch.Options{}), source(), Options{Roots: s.Roots})
	t.Cleanup(c.lent.closeAll)
	return c
}

// closeAll closes the connections that wait for a call.
func (l *lent) closeAll() {
	l.mu.Lock()
	accounts := slices.Collect(maps.Keys(l.waiting))
	l.mu.Unlock()
	for _, account := range accounts {
		if s := l.take(account); s != nil {
			s.close()
		}
	}
}

func configOf(s *imapd.Server, encryption, account, secret string) json.RawMessage {
	return fmt.Appendf(nil, `{"host":"127.0.0.1","port":%d,"tls":%q,"user":%q,"password":{"secret":%q}}`, s.Port, encryption, account, secret)
}

func TestSuite(t *testing.T) {
	for _, encryption := range []string{"implicit", "starttls", "none"} {
		t.Run(encryption, func(t *testing.T) {
			checktest.Run(t, checktest.Kind{
				Start: func(t *testing.T) checktest.Party { return party(t, start(t, encryption), encryption) },
				Invalid: []string{
					`{"host":"imap.example.com","user":"a","password":"` + checktest.Hidden + `"}`,
					`{"host":"` + checktest.Hidden + ` x","user":"a","password":{"secret":"A"}}`,
					`{"host":"imap.example.com","user":"` + checktest.Hidden + `\n","password":{"secret":"A"}}`,
					`{"host":"imap.example.com","user":"a","password":{"secret":"A"},"tls":"` + checktest.Hidden + `"}`,
					`{"host":"10.0.0.1","user":"a","password":{"secret":"A"}}`,
				},
				Faulty: `{"host":"a:993","port":0,"tls":"ssl","mailbox":7,"folder":"x"}`,
				Fields: []string{"config.host", "config.port", "config.tls", "config.mailbox", "config.user", "config.password", "config.folder"},
			})
		})
	}
}

func party(t *testing.T, s *imapd.Server, encryption string) checktest.Party {
	fault := func(name string, f imapd.Fault, kind poller.ErrorKind, code string) checktest.Fault {
		return checktest.Fault{Name: name, Break: func(account string) { s.Fail(account, f) }, Kind: kind, Code: code, Hangs: f.Hang != ""}
	}
	no := func(code imap.ResponseCode) *imap.Error {
		return &imap.Error{Type: imap.StatusResponseTypeNo, Code: code, Text: "no: " + imapd.Password + " token= " + checktest.Hidden}
	}
	faults := []checktest.Fault{
		fault("hang at login", imapd.Fault{Hang: "login"}, "", ""),
		fault("hang at select", imapd.Fault{Hang: "select"}, "", ""),
		fault("hang at fetch", imapd.Fault{Hang: "fetch"}, "", ""),
		fault("login refused", imapd.Fault{Login: no(imap.ResponseCodeAuthenticationFailed)}, poller.AuthFailed, "authenticationfailed"),
		fault("login refused without a code", imapd.Fault{Login: no("")}, poller.AuthFailed, "imap_no"),
		fault("login refused with a strange code", imapd.Fault{Login: no(checktest.Hidden)}, poller.AuthFailed, "imap_no"),
		fault("unavailable", imapd.Fault{Login: no(imap.ResponseCodeUnavailable)}, poller.Transient, "unavailable"),
		fault("limit", imapd.Fault{Login: no(imap.ResponseCodeLimit)}, poller.RateLimited, "limit"),
		fault("throttled", imapd.Fault{Select: no("THROTTLED")}, poller.RateLimited, "throttled"),
		fault("over quota", imapd.Fault{Select: no(imap.ResponseCodeOverQuota)}, poller.RateLimited, "overquota"),
		fault("in use", imapd.Fault{Select: no(imap.ResponseCodeInUse)}, poller.Transient, "inuse"),
		fault("no permission", imapd.Fault{Select: no(imap.ResponseCodeNoPerm)}, poller.AuthFailed, "noperm"),
		fault("no mailbox", imapd.Fault{Select: no(imap.ResponseCodeNonExistent)}, poller.ConfigInvalid, "nonexistent"),
		fault("select refused", imapd.Fault{Select: no("")}, poller.Transient, "imap_no"),
		fault("bad", imapd.Fault{Select: &imap.Error{Type: imap.StatusResponseTypeBad, Text: "auth=" + checktest.Hidden}}, poller.Protocol, "imap_bad"),
		fault("privacy required", imapd.Fault{Login: no(imap.ResponseCodePrivacyRequired)}, poller.ConfigInvalid, "privacyrequired"),
		fault("garbage at search", imapd.Fault{Search: "* GARBAGE " + checktest.Hidden + "\r\n"}, poller.Protocol, "protocol"),
		fault("garbage at fetch", imapd.Fault{Fetch: "* 1 FETCH (UID x " + checktest.Hidden + "\r\n"}, poller.Protocol, "protocol"),
		fault("a date that is none", imapd.Fault{Fetch: "* 1 FETCH (UID 1 INTERNALDATE \"" + checktest.Hidden + "\")\r\n"}, poller.Protocol, "protocol"),
		fault("a message too large", imapd.Fault{Bytes: maxRaw + 1}, poller.Protocol, "too_large"),
		fault("far too large", imapd.Fault{Bytes: 64 << 20}, poller.Protocol, "too_large"),
		fault("a line without end", imapd.Fault{Search: "* OK " + strings.Repeat("x", 8<<20)}, poller.Protocol, "too_large"),
		fault("cut", imapd.Fault{Cut: true}, poller.Transient, "reset"),
	}
	checkers := newChecker(t, s)
	return checktest.Party{
		New:    func() poller.Checker { return checkers },
		Config: func(account string) json.RawMessage { return configOf(s, encryption, account, "GOOD") },
		Post:   s.Post,
		ID:     func(_ string, n int) string { return fmt.Sprintf("1:%d", n) },
		Faults: faults, Heal: s.Heal,
		Secrets: []string{imapd.Password},
	}
}
