package service

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func newSealKey(t *testing.T) (key *secrets.Key, private string) {
	t.Helper()
	key, err := secrets.Generate()
	if err != nil {
		t.Fatal(err)
	}
	if private, err = key.Text(); err != nil {
		t.Fatal(err)
	}
	return key, private
}

// A secret can be stored by a process that cannot open it. A process that can open it sends
// it, and only to the hosts it is bound to.
func TestStoredSecretsReachTheirHost(t *testing.T) {
	server := redistest.Start(t)
	key, private := newSealKey(t)
	seen := make(chan string, 100)
	connector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("X-Key")
		w.WriteHeader(http.StatusNoContent)
	}))
	defer connector.Close()
	front := start(t, map[string]string{
		"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_ROLES": "api,monitor", "ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ALLOW_NETWORKS": "127.0.0.1",
		"ROUNDS_SECRETS_PUBLIC_KEY": key.Public().String(),
	})
	start(t, map[string]string{
		"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_ROLES": "poller", "ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ALLOW_NETWORKS": "127.0.0.1",
		"ROUNDS_SECRETS_KEY_FILE": writeFile(t, private+"\n"), "ROUNDS_SECRETS_UNBOUND": "refuse",
	})
	base := front.base(t, "api")
	processes.AwaitStatus(t, base+"/readyz", http.StatusOK)
	calls := client.New(base, "")
	defer calls.Close()
	host := strings.TrimPrefix(connector.URL, "http://")
	if _, err := calls.SetSecret(t.Context(), "KEY", api.SecretRequest{Value: "stored-secret", Hosts: []string{host}}); err != nil {
		t.Fatal(err)
	}
	config := fmt.Appendf(nil, `{"url":%q,"headers":{"X-Key":{"secret":"KEY"}}}`, connector.URL)
	if _, err := calls.Add(t.Context(), accounts.Account{ID: "a", Kind: "http", Cadence: "every 24h", Config: config}, ""); err != nil {
		t.Fatal(err)
	}
	if got := awaitCheck(t, seen); got != "stored-secret" {
		t.Errorf("sent %q", got)
	}
	page, err := calls.Secrets(t.Context(), "", 10)
	if err != nil || len(page.Secrets) != 1 || page.Secrets[0].Key != key.Public().ID() {
		t.Errorf("%+v, %v", page, err)
	}

	// A secret that is sealed again for another key opens with that key, and no longer needs
	// the old one.
	newer, newerText := newSealKey(t)
	done, err := RotateSecrets(t.Context(), settings.Redis{URL: server.URL(), Namespace: "rounds"}, settings.Seal{PrivateKeys: newerText + "," + private}, func(secrets.Rotated) {})
	if err != nil || done.Sealed != 1 || done.Broken != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if kept, err := calls.Trail(t.Context(), client.TrailQuery{Limit: 1}); err != nil || kept.Entries[0].Action != "rotate-secrets" || kept.Entries[0].By != SystemUser() || kept.Entries[0].Counts["sealed"] != 1 {
		t.Errorf("the trail says %+v, %v", kept, err)
	}
	if page, err = calls.Secrets(t.Context(), "", 10); err != nil || page.Secrets[0].Key != newer.Public().ID() {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := RotateSecrets(t.Context(), settings.Redis{URL: server.URL(), Namespace: "rounds"}, settings.Seal{}, nil); err == nil || !strings.Contains(err.Error(), "ROUNDS_SECRETS_KEY") {
		t.Errorf("without a key: %v", err)
	}
	if _, err := RotateSecrets(t.Context(), settings.Redis{Namespace: "rounds"}, settings.Seal{PrivateKeys: private}, nil); err == nil || !strings.Contains(err.Error(), "ROUNDS_REDIS_URL") {
		t.Errorf("without a Redis: %v", err)
	}
	if err := calls.RemoveSecret(t.Context(), "KEY"); err != nil {
		t.Error(err)
	}
}

func TestSettingsReportFaultsOfKeys(t *testing.T) {
	key, private := newSealKey(t)
	other, _ := newSealKey(t)
	for name, c := range map[string]struct {
		variables map[string]string
		want      string
	}{
		"no private key":  {map[string]string{privateKeys: "s3cret-s3cret"}, "ROUNDS_SECRETS_KEY: key 1 is not a key"},
		"the second":      {map[string]string{privateKeys: private + ",s3cret"}, "ROUNDS_SECRETS_KEY: key 2 is not a key"},
		"no public key":   {map[string]string{publicKey: "s3cret"}, "ROUNDS_SECRETS_PUBLIC_KEY is \"s3cret\": is not a key"},
		"another's":       {map[string]string{privateKeys: private, publicKey: other.Public().String()}, "must be of one of the keys in ROUNDS_SECRETS_KEY"},
		"both":            {map[string]string{privateKeys: private, "ROUNDS_SECRETS_KEY_FILE": writeFile(t, private)}, "ROUNDS_SECRETS_KEY_FILE"},
		"no file":         {map[string]string{"ROUNDS_SECRETS_KEY_FILE": "/nowhere/key"}, "there is none"},
		"an empty file":   {map[string]string{"ROUNDS_SECRETS_PUBLIC_KEY_FILE": writeFile(t, "\n")}, "it is empty"},
		"a file too long": {map[string]string{"ROUNDS_SECRETS_KEY_FILE": writeFile(t, strings.Repeat("x", 70_000))}, "at most 64 KiB"},
	} {
		_, err := read(c.variables)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.variables[privateKeys] != "" && strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), private) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, err := read(map[string]string{privateKeys: private})
	if err != nil {
		t.Fatal(err)
	}
	if keys, public, err := sealKeys(s.Seal); err != nil || len(keys) != 1 || public.ID() != key.Public().ID() {
		t.Errorf("the public key of the private one: %v, %v", public, err)
	}
	var faults settings.Faults
	if _, _, err := sealKeys(settings.Seal{PrivateKeys: "x", PublicKey: "x"}); !errors.As(err, &faults) || len(faults) != 2 {
		t.Errorf("%v", err)
	}
}
