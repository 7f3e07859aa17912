package imap

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/oauth"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/dovecottest"
	"github.com/rounds-dev/rounds/testing/oidctest"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A mailbox is signed in at a provider and read with access tokens, at a Dovecot that asks the
// provider whose they are. A revoked access token costs a check nothing, a revoked sign-in parks.
func TestSignedInMailbox(t *testing.T) {
	provider := oidctest.Start(t)
	provider.Offline(oidctest.Offline{User: "anna", Rotates: true, Forgets: true})
	dovecot := dovecottest.StartOAuth(t, provider.URL+"/introspect")
	if _, err := dovecot.Deliver("anna", []byte("Subject: one\r\n\r\nHello\r\n")); err != nil {
		t.Fatal(err)
	}

	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Namespace: "mail", Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	key, err := secrets.Generate()
	if err != nil {
		t.Fatal(err)
	}
	shelf := secret.Of(ring)
	registration := fmt.Sprintf(`{"client_id":%q,"client_secret":%q,"issuer":%q}`, oidctest.ClientID, oidctest.ClientSecret, provider.URL)
	source := secrets.Source{Store: secrets.New(shelf, secrets.Keys{key}), Lookup: func(name string) (string, bool) {
		return registration, name == secrets.ServiceEnvPrefix+oauth.ClientName(provider.URL)
	}}
	client := checktest.Client(t, fetch.Options{})
	calls := oauth.NewClient(Kind, client, source)
	checker := New(client, source, Options{OAuth: oauth.NewTokens(calls, source, token.NewMemory())})

	signIn := func() {
		t.Helper()
		g := oauth.Grant{Provider: provider.URL, ClientID: oidctest.ClientID, Refresh: provider.Grant(), Key: fmt.Sprint("key ", time.Now())}
		text, err := g.Text()
		if err != nil {
			t.Fatal(err)
		}
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(dovecot.Port))
		b := secret.Binding{Hosts: []string{strings.TrimPrefix(provider.URL, "http://"), at}, Kinds: []string{Kind}}
		if _, _, err := shelf.Put(t.Context(), key.Public(), "mail-anna", b, "test", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	signIn()
	config := fmt.Appendf(nil, `{"host":"127.0.0.1","port":%d,"tls":"none","user":"anna","oauth":{"secret":"mail-anna"}}`, dovecot.Port)
	check := func(config json.RawMessage) (poller.Result, error) {
		return checker.Check(t.Context(), poller.Request{Account: "anna", Config: config})
	}
	for range 2 {
		result, err := check(config)
		if err != nil || len(result.Messages) != 1 {
			t.Fatalf("got %+v, %v", result, err)
		}
	}
	if n := provider.Issued(); n != 1 {
		t.Errorf("two checks got %d access tokens", n)
	}

	provider.Revoke(true)
	if _, err := check(config); err != nil {
		t.Errorf("a revoked access token: %v", err)
	}
	if n := provider.Issued(); n != 2 {
		t.Errorf("%d access tokens were issued", n)
	}

	wrong := []byte(strings.Replace(string(config), `"user":"anna"`, `"user":"berta"`, 1))
	_, err = check(wrong)
	if got := checktest.Failure(t, err); got.Kind != poller.AuthFailed || got.Code != "authenticationfailed" || !strings.Contains(got.Message, "as the user of the config") || strings.Contains(got.Message, "access-") {
		t.Errorf("another user: %+v", got)
	}

	elsewhere := []byte(strings.Replace(string(config), "127.0.0.1", "localhost", 1))
	_, err = check(elsewhere)
	if got := checktest.Failure(t, err); got.Code != "secret_refused" {
		t.Errorf("another host: %+v", got)
	}
}
