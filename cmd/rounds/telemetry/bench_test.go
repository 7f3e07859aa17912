package telemetry

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rounds-dev/rounds/poller/span"
)

// BenchmarkBegin is what a check costs more if one in a hundred is recorded.
func BenchmarkBegin(b *testing.B) {
	b.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
	b.Setenv("OTEL_TRACES_SAMPLER_ARG", "0.01")
	r, err := Open(b.Context(), Options{Version: "1", Exporter: tracetest.NewNoopExporter()})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	at := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		s := r.Begin(span.Internal, "check http", at, "")
		if s == nil {
			continue
		}
		for range 3 {
			c := s.Begin(span.Client, "POST", at)
			c.Set(span.HTTPMethod, "POST")
			c.Set(span.HTTPStatus, 200)
			c.End(at)
		}
		for range 8 {
			s.Set(span.AccountID, "an account")
		}
		_ = s.Traceparent()
		s.End(at)
	}
}
