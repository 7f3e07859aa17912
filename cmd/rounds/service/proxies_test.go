package service

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/processes"
)

func TestSettingsReportFaultsOfTrustedProxies(t *testing.T) {
	_, err := read(map[string]string{"ROUNDS_TRUSTED_PROXIES": "10.0.0.1/8,nginx"})
	for _, want := range []string{`ROUNDS_TRUSTED_PROXIES is "10.0.0.1/8,nginx": "10.0.0.1/8" has bits beyond its length: is it 10.0.0.0/8?`, `"nginx": must be an address`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in\n%v", want, err)
		}
	}
}

// What a trusted proxy says counts, and what anybody else says does not.
func TestAddressesComeFromTrustedProxies(t *testing.T) {
	t.Parallel()
	for trusted, want := range map[string]string{"": "127.0.0.1", "127.0.0.0/8": "198.51.100.7"} {
		p := start(t, map[string]string{"ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_DATA_DIR": "memory", "ROUNDS_TRUSTED_PROXIES": trusted, "ROUNDS_API_TOKEN": "the-token-of-this-test"})
		base := p.base(t, "api")
		processes.AwaitStatus(t, base+"/readyz", http.StatusOK)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/session", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer wrong")
		r.Header.Set("X-Forwarded-For", "203.0.113.1, 198.51.100.7")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if log := p.log.String(); answer.StatusCode != http.StatusUnauthorized || !strings.Contains(log, `"address":"`+want+`"`) {
			t.Errorf("trusted %q: %s, not from %s", trusted, answer.Status, want)
		}
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
}
