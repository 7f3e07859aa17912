package connector

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// ask makes one check with a connector that sends the given answer.
func ask(t *testing.T, status int, header http.Header, answer string) (poller.Result, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	checker := New(checktest.Client(t, fetch.Options{}), source())
	return checker.Check(t.Context(), poller.Request{CheckID: "c1", Config: signedConfig(server.URL), Limit: 200})
}

func TestRequest(t *testing.T) {
	var got []byte
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		header = r.Header.Clone()
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	checker := New(checktest.Client(t, fetch.Options{}), source())
	config := string(signedConfig(server.URL + "/?a=1&b=<2>"))
	deadline := time.Now().Add(time.Minute)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	_, err := checker.Check(ctx, poller.Request{
		Account: "acc", CheckID: "c1", Config: json.RawMessage(config), Cursor: []byte(`{"n":10000000000000000001,"t":"<&>"}`),
		Hint: json.RawMessage(`["hint"]`), Limit: 7, Attempt: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Account struct{ Config json.RawMessage }
	}
	if err := json.Unmarshal(got, &sent); err != nil {
		t.Fatal(err)
	}
	want := `{"version":1,"check_id":"c1","account":{"id":"acc","config":` + string(sent.Account.Config) + `},` +
		`"cursor":{"n":10000000000000000001,"t":"<&>"},"limit":7,"deadline":"` + deadline.UTC().Format(time.RFC3339Nano) +
		`","attempt":3,"hint":["hint"]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if string(sent.Account.Config) != config {
		t.Errorf("config: got %s, want %s", sent.Account.Config, config)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + apiToken, "X-Plain": "yes", "Content-Type": "application/json", "Webhook-Id": "c1",
	} {
		if header.Get(name) != want {
			t.Errorf("%s: got %q, want %q", name, header.Get(name), want)
		}
	}
	webhook, err := standardwebhooks.NewWebhook(signingKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := webhook.Verify(got, header); err != nil {
		t.Errorf("signature: %v", err)
	}
}

func TestFirstRequestIsNull(t *testing.T) {
	body, failed := encodeRequest(t.Context(), poller.Request{Account: "a", Config: json.RawMessage(`{}`)})
	want := `{"version":1,"check_id":"","account":{"id":"a","config":{}},"cursor":null,"limit":0,"deadline":null,"attempt":0,"hint":null}`
	if failed != nil || string(body) != want {
		t.Errorf("got %s, %v", body, failed)
	}
	_, failed = encodeRequest(t.Context(), poller.Request{Config: json.RawMessage(`{}`), Hint: json.RawMessage(`{`)})
	if failed == nil || failed.Code != "hint" {
		t.Errorf("a broken hint: got %v", failed)
	}
}

func TestSignatureIsChecked(t *testing.T) {
	for secret, want := range map[string]string{signingKey: "", "whsec_b3RoZXIta2V5LW9mLTI0LWJ5dGVzLi4uIQ==": "http_401"} {
		u := checktest.Upstream(t, upstream.Options{SigningSecret: secret})
		checker := New(checktest.Client(t, fetch.Options{}), source())
		_, err := checker.Check(t.Context(), poller.Request{CheckID: "c1", Config: signedConfig(u.URL("connector", "a"))})
		if want == "" && err != nil {
			t.Error(err)
		}
		if want != "" {
			if got := checktest.Failure(t, err); got.Code != want || got.Scope != poller.ScopeChecker || got.Kind != poller.Transient {
				t.Errorf("got %v, scope %s", got, got.Scope)
			}
		}
	}
}

func TestSecretsThatCannotBeUsed(t *testing.T) {
	checker := New(checktest.Client(t, fetch.Options{}), source())
	for config, name := range map[string]string{
		`{"url": "http://127.0.0.1", "signing_secret": {"secret": "NONE"}}`:           "NONE",
		`{"url": "http://127.0.0.1", "signing_secret": {"secret": "SHORT"}}`:          "SHORT",
		`{"url": "http://127.0.0.1", "signing_secret": {"secret": "AUTH"}}`:           "AUTH",
		`{"url": "http://127.0.0.1", "headers": {"X-Token": {"secret": "NONE"}}}`:     "NONE",
		`{"url": "http://127.0.0.1", "headers": {"X-Whatever": {"secret": "LINES"}}}`: "LINES",
	} {
		_, err := checker.Check(t.Context(), poller.Request{Config: json.RawMessage(config)})
		got := checktest.Failure(t, err)
		if got.Code != "secret" || got.Kind != poller.Transient || got.Scope != poller.ScopeChecker || !strings.Contains(got.Message, name) {
			t.Errorf("%s: got %v", config, got)
		}
		if strings.Contains(got.Message, apiToken) || strings.Contains(got.Message, "c2hv") || strings.Contains(got.Message, "lines") {
			t.Errorf("%s: the value is told: %v", config, got)
		}
	}
}

func TestConfig(t *testing.T) {
	c := New(fetch.New(fetch.Options{}), source())
	if c.Kind() != "http" {
		t.Errorf("kind %q", c.Kind())
	}
	const url = `"url": "https://Example.com/"`
	for config, want := range map[string][]string{
		`{` + url + `}`: nil,
		`{` + url + `, "signing_secret": null, "headers": null, "settings": {"any": [1]}}`: nil,
		`{` + url + `, "headers": {"X-Plain": "a", "Authorization": {"secret": "A"}}}`:     nil,

		`{}`: {"config.url: missing"},
		`{` + url + `, "signing_secret": "s3cret", "settings": 7, "extra": 1}`:      {"config.signing_secret: must be", "config.settings: must be an object", "config.extra: unknown field"},
		`{` + url + `, "settings": {"a": 1, "b": [{"token": {"secret": "A"}}]}}`:    {"config.settings.b[0].token: refers to a secret", "put it into headers"},
		`{` + url + `, "headers": {"Authorization": "Bearer {\"secret\": \"A\"}"}}`: {"printf 'Bearer %s' TOKEN | rounds secret set NAME"},
		`{` + url + `, "headers": ["s3cret"]}`:                                      {"config.headers: must be an object"},
		`{` + url + `, "headers": {"Authorization": "Bearer s3cret"}}`:              {"config.headers.Authorization: must be {"},
		`{` + url + `, "headers": {"x-api-key": "s3cret"}}`:                         {"config.headers.x-api-key: must be {"},
		`{` + url + `, "headers": {"Host": "s3cret", "Webhook-Id": "s3cret"}}`:      {"config.headers.Host: is set by", "config.headers.Webhook-Id: is set by"},
		`{` + url + `, "headers": {"a b": "s3cret", "X-A": "s3cret\n"}}`:            {"config.headers.a b: is not", "config.headers.X-A: must be one line"},
		`{` + url + `, "headers": {"X-A": null, "X-B": 7}}`:                         {"config.headers.X-A: missing", "config.headers.X-B: must be {"},
		`{"url": "http://10.0.0.1/?s3cret"}`:                                        {"config.url: must not be a private address"},
	} {
		err := c.Validate(json.RawMessage(config))
		if (err == nil) != (want == nil) {
			t.Errorf("%s: got %v", config, err)
		}
		for _, part := range want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %v, want %s", config, err, part)
			}
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error quotes it: %v", config, err)
		}
	}
	if c.Hold(json.RawMessage(`{`+url+`, "hold": 5, "settings": {"token": {"secret": "A"}}}`)) != 5*time.Second {
		t.Error("an account that was registered with a reference in its settings is not read")
	}
	if got := c.RateKey(json.RawMessage(`{` + url + `}`)); got != "example.com" {
		t.Errorf("rate key %q", got)
	}
}
