package wecomkf

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

// Hours of pools run without the race detector, which watches the checker where many ask at
// once, and pools in their own tests. It watches the suite of files in telegram.
func TestMain(m *testing.M) {
	faketime.Lean()
	goleak.VerifyTestMain(processes.Apart(m, "TestPools", "TestGivenAgainIsWrittenOnce", "TestTokensAreRefreshedInTime",
		"TestCatchingUpKeepsTheLimit", "TestSendAddresses", "TestFileSuite"))
}

const (
	corp   = "ww0123456789abcdef"
	secret = "s3cret-of-the-corporation"
)

// source has one secret, KF.
func source(value string) secrets.Source {
	return secrets.Source{Lookup: func(name string) (string, bool) { return value, name == "ROUNDS_SECRET_KF" }}
}

func configOf(base, openKfID string) json.RawMessage {
	raw := fmt.Sprintf(`{"corp_id": %q, "open_kfid": %q, "secret": {"secret": "KF"}`, corp, openKfID)
	if base != "" {
		raw += fmt.Sprintf(`, "base_url": %q`, base)
	}
	return json.RawMessage(raw + "}")
}

func TestSuite(t *testing.T) {
	checktest.Run(t, checktest.Kind{
		Start: startParty,
		Invalid: []string{
			string(configOf("http://user:"+checktest.Hidden+"@example.com/", "wk1")),
			string(configOf("https://example.com/?q="+checktest.Hidden, "wk1")),
			string(configOf("https://example.com/#"+checktest.Hidden, "wk1")),
			`{"corp_id": "c", "open_kfid": "k", "secret": "` + checktest.Hidden + `"}`,
			`{"corp_id": "c", "open_kfid": "k", "secret": {"secret": "` + checktest.Hidden + ` "}}`,
			`{"corp_id": "c", "open_kfid": "k", "secret": null}`,
			`{"corp_id": "c/../` + checktest.Hidden + `", "open_kfid": "k", "secret": {"secret": "KF"}}`,
			`{"corp_id": "c", "open_kfid": "k", "secret": {"secret": "KF"}, "voice_format": 2}`,
			`{"corp_id": "c", "open_kfid": "k", "secret": {"secret": "KF"}, "voice_format": "` + checktest.Hidden + `"}`,
			`{"corp_id": "c", "open_kfid": "k", "secret": {"secret": "KF"}, "base_url": 7}`,
		},
		Faulty: `{"corp_id": "?", "secret": "x", "base_url": "gopher://x", "voice_format": 9, "zebra": 1}`,
		Fields: []string{"config.corp_id", "config.open_kfid", "config.secret", "config.base_url", "config.voice_format", "config.zebra"},
	})
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	checktest.RunAddresses(t, addresses())
}

// addresses are how the kind is called.
func addresses() checktest.HTTP {
	return checktest.HTTP{
		New:         func(client *fetch.Client) poller.Checker { return New(client, source(secret), token.NewMemory()) },
		WithSecrets: func(client *fetch.Client, s secrets.Source) poller.Checker { return New(client, s, token.NewMemory()) },
		Values:      source(secret).Lookup,
		Config: func(url string) json.RawMessage {
			base, _, _ := strings.Cut(url, "?")
			return configOf(base, "wk1")
		},
		Secret: secret,
	}
}

func startParty(t *testing.T) checktest.Party {
	w, stop, err := wecom.Serve(wecom.Options{Concurrency: -1, CallsWithoutToken: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	w.AddCorp(corp, secret)
	client, shared := checktest.Client(t, fetch.Options{}), token.NewMemory()
	fault := func(name string, f wecom.Fault, kind poller.ErrorKind, scope poller.ErrorScope, code string) checktest.Fault {
		return checktest.Fault{
			Name: name, Kind: kind, Scope: scope, Code: code, Hangs: f.Hang,
			Break: func(openKfID string) { w.FailAccount(openKfID, f) },
		}
	}
	return checktest.Party{
		New: func() poller.Checker {
			c := New(client, source(secret), shared)
			c.paces.most = 1 << 30
			return c
		},
		Config: func(openKfID string) json.RawMessage {
			w.AddAccount(corp, openKfID)
			return configOf(w.URL(), openKfID)
		},
		Post: func(openKfID string, n int) {
			w.AddAccount(corp, openKfID)
			w.PostN(openKfID, n)
		},
		ID:   wecom.MessageID,
		Heal: func(string) { w.Heal() },
		Faults: []checktest.Fault{
			fault("garbage", wecom.Fault{Garbage: true}, poller.Protocol, poller.ScopeRateKey, "protocol"),
			fault("too large", wecom.Fault{Bytes: 9 << 20}, poller.Protocol, poller.ScopeRateKey, "too_large"),
			fault("429", wecom.Fault{Status: 429}, poller.RateLimited, poller.ScopeRateKey, "http_429"),
			fault("503", wecom.Fault{Status: 503}, poller.Transient, poller.ScopeRateKey, "http_503"),
			fault("no such account", wecom.Fault{Code: 95000}, poller.Gone, poller.ScopeAccount, "wecom_95000"),
			fault("unheard of", wecom.Fault{Code: 99999}, poller.Transient, poller.ScopeAccount, "wecom_99999"),
			fault("hang", wecom.Fault{Hang: true}, "", "", ""),
		},
		Secrets: []string{secret, w.Token(corp)},
	}
}
