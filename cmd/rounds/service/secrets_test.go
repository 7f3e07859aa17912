package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller"
)

// marks returns the secrets of a running service. Records have tried to use each of their
// names.
func marks() map[string]string {
	return map[string]string{
		"ROUNDS_SERVICE_SECRET_ACME_AES_KEY": strings.Repeat("marked-aes-", 4)[:43],
		"ROUNDS_SERVICE_SECRET_ACME_TOKEN":   "marked-callback-token",
		"ROUNDS_SERVICE_SECRET_CRM":          "whsec_bWFya2VkLXNpZ25pbmcta2V5LW9mLWEtd2ViaG9vaw==",
		"ROUNDS_SECRET_KF":                   "marked-wecom-secret", "ROUNDS_BINDING_KF": "hosts=qyapi.weixin.qq.com kinds=wecom-kf",
		"ROUNDS_SECRET_MAIL": "marked-mail-password", "ROUNDS_BINDING_MAIL": "hosts=imap.example.com kinds=imap",
		"ROUNDS_SECRET_FREE": "marked-and-unbound",
	}
}

// thief is a third party that accepts anything, over HTTP or not, and counts its connections.
type thief struct {
	*httptest.Server
	port  string
	asked atomic.Int32
}

func newThief(t *testing.T) *thief {
	th := &thief{}
	th.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	th.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			th.asked.Add(1)
		}
	}
	th.Start()
	t.Cleanup(th.Close)
	_, th.port, _ = net.SplitHostPort(th.Listener.Addr().String())
	return th
}

// Whatever secret a record names, the secret is sent only where it may go. Otherwise no
// connection is even opened.
func TestRecordsGetNoSecretThatIsNotForThem(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"service.IN_A_FILE": "marked-in-a-file", "api-token": "marked-token-of-the-api"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := settings.Read(lookupIn(map[string]string{
		"ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true", "ROUNDS_SECRETS_DIR": dir, "ROUNDS_API_TOKEN_FILE": filepath.Join(dir, "api-token"),
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	th := newThief(t)
	check := func(t *testing.T, variables map[string]string, kind string, config map[string]any) error {
		t.Helper()
		checkers, err := NewCheckers(s.Poller, Options{Lookup: lookupIn(variables), reserved: s.Files()})
		if err != nil {
			t.Fatal(err)
		}
		checker, ok := checkers[kind]
		if !ok {
			t.Fatal(kind)
		}
		raw, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = checker.Check(t.Context(), poller.Request{Account: "a", CheckID: "c", Config: raw, Limit: 10, Attempt: 1})
		return err
	}
	ref := func(name string) any { return map[string]string{"secret": name} }
	for _, c := range []struct {
		name, kind string
		config     map[string]any
		code       string
	}{
		{"five secrets in headers", "http", map[string]any{"headers": map[string]any{
			"X-1": ref("ACME_AES_KEY"), "X-2": ref("ACME_TOKEN"), "X-3": ref("CRM"), "X-4": ref("KF"), "X-5": ref("MAIL"),
		}}, "secret"},
		{"the callback's key", "http", map[string]any{"headers": map[string]any{"X-1": ref("ACME_AES_KEY")}}, "secret"},
		{"by another name", "http", map[string]any{"headers": map[string]any{"X-1": ref("SERVICE_CRM")}}, "secret"},
		{"in the file", "http", map[string]any{"headers": map[string]any{"X-1": ref("IN_A_FILE")}}, "secret"},
		{"by the file's name", "http", map[string]any{"headers": map[string]any{"X-1": ref("service.IN_A_FILE")}}, "config"},
		{"the API's token", "http", map[string]any{"headers": map[string]any{"X-1": ref("api-token")}}, "secret_refused"},
		{"a webhook's key, to sign", "http", map[string]any{"signing_secret": ref("CRM")}, "secret"},
		{"WeCom's secret", "http", map[string]any{"headers": map[string]any{"X-1": ref("KF")}}, "secret_refused"},
		{"the password of a mailbox", "feed", map[string]any{"login": map[string]any{"user": "me", "password": ref("MAIL")}}, "secret_refused"},
		{"WeCom's secret, to another API", "wecom-kf", map[string]any{"corp_id": "c", "open_kfid": "k", "secret": ref("KF"), "base_url": th.URL}, "secret_refused"},
		{"the password, to another server", "imap", map[string]any{"host": "127.0.0.1", "port": json.Number(th.port), "tls": "none", "user": "me", "password": ref("MAIL")}, "secret_refused"},
		{"the password, over TLS", "imap", map[string]any{"host": "127.0.0.1", "port": json.Number(th.port), "user": "me", "password": ref("MAIL")}, "secret_refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.kind == "http" || c.kind == "feed" {
				c.config["url"] = th.URL
			}
			var failed *poller.CheckError
			if err := check(t, marks(), c.kind, c.config); !errors.As(err, &failed) || failed.Code != c.code {
				t.Errorf("got %v, want %s", err, c.code)
			} else if strings.Contains(fmt.Sprint(err, failed), "marked") {
				t.Errorf("told: %v", err)
			}
		})
	}
	if n := th.asked.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}

	// A secret that is not bound to hosts goes where the record wants, unless the settings
	// refuse that.
	free := map[string]any{"url": th.URL, "headers": map[string]any{"X-1": ref("FREE")}}
	if err := check(t, marks(), "http", free); err != nil || th.asked.Load() != 1 {
		t.Errorf("a connector on this machine: %v", err)
	}
	s.Poller.SecretsUnbound = settings.Refuse
	variables := marks()
	var failed *poller.CheckError
	if err := check(t, variables, "http", free); !errors.As(err, &failed) || failed.Code != "secret_refused" {
		t.Errorf("ROUNDS_SECRETS_UNBOUND=refuse: %v", err)
	}
	variables = maps.Clone(variables)
	variables["ROUNDS_BINDING_FREE"] = "hosts=127.0.0.1:" + th.port
	if err := check(t, variables, "http", free); err != nil {
		t.Errorf("bound: %v", err)
	}
}

// Settings from before the service had secrets of its own do not start. The error says what
// to rename.
func TestServiceSecretsThatMustMove(t *testing.T) {
	callbacks := writeFile(t, `{"callbacks":[{"name":"a","corp_id":"ww1","token":{"secret":"TOKEN"},"aes_key":{"secret":"KEY"}}]}`)
	webhooks := writeFile(t, `{"endpoints":[{"name":"crm","url":"https://crm.example","secrets":[{"secret":"NEW"},{"secret":"LATER"}],"headers":{"X-A":{"secret":"AUTH"}}}]}`)
	_, err := read(map[string]string{
		"ROUNDS_REDIS_URL": "redis://127.0.0.1:1", "ROUNDS_ROLES": "api,delivery", callbacksFile: callbacks, webhooksFile: webhooks,
		"ROUNDS_SECRET_TOKEN": callbackToken, "ROUNDS_SECRET_KEY": callbackKey, "ROUNDS_SECRET_NEW": signingKey, "ROUNDS_SECRET_AUTH": "x",
	})
	if err == nil {
		t.Fatal("it starts")
	}
	for _, want := range []string{"callbacks[0].token: secret TOKEN: is where any record could name it: rename", "callbacks[0].aes_key: secret KEY: is where",
		"endpoints[0].secrets[0]: secret NEW: is where any", "endpoints[0].headers.X-A: secret AUTH: is where any", "to ROUNDS_SERVICE_SECRET_AUTH"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "LATER") {
		t.Errorf("what may come later is no fault:\n%v", err)
	}
	if _, err := read(map[string]string{"ROUNDS_REDIS_URL": "redis://127.0.0.1:1", "ROUNDS_ROLES": "poller", webhooksFile: webhooks, "ROUNDS_SECRET_NEW": signingKey}); err != nil {
		t.Errorf("a process that does not deliver: %v", err)
	}
}
