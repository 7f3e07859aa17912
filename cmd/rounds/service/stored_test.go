package service

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// hook is a receiver that people set up while the service runs: it takes what its key has signed.
type hook struct {
	*httptest.Server
	got chan string // bodies

	mu       sync.Mutex
	verifier *standardwebhooks.Webhook
}

func startHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{got: make(chan string, 1000)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		if err != nil || h.verifier == nil || h.verifier.Verify(body, r.Header) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.got <- string(body)
	}))
	t.Cleanup(h.Close)
	return h
}

// trust makes the receiver verify with a key.
func (h *hook) trust(t *testing.T, key string) {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(key)
	if err != nil {
		t.Fatalf("signing key %q: %v", key, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.verifier = verifier
}

// next returns the next body that the receiver has taken.
func (h *hook) next(t *testing.T) string {
	t.Helper()
	select {
	case body := <-h.got:
		return body
	case <-time.After(30 * time.Second):
		t.Fatal("nothing came")
		return ""
	}
}

// refusedWith returns the status of the API's refusal, and its text.
func refusedWith(err error) (status int, text string) {
	refused, ok := errors.AsType[*client.Error](err)
	if !ok {
		return 0, fmt.Sprint(err)
	}
	return refused.Status, refused.Error()
}

// registryOf returns the registry of a ring, for the kinds of the service.
func registryOf(t *testing.T, ring *circulate.Ring) *accounts.Registry {
	t.Helper()
	checkers, err := NewCheckers(settings.Poller{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return accounts.NewRegistry(ring, checkers)
}

// finder returns a function that registers an account, with its id as the label of, which then finds a
// message.
func finder(t *testing.T, server *redistest.Server) (find func(id string)) {
	t.Helper()
	ring, err := circulate.Open(t.Context(), redistest.Connect(t, server), circulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	registry := registryOf(t, ring)
	return func(id string) {
		t.Helper()
		if _, err := registry.Create(t.Context(), accounts.Account{ID: id, Kind: "feed", Labels: map[string]string{"of": id}, Config: []byte(`{"url":"https://example.com/"}`)}); err != nil {
			t.Fatal(err)
		}
		returns(t, ring, id, []circulate.Message{{ID: "of-" + id}})
	}
}

// An endpoint is added, tested, changed and removed while two processes deliver, without a restart.
func TestEndpointsAreAddedWhileItRuns(t *testing.T) {
	server := redistest.Start(t)
	_, private := newSealKey(t)
	variables := map[string]string{
		"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_ROLES": "api,delivery", "ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ALLOW_NETWORKS": "127.0.0.1",
		"ROUNDS_SECRETS_KEY_FILE": writeFile(t, private+"\n"), "ROUNDS_SERVICE_SECRET_DECLARED": signingKey,
		"ROUNDS_WEBHOOKS_FILE": writeFile(t, `{"endpoints":[{"name":"declared","url":"http://127.0.0.1:9/","secrets":[{"secret":"DECLARED"}]}]}`),
	}
	front := start(t, variables)
	behind := maps.Clone(variables)
	behind["ROUNDS_ROLES"] = "delivery"
	start(t, behind)
	base := front.base(t, "api")
	processes.AwaitStatus(t, base+"/readyz", http.StatusOK)
	calls := client.New(base, "")
	defer calls.Close()
	find := finder(t, server)

	find("before") // which an endpoint that begins with the next message does not get
	receiver := startHook(t)
	added, err := calls.AddWebhook(t.Context(), "crm", api.WebhookFields{URL: receiver.URL})
	if err != nil {
		t.Fatal(err)
	}
	receiver.trust(t, added.SigningKey)
	tested, err := calls.TestWebhook(t.Context(), "crm")
	if err != nil || tested.Outcome != "delivered" || tested.Status != http.StatusOK {
		t.Fatalf("test: %+v, %v", tested, err)
	}
	if body := receiver.next(t); !strings.Contains(body, `"type":"endpoint.test"`) || !strings.Contains(body, `"endpoint":"crm"`) {
		t.Errorf("test event: %s", body)
	}
	find("after")
	if body := receiver.next(t); !strings.Contains(body, `"of-after"`) {
		t.Errorf("got %s", body)
	}

	w, err := calls.Webhook(t.Context(), "crm")
	if err != nil || w.Source != "stored" || w.Standing == nil || w.Revision == 0 || !strings.Contains(string(w.Fields), receiver.URL) || strings.Contains(string(w.Fields), "whsec_") {
		t.Errorf("%+v, %v", w, err)
	}
	for name, fields := range map[string]any{
		"crm":      map[string]any{"url": receiver.URL}, // it is there
		"declared": map[string]any{"url": receiver.URL},
		"bad":      map[string]any{"url": "http://10.0.0.7/", "type": "file", "kinds": []string{""}, "colour": 1},
		"away":     map[string]any{"url": "http://10.0.0.7/hook"},
	} {
		status, text := refusedWith(func() error { _, err := calls.AddWebhook(t.Context(), name, fields); return err }())
		want := map[string]string{
			"crm": "412 somebody added", "declared": "409 ROUNDS_WEBHOOKS_FILE", "bad": "422 type: must be one of kafka, nats, postgres, webhook", "away": "422 url: must not be a private address",
		}[name]
		code, part, _ := strings.Cut(want, " ")
		if fmt.Sprint(status) != code || !strings.Contains(text, part) {
			t.Errorf("%s: %d %s, want %s", name, status, text, want)
		}
	}
	// A secret that is bound to another host, or to none, goes nowhere else: nothing that it signs does.
	if _, err := calls.SetSecret(t.Context(), "service.OTHER", api.SecretRequest{Value: signingKey, Hosts: []string{"other.example"}}); err != nil {
		t.Fatal(err)
	}
	status, text := refusedWith(func() error {
		_, err := calls.SetWebhook(t.Context(), "crm", w.Revision, map[string]any{"url": receiver.URL, "secrets": []any{map[string]any{"secret": "OTHER"}}})
		return err
	}())
	if status != http.StatusUnprocessableEntity || !strings.Contains(text, "secrets[0]: is a secret that is not bound to 127.0.0.1:") {
		t.Errorf("%d %s", status, text)
	}

	// A change takes effect, and the group goes on: the other receiver gets what comes now.
	other := startHook(t)
	changed, err := calls.SetWebhook(t.Context(), "crm", w.Revision, api.WebhookFields{URL: other.URL})
	if err != nil || changed.SigningKey == "" || changed.SigningKey == added.SigningKey {
		t.Fatalf("%+v, %v: the key is bound to the host, and so it is another", changed, err)
	}
	other.trust(t, changed.SigningKey)
	if tested, err := calls.TestWebhook(t.Context(), "crm"); err != nil || tested.Outcome != "delivered" { // of the endpoint as it is now
		t.Fatalf("%+v, %v", tested, err)
	}
	if body := other.next(t); !strings.Contains(body, `"type":"endpoint.test"`) {
		t.Errorf("got %s", body)
	}
	find("changed")
	if body := other.next(t); !strings.Contains(body, `"of-changed"`) {
		t.Errorf("got %s", body)
	}

	// A removal forgets the position, so that an endpoint of the name begins anew.
	removed, err := calls.RemoveWebhook(t.Context(), "crm", false)
	if err != nil || !removed.PositionForgotten {
		t.Fatalf("%+v, %v", removed, err)
	}
	if _, err := calls.Webhook(t.Context(), "crm"); !is404(err) {
		t.Errorf("%v", err)
	}
	find("between")
	again, err := calls.AddWebhook(t.Context(), "crm", api.WebhookFields{
		URL: other.URL, From: "start", When: `id startsWith "of-" && labels.of == "changed" || type == "endpoint.test"`, Labels: map[string]string{"of": "changed"},
	})
	if err != nil {
		t.Fatal(err)
	}
	other.trust(t, again.SigningKey)
	// It gets what its filter lets pass, from the start, and nothing else.
	if body := other.next(t); !strings.Contains(body, `"of-changed"`) {
		t.Errorf("got %s", body)
	}
	if tested, err := calls.TestWebhook(t.Context(), "crm"); err != nil || tested.Outcome != "delivered" {
		t.Fatalf("%+v, %v", tested, err)
	}
	if body := other.next(t); !strings.Contains(body, `"type":"endpoint.test"`) {
		t.Errorf("got %s", body)
	}
}

func is404(err error) bool {
	status, _ := refusedWith(err)
	return status == http.StatusNotFound
}
