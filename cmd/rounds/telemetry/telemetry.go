// Package telemetry records spans with OpenTelemetry and exports them, if variables of OpenTelemetry ask
// for it (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/). It is the
// only package that knows OpenTelemetry. What is recorded is said in package span.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// scope is the instrumentation scope of all spans.
const scope = "github.com/rounds-dev/rounds"

// lastExport is how long the last spans may take when the process ends.
const lastExport = 5 * time.Second

// Asked reports whether the variables ask for traces: they name an exporter, or where OTLP goes.
func Asked(lookup func(string) (string, bool)) bool {
	value := func(name string) string {
		v, _ := lookup(name)
		return strings.TrimSpace(v)
	}
	exporter := value("OTEL_TRACES_EXPORTER")
	switch {
	case strings.EqualFold(value("OTEL_SDK_DISABLED"), "true"), exporter == "none":
		return false
	}
	return exporter != "" || value("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Options are what recorders need besides the variables. All but Version may be zero.
type Options struct {
	Version  string // the program's
	Instance string // tells this process from others
	// OptIn is the value of OTEL_SEMCONV_STABILITY_OPT_IN.
	OptIn   string
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Exporter replaces the one that the variables name.
	Exporter trace.SpanExporter
}

// Open returns a recorder of what the process's variables say: the exporter, the sampler, the limits of
// spans and the resource. The error names the variable that cannot be used.
func Open(ctx context.Context, o Options) (*Recorder, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Exporter == nil {
		var err error
		if o.Exporter, err = autoexport.NewSpanExporter(ctx); err != nil {
			return nil, fmt.Errorf("OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_…: %w", harmless(err))
		}
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("rounds"), semconv.ServiceVersion(o.Version), semconv.ServiceInstanceID(o.Instance)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(), // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come last, and win
	)
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	counted := NewMetrics(o.Metrics)
	provider := trace.NewTracerProvider(
		trace.WithResource(about),
		trace.WithBatcher(&exporter{SpanExporter: o.Exporter, counted: counted, log: o.Log}),
	)
	return &Recorder{
		tracer: provider.Tracer(scope), provider: provider, counted: counted, old: oldNames(o.OptIn),
	}, nil
}

// Close exports what is left, for a few seconds at most.
func (r *Recorder) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastExport)
	defer cancel()
	_ = r.provider.Shutdown(ctx) // the exporter has counted and logged what was lost
}

// oldNames returns under which further names attributes are recorded, as the categories of
// OTEL_SEMCONV_STABILITY_OPT_IN ask (https://opentelemetry.io/docs/specs/semconv/messaging/). The
// categories without /dup ask for what is recorded anyway.
func oldNames(optIn string) map[string]attribute.Key {
	old := make(map[string]attribute.Key)
	for category := range strings.SplitSeq(optIn, ",") {
		for name, key := range older[strings.TrimSpace(category)] {
			old[name] = key
		}
	}
	return old
}
