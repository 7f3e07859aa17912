package telegram

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/upstream/telegram"
)

// Long days, and addresses, of which one is tried after another, run without the race detector. Other
// tests do the same steps with it.
func TestMain(m *testing.M) {
	faketime.Lean()
	goleak.VerifyTestMain(processes.Apart(m, "TestSentAgainIsWrittenOnce", "TestNothingIsLostAfterAQuietWeek", "TestAddresses", "TestFileAddresses"))
}

// tokenOf returns the token of an account, which is stored as the secret T_account.
func tokenOf(account string) string { return "7654321098:t0ken-of-" + account }

// source has the tokens of all accounts.
func source() secrets.Source {
	return secrets.Source{Lookup: func(name string) (string, bool) {
		account, ok := strings.CutPrefix(name, secrets.EnvPrefix+"T_")
		if account == "bad" {
			return "../" + account, ok
		}
		return tokenOf(account), ok
	}}
}

func configOf(base, account, more string) json.RawMessage {
	raw := fmt.Sprintf(`{"token": {"secret": "T_%s"}%s`, account, more)
	if base != "" {
		raw += fmt.Sprintf(`, "base_url": %q`, base)
	}
	return json.RawMessage(raw + "}")
}

func TestSuite(t *testing.T) {
	checktest.Run(t, checktest.Kind{
		Start: startParty,
		Invalid: []string{
			string(configOf("http://user:"+checktest.Hidden+"@example.com/", "a", "")),
			string(configOf("https://example.com/?q="+checktest.Hidden, "a", "")),
			`{"token": "` + checktest.Hidden + `"}`,
			`{"token": null}`,
			`{"token": {"secret": "T"}, "base_url": 7}`,
			`{"token": {"secret": "T"}, "allowed_updates": 7}`,
			`{"token": {"secret": "T"}, "allowed_updates": ["` + checktest.Hidden + `"]}`,
			`{"token": {"secret": "T"}, "allowed_updates": "message,"}`,
		},
		Faulty: `{"token": "x", "base_url": "gopher://x", "allowed_updates": {}, "zebra": 1}`,
		Fields: []string{"config.token", "config.base_url", "config.allowed_updates", "config.zebra"},
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
			return configOf(base, "a", "")
		},
		Secret: tokenOf("a"),
	}
}

func TestTheFieldsAreThoseOfValidate(t *testing.T) {
	checktest.Declared(t, New(checktest.Client(t, fetch.Options{}), secrets.Source{}), ".")
}

func startParty(t *testing.T) checktest.Party {
	w, stop, err := telegram.Serve(telegram.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	client := checktest.Client(t, fetch.Options{})
	fault := func(name string, f telegram.Fault, kind poller.ErrorKind, scope poller.ErrorScope, code string) checktest.Fault {
		return checktest.Fault{Name: name, Kind: kind, Scope: scope, Code: code, Hangs: f.Hang, Break: func(account string) { w.Fail(tokenOf(account), f) }}
	}
	return checktest.Party{
		New: func() poller.Checker { return New(client, source()) },
		Config: func(account string) json.RawMessage {
			w.AddBot(tokenOf(account))
			return configOf(w.URL(), account, "")
		},
		Post: func(account string, n int) {
			w.AddBot(tokenOf(account))
			w.PostN(tokenOf(account), n)
		},
		ID:       telegram.UpdateID,
		Heal:     func(string) { w.Heal() },
		Confirms: true,
		Faults: []checktest.Fault{
			fault("garbage", telegram.Fault{Garbage: true}, poller.Protocol, poller.ScopeRateKey, "protocol"),
			fault("too large", telegram.Fault{Bytes: 9 << 20}, poller.Protocol, poller.ScopeRateKey, "too_large"),
			fault("429 of a gateway", telegram.Fault{Status: 429}, poller.RateLimited, poller.ScopeRateKey, "http_429"),
			fault("429", telegram.Fault{RetryAfter: 17}, poller.RateLimited, poller.ScopeAccount, "telegram_429"),
			fault("503", telegram.Fault{Status: 503}, poller.Transient, poller.ScopeRateKey, "http_503"),
			fault("500", telegram.Fault{Code: 500}, poller.Transient, poller.ScopeRateKey, "telegram_500"),
			fault("401", telegram.Fault{Code: 401}, poller.AuthFailed, poller.ScopeAccount, "telegram_401"),
			fault("404", telegram.Fault{Code: 404}, poller.AuthFailed, poller.ScopeAccount, "telegram_404"),
			fault("404 of a gateway", telegram.Fault{Status: 404}, poller.Transient, poller.ScopeRateKey, "http_404"),
			fault("a moved chat", telegram.Fault{MigrateTo: -100}, poller.Transient, poller.ScopeAccount, "telegram_400"),
			fault("reset", telegram.Fault{Reset: true}, poller.Transient, poller.ScopeRateKey, "reset"),
			fault("no array", telegram.Fault{Body: `{"ok":true,"result":{}}`}, poller.Protocol, poller.ScopeRateKey, "protocol"),
			fault("no id", telegram.Fault{Body: `{"ok":true,"result":[{}]}`}, poller.Protocol, poller.ScopeRateKey, "protocol"),
			fault("hang", telegram.Fault{Hang: true}, "", "", ""),
		},
		Secrets: []string{tokenOf("a"), tokenOf("0")},
	}
}

// asked lets a checker ask the fake once, as a pool does.
func asked(ctx context.Context, w *telegram.Telegram, more string, cursor []byte) (poller.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, hold+10*time.Second)
	defer cancel()
	return New(fetch.New(fetch.Options{Transport: w}), source()).Check(ctx, poller.Request{
		Account: "a", CheckID: "c", Config: configOf("", "a", more), Cursor: cursor, Limit: 200, Attempt: 1, Hold: hold,
	})
}

// offsetOf returns a cursor's offset.
func offsetOf(t *testing.T, raw []byte) string {
	t.Helper()
	c, err := decodeCursor(raw)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatInt(c.Offset, 10)
}

// A conflict is the fault of the bot's setup, and the error says which conflict it is.
func TestAConflictSaysWithWhom(t *testing.T) {
	w := telegram.New(telegram.Options{})
	w.AddBot(tokenOf("a"))
	w.Fail(tokenOf("a"), telegram.Fault{Code: 409})
	_, err := asked(t.Context(), w, "", nil)
	if e := checktest.Failure(t, err); e.Code != "telegram_409_poller" || e.Kind != poller.Transient || e.Scope != poller.ScopeAccount {
		t.Errorf("got %+v", e)
	}
	w.SetWebhook(tokenOf("a"), "https://example.com/hush-hush")
	_, err = asked(t.Context(), w, "", nil)
	if e := checktest.Failure(t, err); e.Code != "telegram_409_webhook" || strings.Contains(e.Message, "hush") {
		t.Errorf("got %+v", e)
	}
	w.Heal()
	w.SetWebhook(tokenOf("a"), "")
	w.Fail(tokenOf("a"), telegram.Fault{RetryAfter: 90_000})
	_, err = asked(t.Context(), w, "", nil)
	if e := checktest.Failure(t, err); e.RetryAfter != fetch.MaxRetryAfter {
		t.Errorf("got %+v", e)
	}
}

func TestWhatIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := telegram.New(telegram.Options{})
		w.AddBot(tokenOf("a"))
		w.Post(tokenOf("a"), "edited_message")
		w.Post(tokenOf("a"), "callback_query")
		r, err := asked(t.Context(), w, `, "allowed_updates": "callback_query, my_chat_member"`, nil)
		if err != nil || len(r.Messages) != 1 || r.Messages[0].Type != "callback_query" || offsetOf(t, r.Cursor) != telegram.UpdateID("", 3) || r.HasMore {
			t.Errorf("got %+v, %v", r, err)
		}
		began := time.Now()
		r, err = asked(t.Context(), w, `, "allowed_updates": ["message"]`, r.Cursor)
		if err != nil || len(r.Messages) != 0 || r.Cursor != nil || time.Since(began) != hold || w.Stats(tokenOf("a")).Kept != 0 {
			t.Errorf("got %+v, %v after %v", r, err, time.Since(began))
		}
	})
}

func TestATokenThatIsNoneIsNotSent(t *testing.T) {
	w := telegram.New(telegram.Options{})
	_, err := New(fetch.New(fetch.Options{Transport: w}), source()).Check(t.Context(), poller.Request{Config: configOf("", "bad", "")})
	if e := checktest.Failure(t, err); e.Kind != poller.AuthFailed || !e.Final || strings.Contains(e.Message, "..") {
		t.Errorf("got %+v", e)
	}
}
