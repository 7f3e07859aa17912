package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/rounds-dev/rounds/poller/span"
)

// older are the names that attributes had in the conventions 1.24.0 (messaging) and 1.20.0 (HTTP), by
// the category that asks for both.
var older = map[string]map[string]attribute.Key{
	"messaging/dup": {
		span.MessagingType:  "messaging.operation",
		span.MessagingGroup: "messaging.consumer_group",
	},
	"http/dup": {
		span.HTTPMethod: "http.method", span.HTTPStatus: "http.status_code", span.URLScheme: "http.scheme",
		span.ServerAddress: "net.peer.name", span.ServerPort: "net.peer.port",
	},
}

// olderValues are the values that attributes had under their older names.
var olderValues = map[attribute.Key]map[string]string{
	"messaging.operation": {span.Send: "publish", span.Process: "deliver"},
}

// kinds are OpenTelemetry's. They are made once, because most spans are begun in vain.
var kinds = [...]otel.SpanStartOption{
	span.Internal: otel.WithSpanKind(otel.SpanKindInternal), span.Client: otel.WithSpanKind(otel.SpanKindClient),
	span.Producer: otel.WithSpanKind(otel.SpanKindProducer), span.Consumer: otel.WithSpanKind(otel.SpanKindConsumer),
}

// Recorder is the span.Recorder of OpenTelemetry.
type Recorder struct {
	tracer   otel.Tracer
	provider *trace.TracerProvider
	counted  *Metrics
	old      map[string]attribute.Key // attribute -> its further name
}

var _ span.Recorder = (*Recorder)(nil)

// Begin implements span.Recorder.
func (r *Recorder) Begin(kind span.Kind, name string, at time.Time, parent string) span.Span {
	ctx := context.Background()
	if parent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
	}
	return r.begin(ctx, kind, name, at)
}

func (r *Recorder) begin(ctx context.Context, kind span.Kind, name string, at time.Time) span.Span {
	ctx, s := r.tracer.Start(ctx, name, otel.WithTimestamp(at), kinds[kind])
	if !s.SpanContext().IsSampled() || !s.IsRecording() {
		return nil
	}
	return &recording{recorder: r, ctx: ctx, span: s}
}

// recording is a span that is recorded.
type recording struct {
	recorder *Recorder
	ctx      context.Context // has the span
	span     otel.Span
}

// Begin implements span.Span.
func (s *recording) Begin(kind span.Kind, name string, at time.Time) span.Span {
	if child := s.recorder.begin(s.ctx, kind, name, at); child != nil {
		return child
	}
	return unrecorded{}
}

// Set implements span.Span.
func (s *recording) Set(name string, value any) {
	s.span.SetAttributes(attributeOf(attribute.Key(name), value))
	if old, ok := s.recorder.old[name]; ok {
		if text, ok := value.(string); ok && olderValues[old][text] != "" {
			value = olderValues[old][text]
		}
		s.span.SetAttributes(attributeOf(old, value))
	}
}

func attributeOf(key attribute.Key, value any) attribute.KeyValue {
	switch v := value.(type) {
	case int:
		return key.Int(v)
	case bool:
		return key.Bool(v)
	case string:
		return key.String(v)
	}
	return key.String("")
}

// Fail implements span.Span.
func (s *recording) Fail(class string) {
	s.Set(span.ErrorType, class)
	s.span.SetStatus(codes.Error, class)
}

// End implements span.Span.
func (s *recording) End(at time.Time) {
	if s.span.IsRecording() {
		s.recorder.counted.recorded.Inc()
	}
	s.span.End(otel.WithTimestamp(at))
}

// Traceparent implements span.Span.
func (s *recording) Traceparent() string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(s.ctx, carrier)
	return carrier["traceparent"]
}

// unrecorded is a span that a sampler of the operator's own drops although its parent is recorded.
type unrecorded struct{}

func (unrecorded) Begin(span.Kind, string, time.Time) span.Span { return unrecorded{} }
func (unrecorded) Set(string, any)                              {}
func (unrecorded) Fail(string)                                  {}
func (unrecorded) End(time.Time)                                {}
func (unrecorded) Traceparent() string                          { return "" }
