//go:build night

package oteltest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"

	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/testing/ports"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// kept are the spans that a collector has received.
type kept struct {
	mu    sync.Mutex
	spans map[string][]string // trace -> the names of its spans
	about string              // service.name of the last one
	text  string              // all attributes
	came  chan struct{}
}

func (k *kept) take(_ context.Context, traces ptrace.Traces) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range traces.ResourceSpans().All() {
		if name, ok := r.Resource().Attributes().Get("service.name"); ok {
			k.about = name.Str()
		}
		for _, s := range r.ScopeSpans().All() {
			for _, span := range s.Spans().All() {
				id := span.TraceID().String()
				k.spans[id] = append(k.spans[id], span.Name())
				k.text += fmt.Sprint(span.Attributes().AsRaw())
			}
		}
	}
	select {
	case k.came <- struct{}{}:
	default:
	}
	return nil
}

// await returns the names of the spans of a trace that has them all.
func (k *kept) await(t *testing.T, want ...string) {
	t.Helper()
	for deadline := time.After(60 * time.Second); ; {
		k.mu.Lock()
		for _, names := range k.spans {
			if !slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(names, name) }) {
				k.mu.Unlock()
				return
			}
		}
		got := fmt.Sprint(k.spans)
		k.mu.Unlock()
		select {
		case <-k.came:
		case <-deadline:
			t.Fatalf("no trace has %q: %s", want, got)
		}
	}
}

// collect runs a collector until the test ends.
func collect(t *testing.T, grpc, plain string, into *kept) {
	t.Helper()
	memory := component.MustNewType("memory")
	factories := func() (otelcol.Factories, error) {
		received, err := otelcol.MakeFactoryMap(receiver.Factory(otlpreceiver.NewFactory()))
		if err != nil {
			return otelcol.Factories{}, err
		}
		exported, err := otelcol.MakeFactoryMap(exporter.NewFactory(memory, func() component.Config { return &struct{}{} },
			exporter.WithTraces(func(context.Context, exporter.Settings, component.Config) (exporter.Traces, error) {
				taken, err := consumer.NewTraces(into.take)
				return inMemory{Traces: taken}, err
			}, component.StabilityLevelDevelopment)))
		return otelcol.Factories{Receivers: received, Exporters: exported, Telemetry: otelconftelemetry.NewFactory()}, err
	}
	config := "yaml:" + fmt.Sprintf(`{receivers: {otlp: {protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}}}, exporters: {memory: }, service: {telemetry: {metrics: {level: none}}, pipelines: {traces: {receivers: [otlp], exporters: [memory]}}}}`, grpc, plain)
	collector, err := otelcol.NewCollector(otelcol.CollectorSettings{
		Factories: factories, DisableGracefulShutdown: true,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: []string{config}, ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- collector.Run(context.Background()) }()
	t.Cleanup(func() {
		collector.Shutdown()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// inMemory is an exporter.
type inMemory struct {
	component.StartFunc
	component.ShutdownFunc
	consumer.Traces
}

// A service whose variables name a collector exports the trace of a check with its delivery, by both
// protocols. Until the collector is there, checks and deliveries go on.
func TestACollectorGetsTheTraces(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			hooked := make(chan string, 100)
			third := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if strings.HasSuffix(q.URL.Path, "/hook") {
					hooked <- q.Header.Get("Traceparent")
					return
				}
				fmt.Fprintf(w, `{"messages":[{"id":"%d","type":"text","time":"2026-03-01T12:00:00Z","data":{"text":"hidden"}}]}`, time.Now().UnixNano())
			}))
			t.Cleanup(third.Close)
			grpc, err := ports.Address()
			if err != nil {
				t.Fatal(err)
			}
			plain, err := ports.Address()
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+map[string]string{"grpc": grpc, "http/protobuf": plain}[protocol])
			t.Setenv("OTEL_SERVICE_NAME", "rounds-of-the-test")
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
			hooks := filepath.Join(t.TempDir(), "hooks.json")
			if err := os.WriteFile(hooks, fmt.Appendf(nil, `{"endpoints":[{"name":"crm","url":"%s/hidden/hook","secrets":[{"secret":"CRM"}]}]}`, third.URL), 0o600); err != nil {
				t.Fatal(err)
			}
			variables := map[string]string{
				"ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ROLES": "api,poller,delivery", "ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true",
				"ROUNDS_SERVICE_SECRET_CRM": "whsec_b2xkLXNpZ25pbmcta2V5LW9mLTI0LWJ5dGVz", "ROUNDS_WEBHOOKS_FILE": hooks,
			}
			lookup := func(name string) (string, bool) {
				if strings.HasPrefix(name, "OTEL_") {
					return os.LookupEnv(name)
				}
				value, ok := variables[name]
				return value, ok
			}
			s, err := settings.Read(lookup, nil, func(s settings.Settings) error { return service.Validate(s, service.Options{Lookup: lookup}) })
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			served, ended := make(chan string, 1), make(chan error, 1)
			redis := redistest.Embedded(t)
			go func() {
				ended <- service.Run(ctx, s, service.Options{Lookup: lookup, Redis: redis, Serving: func(at string) { served <- at }})
			}()
			base := "http://" + <-served
			put := func() int {
				q, err := http.NewRequestWithContext(t.Context(), http.MethodPut, base+"/v1/accounts/a",
					strings.NewReader(fmt.Sprintf(`{"kind":"http","cadence":"every 1s","config":{"url":"%s/hidden/check?key=hidden"}}`, third.URL)))
				if err != nil {
					t.Fatal(err)
				}
				q.Header.Set("Content-Type", "application/json")
				answer, err := http.DefaultClient.Do(q)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				return answer.StatusCode
			}
			for end := time.Now().Add(30 * time.Second); put() == http.StatusServiceUnavailable && time.Now().Before(end); {
				time.Sleep(50 * time.Millisecond)
			}
			if got := <-hooked; len(got) != 55 { // there is no collector yet
				t.Errorf("the webhook was told %q", got)
			}
			into := &kept{spans: make(map[string][]string), came: make(chan struct{}, 1)}
			collect(t, grpc, plain, into)
			into.await(t, "check http", "claim", "call", "POST", "commit messages", "process messages")
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			into.mu.Lock()
			defer into.mu.Unlock()
			if into.about != "rounds-of-the-test" || strings.Contains(into.text, "hidden") || !strings.Contains(into.text, "messaging.system:rounds") {
				t.Errorf("the collector has of %s: %s", into.about, into.text)
			}
		})
	}
}
