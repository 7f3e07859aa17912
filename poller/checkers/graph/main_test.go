package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/oauth"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/upstream/graphd"
)

// Files run without the race detector. It watches the suite of files in telegram.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(processes.Apart(m, "TestFileSuite", "TestTheLargestFile"))
}

// stored has the access tokens in a source of secrets, as if they were the sign-ins.
type stored struct{ secrets.Source }

func (s stored) Token(ctx context.Context, _, name string, use secrets.Use, _ *oauth.Access) (*oauth.Access, *poller.CheckError) {
	value, err := s.Get(ctx, name, use)
	if err != nil {
		return nil, secrets.CheckError(err)
	}
	return &oauth.Access{Token: value}, nil
}

func (stored) Drop(context.Context, *oauth.Access) bool { return false }

// issued has the access tokens of a fake.
type issued struct{ *graphd.Graph }

func (i issued) Token(_ context.Context, account, _ string, _ secrets.Use, refused *oauth.Access) (*oauth.Access, *poller.CheckError) {
	if refused != nil {
		i.Revoke(account)
	}
	return &oauth.Access{Token: i.Graph.Token(account)}, nil
}

func (issued) Drop(context.Context, *oauth.Access) bool { return true }

func configOf(base string) json.RawMessage {
	if base == "" {
		return json.RawMessage(`{"oauth":{"secret":"T"}}`)
	}
	return fmt.Appendf(nil, `{"oauth":{"secret":"T"},"base_url":%q}`, base)
}

func start(t *testing.T, o graphd.Options) *graphd.Graph {
	t.Helper()
	g, stop, err := graphd.Serve(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return g
}

func newChecker(t *testing.T, g *graphd.Graph) *Checker {
	t.Helper()
	return New(checktest.Client(t, fetch.Options{}), issued{g})
}

func TestSuite(t *testing.T) {
	checktest.Run(t, checktest.Kind{
		Start: startParty,
		Invalid: []string{
			`{"oauth":"` + checktest.Hidden + `"}`,
			`{"oauth":null}`,
			`{"oauth":{"secret":"T"},"folder":""}`,
			`{"oauth":{"secret":"T"},"folder":".."}`,
			`{"oauth":{"secret":"T"},"folder":"` + checktest.Hidden + `\n"}`,
			string(configOf("http://user:" + checktest.Hidden + "@example.com/")),
			string(configOf("https://example.com/?q=" + checktest.Hidden)),
		},
		Faulty: `{"oauth":"x","folder":7,"base_url":"gopher://x","zebra":1}`,
		Fields: []string{"config.oauth", "config.folder", "config.base_url", "config.zebra"},
	})
}

func startParty(t *testing.T) checktest.Party {
	g := start(t, graphd.Options{})
	fault := func(name string, f graphd.Fault, kind poller.ErrorKind, scope poller.ErrorScope, code string) checktest.Fault {
		return checktest.Fault{Name: name, Kind: kind, Scope: scope, Code: code, Hangs: f.Hang, Break: func(account string) { g.Fail(account, f) }}
	}
	page := func(text string) graphd.Fault { return graphd.Fault{Step: "delta", Body: text} }
	row := `{"value":[{"id":"x","receivedDateTime":"2026-01-01T00:00:00Z"}],`
	return checktest.Party{
		New:    func() poller.Checker { return newChecker(t, g) },
		Config: func(string) json.RawMessage { return configOf(g.URL()) },
		Post:   g.Post,
		ID:     graphd.ID,
		Heal:   func(string) { g.Heal() },
		Faults: []checktest.Fault{
			fault("garbage", page("\x00garbage{<\xff"), poller.Protocol, poller.ScopeRateKey, "protocol"),
			fault("no array", page(`{"value":{}}`), poller.Protocol, poller.ScopeRateKey, "protocol"),
			fault("too large", graphd.Fault{Step: "delta", Bytes: 9 << 20}, poller.Protocol, poller.ScopeRateKey, "too_large"),
			fault("too deep", page(`{"value":`+strings.Repeat("[", 5000)), poller.Protocol, poller.ScopeRateKey, "protocol"),
			fault("too many", page(`{"value":[`+strings.Repeat(`{},`, mostRows)+`{}]}`), poller.Protocol, poller.ScopeRateKey, "protocol"),
			fault("no id", page(`{"value":[{}]}`), poller.Protocol, poller.ScopeRateKey, "protocol"),
			fault("no link", page(`{"value":[]}`), poller.Protocol, poller.ScopeRateKey, "protocol"),
			fault("a link to another host", page(`{"value":[],"@odata.deltaLink":"http://127.0.0.2:1/v1.0/x?$deltatoken=x"}`), poller.Protocol, poller.ScopeRateKey, "protocol"),
			fault("a link without a token", page(`{"value":[],"@odata.nextLink":"`+g.URL()+`/x?$deltatoken=x"}`), poller.Protocol, poller.ScopeRateKey, "protocol"),
			fault("a message that is not there", page(row+`"@odata.nextLink":"/x"}`), poller.Protocol, poller.ScopeRateKey, "protocol"),
			fault("429", graphd.Fault{Status: 429, Code: "ApplicationThrottled", RetryAfter: 17}, poller.RateLimited, poller.ScopeRateKey, "http_429"),
			fault("429 of a message", graphd.Fault{Step: "value", Status: 429, Code: "ApplicationThrottled", RetryAfter: 17}, poller.RateLimited, poller.ScopeRateKey, "http_429"),
			fault("503", graphd.Fault{Status: 503, RetryAfter: 5}, poller.Transient, poller.ScopeRateKey, "http_503"),
			fault("500 of a message", graphd.Fault{Step: "value", Status: 500, Code: "ErrorInternalServerError"}, poller.Transient, poller.ScopeAccount, "http_500"),
			fault("403", graphd.Fault{Status: 403, Code: "ErrorAccessDenied"}, poller.AuthFailed, poller.ScopeAccount, "graph_403"),
			fault("403 of a gateway", graphd.Fault{Status: 403}, poller.Transient, poller.ScopeRateKey, "http_403"),
			fault("401", graphd.Fault{Status: 401, Code: "InvalidAuthenticationToken"}, poller.AuthFailed, poller.ScopeAccount, "graph_401"),
			fault("no mailbox", graphd.Fault{Status: 404, Code: "MailboxNotEnabledForRESTAPI"}, poller.AuthFailed, poller.ScopeAccount, "graph_mailbox"),
			fault("no folder", graphd.Fault{Step: "delta", Status: 404, Code: "ErrorItemNotFound"}, poller.ConfigInvalid, poller.ScopeAccount, "graph_folder"),
			fault("404 of a gateway", graphd.Fault{Status: 404}, poller.Transient, poller.ScopeRateKey, "http_404"),
			fault("400", graphd.Fault{Status: 400, Code: "BadRequest"}, poller.Transient, poller.ScopeAccount, "http_400"),
			fault("reset", graphd.Fault{Reset: true}, poller.Transient, poller.ScopeRateKey, "reset"),
			fault("a message that is cut", graphd.Fault{Step: "value", Cut: true}, poller.Transient, poller.ScopeRateKey, "reset"),
			fault("hang", graphd.Fault{Hang: true}, "", "", ""),
			fault("a message that hangs", graphd.Fault{Step: "value", Hang: true}, "", "", ""),
		},
		Secrets: []string{g.Token("a"), g.Token("0")},
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	checktest.RunAddresses(t, addresses(func(c *Checker) poller.Checker { return c }))
}

func TestFileAddresses(t *testing.T) {
	t.Parallel()
	checktest.RunAddresses(t, addresses(func(c *Checker) poller.Checker {
		return checktest.Fetching(c, func(json.RawMessage) poller.Message {
			return poller.Message{ID: "x", Data: json.RawMessage(`{"attachments":[{"part":"1","type":"a/b"}]}`)}
		})
	}))
}

// addresses are how the kind is called.
func addresses(as func(*Checker) poller.Checker) checktest.HTTP {
	values := func(name string) (string, bool) { return "t0ken", name == secrets.EnvPrefix+"T" }
	return checktest.HTTP{
		New: func(client *fetch.Client) poller.Checker {
			return as(New(client, stored{secrets.Source{Lookup: values}}))
		},
		WithSecrets: func(client *fetch.Client, s secrets.Source) poller.Checker { return as(New(client, stored{s})) },
		Values:      values,
		Config: func(url string) json.RawMessage {
			base, _, _ := strings.Cut(url, "?")
			return configOf(base)
		},
		Secret: "t0ken",
	}
}

func TestTheFieldsAreThoseOfValidate(t *testing.T) {
	checktest.Declared(t, New(checktest.Client(t, fetch.Options{}), stored{}), ".")
}
