package connector

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/processes"
)

// Answers that cost much memory, the verification of connectors, and files run without the race detector:
// one goroutine reads them. It watches the suite of files in telegram.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(processes.Apart(m, "TestHostileAnswers", "TestVerify", "TestFileSuite", "TestFileAddresses"))
}

const (
	signingKey = "whsec_c2lnbmluZy1rZXktb2YtMjQtYnl0ZXMh"
	apiToken   = "tok-0123456789"
)

// source has the secrets KEY, TOKEN, AUTH, SHORT and LINES.
func source() secrets.Source {
	values := map[string]string{
		"ROUNDS_SECRET_KEY": signingKey, "ROUNDS_SECRET_TOKEN": apiToken, "ROUNDS_SECRET_AUTH": "Bearer " + apiToken,
		"ROUNDS_SECRET_SHORT": "c2hvcnQ=", "ROUNDS_SECRET_LINES": "two\nlines",
	}
	return secrets.Source{Lookup: func(name string) (string, bool) { v, ok := values[name]; return v, ok }}
}

func signedConfig(url string) json.RawMessage {
	raw, err := json.Marshal(map[string]any{
		"url": url, "signing_secret": map[string]string{"secret": "KEY"},
		"headers": map[string]any{"Authorization": map[string]string{"secret": "AUTH"}, "X-Plain": "yes"},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

func TestSuite(t *testing.T) {
	checktest.RunHTTP(t, party())
}

// party is how the kind is called.
func party() checktest.HTTP {
	return checktest.HTTP{
		New:         func(client *fetch.Client) poller.Checker { return New(client, source()) },
		WithSecrets: func(client *fetch.Client, s secrets.Source) poller.Checker { return New(client, s) },
		Values:      source().Lookup,
		Config:      signedConfig,
		Route:       "connector",
		Secret:      apiToken,
	}
}
