package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/sdk/trace"
)

// Metrics are the spans that ended. What was recorded and neither exported nor failed waits, or was
// dropped because too many waited.
type Metrics struct{ recorded, exported, failed prometheus.Counter }

// NewMetrics registers the metrics of spans. With a nil registry they are not exported.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	spans := promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "spans_total",
		Help: "Spans of traces, by outcome: recorded (each span), exported (the collector has it), failed (it could not be exported)."}, []string{"outcome"})
	return &Metrics{recorded: spans.WithLabelValues("recorded"), exported: spans.WithLabelValues("exported"), failed: spans.WithLabelValues("failed")}
}

// exporter counts what is exported, and logs when exporting begins to fail and when it works again. It
// returns no error: the handler of OpenTelemetry, which is global, would write it to the terminal.
type exporter struct {
	trace.SpanExporter
	counted *Metrics
	log     *slog.Logger
	failing atomic.Bool
}

// ExportSpans implements trace.SpanExporter.
func (e *exporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.counted.failed.Add(float64(len(spans)))
		if !e.failing.Swap(true) {
			e.log.Warn("traces cannot be exported, and are dropped until they can", "error", harmless(err))
		}
		return nil
	}
	e.counted.exported.Add(float64(len(spans)))
	if e.failing.Swap(false) {
		e.log.Info("traces are exported again")
	}
	return nil
}

// mostText is the most bytes of an error's text.
const mostText = 200

// anyURL finds URLs, which may have a password or a query.
var anyURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://\S*`)

// harmless returns an error of an exporter without URLs, and without most of what a collector wrote.
func harmless(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	text, _, _ := strings.Cut(err.Error(), "(body:")
	text = anyURL.ReplaceAllString(strings.Join(strings.Fields(text), " "), "the endpoint")
	return errors.New(strings.ToValidUTF8(text[:min(len(text), mostText)], ""))
}
