package service

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestSettingsReportFaultsOfNetworks(t *testing.T) {
	_, err := read(map[string]string{"ROUNDS_ALLOW_NETWORKS": "10.1.2.3/16,connector.local,a b", "ROUNDS_NO_PROXY": "a,,b"})
	for _, want := range []string{
		`ROUNDS_ALLOW_NETWORKS is "10.1.2.3/16,connector.local,a b": "10.1.2.3/16" has bits beyond its length: is it 10.1.0.0/16?`,
		`"a b" is neither a network`, "ROUNDS_NO_PROXY",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in\n%v", want, err)
		}
	}
	if s, err := read(map[string]string{"ROUNDS_ALLOW_NETWORKS": "10.1.0.0/16, connector.local"}); err != nil || s.Poller.AllowNetworks != "10.1.0.0/16, connector.local" {
		t.Errorf("%+v, %v", s.Poller, err)
	}
}

// A process with a file of webhooks that delivers to none of them says so at its start.
func TestAWebhooksFileWithoutItsRoleIsTold(t *testing.T) {
	for roles, told := range map[string]bool{"api,poller,monitor": true, "api,delivery": false} {
		var s settings.Settings
		if err := s.API.Roles.UnmarshalText([]byte(roles)); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"", "webhooks.json"} {
			var log strings.Builder
			s.Delivery.WebhooksFile = file
			warnOfWebhooks(s, slog.New(slog.NewTextHandler(&log, nil)))
			if got := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "not the role delivery"); got != (told && file != "") {
				t.Errorf("%s, %q: %s", roles, file, log.String())
			}
		}
	}
}

// A reload allows the API, pollers and delivery to reach other networks without a restart,
// together with the webhooks that lead there. They never reach Redis.
func TestReloadOfNetworks(t *testing.T) {
	server := redistest.Start(t)
	webhooks := writeFile(t, `{"endpoints":[]}`)
	with := func(more string) string {
		return "ROUNDS_REDIS_URL=" + server.URL() + "\nROUNDS_ROLES=api,delivery\nROUNDS_API_ADDR=127.0.0.1:0\nROUNDS_SERVICE_SECRET_CRM=" + signingKey + "\nROUNDS_WEBHOOKS_FILE=" + webhooks + "\n" + more
	}
	r := startReloading(t, with(""))
	base := r.base(t, "api")
	processes.AwaitStatus(t, base+"/readyz", http.StatusOK)
	calls := client.New(base, "")
	defer calls.Close()
	expect := func(id, at string, refused bool) {
		t.Helper()
		_, err := calls.Add(t.Context(), accounts.Account{ID: id, Kind: "http", Cadence: "every 1h", Config: fmt.Appendf(nil, `{"url":"http://%s/"}`, at)}, "")
		if got := err != nil && strings.Contains(err.Error(), "must not be a private address"); got != refused || err != nil && !got {
			t.Errorf("%s: %v", at, err)
		}
	}
	redis := strings.TrimPrefix(server.URL(), "redis://")
	expect("a", "127.0.0.1:9", true)
	if err := os.WriteFile(webhooks, []byte(`{"endpoints":[{"name":"crm","url":"http://127.0.0.1:9/","secrets":[{"secret":"CRM"}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := calls.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "must not be a private address") {
		t.Errorf("a webhook to a private address: %v", err)
	}
	r.write(with("ROUNDS_ALLOW_NETWORKS=127.0.0.0/8\n"))
	r.reload(calls, api.Reloaded{Changed: []string{"ROUNDS_ALLOW_NETWORKS", "webhook crm: new"}})
	expect("a", "127.0.0.1:9", false)
	expect("b", redis, true)
	expect("b", strings.Replace(redis, "127.0.0.1", "127.0.0.9", 1), true)
	r.write(with("ROUNDS_ALLOW_NETWORKS=127.0.0.1:9," + redis + "\n"))
	r.reload(calls, api.Reloaded{Changed: []string{"ROUNDS_ALLOW_NETWORKS"}})
	expect("b", redis, false)
	expect("c", "127.0.0.1:10", true)
}

// A setting that opens all networks causes one warning, which names the setting that should
// replace it.
func TestAllowPrivateIsWarnedOf(t *testing.T) {
	r := start(t, map[string]string{"ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true"})
	r.base(t, "api")
	if n := strings.Count(r.log.String(), "instead, name the needed networks in ROUNDS_ALLOW_NETWORKS"); n != 1 {
		t.Errorf("%d warnings in\n%s", n, r.log.String())
	}
}
