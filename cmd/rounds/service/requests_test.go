package service

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// Requests are counted by route. Paths that callers make up do not create new series.
func TestRequestsAreCounted(t *testing.T) {
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	server, err := api.New(api.Options{Ring: ring, Registry: accounts.NewRegistry(ring, poller.Checkers{}), Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	handler := newRequestMetrics(registry).counting(server)
	call := func(method, path, token string) {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	for _, path := range []string{"/v1/accounts/a", "/v1/accounts/b%2Fc", "/v1/accounts/%2F", "/v1/nothing", "/v1/more", "/" + strings.Repeat("x", 100)} {
		call(http.MethodGet, path, "token")
	}
	call("NONSENSE", "/v1/accounts", "token")
	call(http.MethodPost, "/v1/accounts:pause", "wrong")
	call(http.MethodGet, "/v1/accounts", "token")
	call(http.MethodGet, "/healthz", "")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]uint64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "rounds_api_request_seconds" {
				got[m.GetLabel()[1].GetValue()+" "+m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
			} else {
				got[m.GetLabel()[0].GetValue()] = uint64(m.GetCounter().GetValue())
			}
		}
	}
	want := map[string]uint64{
		"GET /v1/accounts/{id} 4xx": 3, "none 4xx": 4, "POST /v1/accounts:pause 4xx": 1, "GET /v1/accounts 2xx": 1, "GET /healthz 2xx": 1,
		"404": 6, "405": 1, "401": 1, "200": 2,
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d, want %d", name, got[name], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
}
