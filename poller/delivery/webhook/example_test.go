package webhook_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// A receiver verifies its requests with any Standard Webhooks library. It recognizes repeated
// messages by their webhook-id.
func Example() {
	const key = "whsec_b2xkLXNpZ25pbmcta2V5LW9mLTI0LWJ5dGVz"
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		verifier, _ := standardwebhooks.NewWebhook(key)
		if verifier.Verify(body, r.Header) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Println(string(body))
	}))
	defer receiver.Close()

	// Private addresses are allowed because this receiver is on loopback.
	client := fetch.New(fetch.Options{AllowPrivate: true})
	defer client.Close()
	_ = os.Setenv("ROUNDS_SECRET_CRM", key)
	defer func() { _ = os.Unsetenv("ROUNDS_SECRET_CRM") }()

	config := `{"endpoints": [{"name": "crm", "url": "` + receiver.URL + `", "secrets": [{"secret": "CRM"}], "ordered": true}]}`
	endpoints, err := webhook.Read(strings.NewReader(config), client)
	if err != nil {
		fmt.Println(err)
		return
	}
	sink, err := webhook.New(endpoints[0], webhook.Options{
		Client: client, Secrets: secrets.Source{Lookup: os.LookupEnv}, Namespace: circulate.DefaultNamespace,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// A consumer of the group endpoints[0].Group() does this.
	errs := sink.Handle(context.Background(), []delivery.Delivery{{Found: circulate.Found{
		Account: "blog", Kind: "feed",
		Message: circulate.Message{ID: "42", Type: "item", Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Data: []byte(`{"title":"Hello"}`)},
	}}})
	fmt.Println(errs)
	// Output:
	// {"type":"message.found","timestamp":"2026-01-01T00:00:00Z","data":{"account":"blog","kind":"feed","id":"42","type":"item","time":"2026-01-01T00:00:00Z","data":{"title":"Hello"}}}
	// [<nil>]
}
