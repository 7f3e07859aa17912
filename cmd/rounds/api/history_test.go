package api

import (
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/history"
)

func TestHistory(t *testing.T) {
	f := newFixture(t, nil)
	keeper := history.NewKeeper(f.ring)
	now, err := f.ring.Now(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	first := now.Truncate(history.Every).Add(-3 * history.Every)
	for i, checks := range []float64{1234.5678, 0} {
		s := history.NewSample(first.Add(time.Duration(2*i) * history.Every)) // the one between is missing
		s.Set(history.ChecksPerSecond, checks)
		s.Set(history.Registered, 1_000_000)
		if err := keeper.Add(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	between := "from=" + first.UTC().Format(time.RFC3339) + "&to=" + first.Add(3*history.Every).UTC().Format(time.RFC3339)
	reply := f.call("GET", "/v1/history?"+between+"&step=10s&fields=registered,checks_per_second", "", 200, nil)
	for _, want := range []string{
		`"step_seconds":10,"points":3,`, `{"name":"registered","values":[1000000,null,1000000]},`,
		`{"name":"checks_per_second","values":[1235,null,0],"min":[1235,null,0],"max":[1235,null,0]}]`, `"from":"` + first.UTC().Format(time.RFC3339) + `"`,
	} {
		if !strings.Contains(reply.body, want) {
			t.Errorf("%s is not in %s", want, reply.body)
		}
	}
	var all History
	f.call("GET", "/v1/history", "", 200, nil)
	f.call("GET", "/v1/history?from=720h", "", 200, &all)
	if len(all.Fields) != len(history.Fields()) || all.Points > history.MaxPoints || all.Now.IsZero() {
		t.Errorf("%d fields, %d points", len(all.Fields), all.Points)
	}
	for query, field := range map[string]string{
		"from=yesterday": "query.from", "from=-1h": "query.from", "from=10000h": "query.from", "from=1h&to=2h": "query.from", "to=x": "query.to",
		"step=1s": "query.step", "step=x": "query.step", "step=-10s": "query.step", "from=24h&step=10s": "query.step", "from=48h&step=1m": "query.step",
		"fields=checks_per_second,other": "query.fields",
	} {
		if reply := f.call("GET", "/v1/history?"+query, "", 422, nil); !strings.Contains(reply.body, `"`+field+`"`) {
			t.Errorf("%s: %s", query, reply.body)
		}
	}
}

func TestReplicasTellTheirVersion(t *testing.T) {
	f := newFixture(t, nil)
	if _, err := f.ring.Heartbeat(t.Context(), "alice00000", []byte(`{"version":"v1.2.3","totals":{"checks":1}}`), time.Minute); err != nil {
		t.Fatal(err)
	}
	if body := f.call("GET", "/v1/stats", "", 200, nil).body; !strings.Contains(body, `"version":"v1.2.3"`) || strings.Contains(body, "totals") {
		t.Error(body)
	}
}
