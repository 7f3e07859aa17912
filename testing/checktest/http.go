package checktest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// HTTP is a checker under test that calls a URL.
type HTTP struct {
	// New makes a checker that calls through client. If Config refers to secrets, the checker needs a
	// source of its own that has them: without, it calls nobody.
	New func(client *fetch.Client) poller.Checker
	// Config is a valid config for a URL.
	Config func(url string) json.RawMessage
	// Route is the path at which upstream.Upstream serves what the checker reads; for
	// RunHTTP.
	Route string
	// Secret is a value that New's checker sends along; empty: none.
	Secret string
	// WithSecrets makes the same checker, which finds its secrets in a source of the suite. It is
	// required with a Secret.
	WithSecrets func(client *fetch.Client, source secrets.Source) poller.Checker
	// Values has the values of the suite's source, as secrets.Source.Lookup; nil: Secret under every
	// name. The suite answers lookups of bindings itself. New's source is asked for them too, under
	// names that begin with secrets.BindingEnvPrefix, and may answer that it has none.
	Values func(name string) (string, bool)
}

// RunHTTP runs the suite over package upstream, for checkers whose config has the address
// as url, with the cases that HTTP adds.
func RunHTTP(t *testing.T, h HTTP) {
	Run(t, Kind{
		Start: h.start,
		Invalid: []string{
			`{"url": {"x": "` + Hidden + `"}}`, `{"url": "` + Hidden + `"}`,
			string(h.Config("http://user:" + Hidden + "@example.com/?q=" + Hidden)),
			string(h.Config("http://[" + Hidden)),
			string(h.Config("ftp://example.com/" + Hidden)),
		},
		Faulty: `{"url": "gopher://x", "zebra": 1, "ape": 2}`,
		Fields: []string{"config.url", "config.zebra", "config.ape"},
	})
	run(t, "statuses", h.statuses)
	RunAddresses(t, h)
}

// RunAddresses checks which addresses a checker may be led to, what its errors reveal of the URL and
// of what the other side wrote, and where its secret goes.
func RunAddresses(t *testing.T, h HTTP) {
	run(t, "private addresses", h.privateAddresses)
	run(t, "no secret is told", h.noSecretIsTold)
	if h.Secret != "" {
		run(t, "secrets go where they may", h.secretsGoWhereTheyMay)
	}
}

// run runs a case, in which a checker that panics fails it.
func run(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		defer contain(t)
		test(t)
	})
}

// Client makes a client that reaches 127.0.0.1 but no other private address.
func Client(t *testing.T, options fetch.Options) *fetch.Client {
	t.Helper()
	networks, err := fetch.ParseNetworks("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	options.Networks = networks
	client := fetch.New(options)
	t.Cleanup(client.Close)
	return client
}

// Upstream starts a fake third party.
func Upstream(t *testing.T, options upstream.Options) *upstream.Upstream {
	t.Helper()
	u, stop, err := upstream.Serve(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return u
}

func (h HTTP) start(t *testing.T) Party {
	u := Upstream(t, upstream.Options{})
	client := Client(t, fetch.Options{})
	fault := func(name string, f upstream.Fault, kind poller.ErrorKind, code string) Fault {
		return Fault{Name: name, Break: func(account string) { u.Fail(account, f) }, Kind: kind, Code: code}
	}
	hang := fault("hang", upstream.Fault{Hang: true}, "", "")
	hang.Hangs = true
	return Party{
		New:    func() poller.Checker { return h.New(client) },
		Config: func(account string) json.RawMessage { return h.Config(u.URL(h.Route, account)) },
		Post:   func(account string, n int) { u.PostN(account, n) },
		ID:     upstream.MessageID,
		Heal:   u.Heal,
		Faults: []Fault{
			fault("garbage", upstream.Fault{Garbage: true}, poller.Protocol, ""),
			fault("too large", upstream.Fault{Bytes: 9 << 20}, poller.Protocol, "too_large"),
			fault("429", upstream.Fault{Status: 429, RetryAfter: "7"}, poller.RateLimited, "http_429"),
			fault("503", upstream.Fault{Status: 503}, poller.Transient, "http_503"),
			hang,
		},
		Secrets: []string{h.Secret},
	}
}

func (h HTTP) request(url string) poller.Request {
	return poller.Request{Account: "a", CheckID: "c1", Config: h.Config(url), Limit: 7, Attempt: 1}
}

func (h HTTP) statuses(t *testing.T) {
	u := Upstream(t, upstream.Options{})
	checker := h.New(Client(t, fetch.Options{}))
	r := h.request(u.URL(h.Route, "a"))
	u.Post("a")
	for _, c := range []struct {
		name  string
		fault upstream.Fault
		kind  poller.ErrorKind
		after time.Duration
	}{
		{"429", upstream.Fault{Status: 429, RetryAfter: "7"}, poller.RateLimited, 7 * time.Second},
		{"429 without a time", upstream.Fault{Status: 429}, poller.RateLimited, 0},
		{"503", upstream.Fault{Status: 503, RetryAfter: "999999"}, poller.Transient, 24 * time.Hour},
		{"500", upstream.Fault{Status: 500}, poller.Transient, 0},
		{"502", upstream.Fault{Status: 502}, poller.Transient, 0},
		{"410", upstream.Fault{Status: 410}, poller.Gone, 0},
		{"404", upstream.Fault{Status: 404}, poller.Transient, 0},
		{"403", upstream.Fault{Status: 403}, poller.Transient, 0},
		{"400", upstream.Fault{Status: 400}, poller.Transient, 0},
		{"302 to nowhere", upstream.Fault{Status: 302}, poller.Transient, 0},
	} {
		u.Fail("a", c.fault)
		_, err := checker.Check(t.Context(), r)
		got := Failure(t, err)
		if got.Kind != c.kind || got.Code != "http_"+c.name[:3] || got.RetryAfter != c.after {
			t.Errorf("%s: got %v, retry after %v", c.name, got, got.RetryAfter)
		}
	}
	u.Fail("a", upstream.Fault{Status: 204})
	result, err := checker.Check(t.Context(), r)
	if err != nil || !empty(result) {
		t.Errorf("204: got %+v, %v", result, err)
	}
	u.Heal("a")
	if result, err := checker.Check(t.Context(), r); err != nil || len(result.Messages) != 1 {
		t.Errorf("healed: got %+v, %v", result, err)
	}
}
