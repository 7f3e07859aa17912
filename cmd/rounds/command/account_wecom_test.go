package command

import (
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A customer-service account is added as the README says. Its faults name fields, and never
// quote a value that may be a secret.
func TestAccountAddWeComKF(t *testing.T) {
	t.Parallel()
	addr := freeLoopback(t)
	variables := map[string]string{"ROUNDS_REDIS_URL": redistest.Start(t).URL(), "ROUNDS_API_ADDR": addr, "ROUNDS_API_URL": "http://" + addr}
	p := startProgram(t, variables, "serve", "--roles", "api")
	processes.AwaitStatus(t, "http://"+addr+"/readyz", 200)
	add := func(args ...string) (output, error) {
		return runWith(t.Context(), variables, "", append([]string{"account", "add", "wkAJ2GCAAASSm4", "--kind", "wecom-kf"}, args...)...)
	}
	for _, c := range []struct{ args, want []string }{
		{nil, []string{"\n  config.corp_id: missing", "\n  config.open_kfid: missing", "\n  config.secret: missing"}},
		{
			[]string{"--set", "corp_id=a b", "--set", "open_kfid=?", "--set", "secret=hidden", "--set", "voice_format=2", "--set", "base_url=gopher://x", "--set", "zebra=1"},
			[]string{"config.corp_id: must be", "config.open_kfid: must be", "config.secret: ", "config.voice_format: must be", "config.base_url: ", "config.zebra: "},
		},
	} {
		_, err := add(c.args...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("%q: got %v, want %q", c.args, err, want)
			}
		}
	}
	good := []string{"--set", "corp_id=ww1234567890abcdef", "--set", "open_kfid=wkAJ2GCAAASSm4", "--set", `secret={"secret":"KF"}`, "--every", "1m"}
	if printed, err := add(good...); err != nil || printed.out != "wkAJ2GCAAASSm4 added\n" {
		t.Errorf("got %q, %v", printed.out, err)
	}
	printed, err := runWith(t.Context(), variables, "", "account", "get", "wkAJ2GCAAASSm4", "--json")
	if err != nil || !strings.Contains(printed.out, `"corp_id":"ww1234567890abcdef"`) || !strings.Contains(printed.out, `{"secret":"KF"}`) {
		t.Errorf("got %s, %v", printed.out, err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}
