package weixin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
)

// Long days, answers that cost much memory, and files run without the race detector. Tests of a page in
// hand and of what else a pool does with these accounts do the same steps with it, and telegram has it
// watch the suite of files.
func TestMain(m *testing.M) {
	faketime.Lean()
	goleak.VerifyTestMain(processes.Apart(m, "TestGivenAgainIsWrittenOnce", "TestALostPageIsAskedForAgain", "TestAnAnswerThatHasBegunIsKept",
		"TestThePageInHandIsCommittedAgain", "TestHostileAnswers", "TestFileSuite", "TestFileAddresses"))
}

// tokenOf returns the token of an account, which is stored as the secret T_account.
func tokenOf(account string) string { return "t0ken-of-" + account + "@im.bot" }

// source has the tokens of all accounts.
func source() secrets.Source {
	return secrets.Source{Lookup: func(name string) (string, bool) {
		account, ok := strings.CutPrefix(name, secrets.EnvPrefix+"T_")
		return tokenOf(account), ok
	}}
}

func configOf(base, account string) json.RawMessage {
	raw := fmt.Sprintf(`{"token": {"secret": "T_%s"}`, account)
	if base != "" {
		raw += fmt.Sprintf(`, "base_url": %q`, base)
	}
	return json.RawMessage(raw + "}")
}

func TestSuite(t *testing.T) {
	checktest.Run(t, checktest.Kind{
		Start: startParty,
		Invalid: []string{
			string(configOf("http://user:"+checktest.Hidden+"@example.com/", "a")),
			string(configOf("https://example.com/?q="+checktest.Hidden, "a")),
			string(configOf("https://example.com/#"+checktest.Hidden, "a")),
			`{"token": "` + checktest.Hidden + `"}`,
			`{"token": {"secret": "` + checktest.Hidden + ` "}}`,
			`{"token": null}`,
			`{"token": {"secret": "T"}, "base_url": 7}`,
			`{"token": {"secret": "T"}, "bot_agent": "` + checktest.Hidden + `"}`,
			`{"token": {"secret": "T"}, "bot_agent": "名/1"}`,
			`{"token": {"secret": "T"}, "bot_agent": "a/1` + strings.Repeat(" a/1", 70) + `"}`,
		},
		Faulty: `{"token": "x", "base_url": "gopher://x", "bot_agent": "", "zebra": 1}`,
		Fields: []string{"config.token", "config.base_url", "config.bot_agent", "config.zebra"},
	})
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	checktest.RunAddresses(t, addresses())
}

// addresses are how the kind is called.
func addresses() checktest.HTTP {
	return checktest.HTTP{
		New:         func(client *fetch.Client) poller.Checker { return New(client, source()) },
		WithSecrets: func(client *fetch.Client, s secrets.Source) poller.Checker { return New(client, s) },
		Values:      source().Lookup,
		Config: func(url string) json.RawMessage {
			base, _, _ := strings.Cut(url, "?")
			return configOf(base, "a")
		},
		Secret: tokenOf("a"),
	}
}

func TestTheFieldsAreThoseOfValidate(t *testing.T) {
	checktest.Declared(t, New(checktest.Client(t, fetch.Options{}), secrets.Source{}), ".")
}

func startParty(t *testing.T) checktest.Party {
	w, stop, err := ilinkd.Serve(ilink.Options{Hold: -1, Page: 7})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	client := checktest.Client(t, fetch.Options{})
	fault := func(name string, f ilinkd.Fault, kind poller.ErrorKind, scope poller.ErrorScope, code string) checktest.Fault {
		return checktest.Fault{Name: name, Kind: kind, Scope: scope, Code: code, Hangs: f.Hang || f.Drip, Break: func(string) { w.Fail(ilinkd.GetUpdates, f) }}
	}
	return checktest.Party{
		New: func() poller.Checker { return New(client, source()) },
		Config: func(account string) json.RawMessage {
			w.AddBot(tokenOf(account))
			return configOf(w.URL(), account)
		},
		Post: func(account string, n int) {
			w.AddBot(tokenOf(account))
			w.PostN(tokenOf(account), n)
		},
		ID:   ilink.MessageID,
		Heal: func(string) { w.Heal() },
		Hold: time.Second, Once: true,
		Faults: []checktest.Fault{
			fault("garbage", ilinkd.Fault{Garbage: true}, poller.Protocol, poller.ScopeRateKey, "protocol"),
			fault("too large", ilinkd.Fault{Bytes: 9 << 20}, poller.Protocol, poller.ScopeRateKey, "too_large"),
			fault("429", ilinkd.Fault{Status: 429}, poller.RateLimited, poller.ScopeRateKey, "http_429"),
			fault("524", ilinkd.Fault{Status: 524}, poller.Transient, poller.ScopeRateKey, "http_524"),
			fault("401", ilinkd.Fault{Status: 401}, poller.AuthFailed, poller.ScopeAccount, "http_401"),
			fault("reset", ilinkd.Fault{Reset: true}, poller.Transient, poller.ScopeRateKey, "reset"),
			fault("stale", ilinkd.Fault{Code: -14}, poller.AuthFailed, poller.ScopeAccount, "weixin_-14"),
			fault("unheard of", ilinkd.Fault{Code: -99}, poller.Transient, poller.ScopeAccount, "weixin_-99"),
			fault("hang", ilinkd.Fault{Hang: true}, "", "", ""),
		},
		Secrets: []string{tokenOf("a"), tokenOf("0")},
	}
}
