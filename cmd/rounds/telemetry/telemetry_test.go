package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/rounds-dev/rounds/poller/span"
)

func TestAsked(t *testing.T) {
	for _, test := range []struct {
		set  string
		want bool
	}{
		{"", false},
		{"OTEL_SERVICE_NAME=x OTEL_TRACES_SAMPLER=always_on OTEL_METRICS_EXPORTER=otlp", false},
		{"OTEL_TRACES_EXPORTER=otlp", true},
		{"OTEL_TRACES_EXPORTER=console", true},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318", true},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://collector:4318/v1/traces", true},
		{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://collector:4318/v1/metrics", false},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 OTEL_TRACES_EXPORTER=none", false},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 OTEL_SDK_DISABLED=TRUE", false},
	} {
		variables := make(map[string]string)
		for one := range strings.FieldsSeq(test.set) {
			name, value, _ := strings.Cut(one, "=")
			variables[name] = value
		}
		if got := Asked(func(name string) (string, bool) { v, ok := variables[name]; return v, ok }); got != test.want {
			t.Errorf("%q: %t", test.set, got)
		}
	}
}

// open returns a recorder and a function that returns what it has exported.
func open(t *testing.T, optIn string) (*Recorder, func() tracetest.SpanStubs) {
	t.Helper()
	memory := tracetest.NewInMemoryExporter()
	r, err := Open(t.Context(), Options{Version: "1.2.3", Instance: "here", OptIn: optIn, Exporter: kept{memory}})
	if err != nil {
		t.Fatal(err)
	}
	return r, func() tracetest.SpanStubs {
		r.Close()
		return memory.GetSpans()
	}
}

// kept keeps its spans when it is shut down.
type kept struct{ *tracetest.InMemoryExporter }

func (kept) Shutdown(context.Context) error { return nil }

func attributes(s tracetest.SpanStub) map[string]any {
	all := make(map[string]any)
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

func TestSpans(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "pollers")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	r, exported := open(t, "messaging/dup, http/dup,database")
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s := r.Begin(span.Consumer, "process", began, parent)
	child := s.Begin(span.Client, "POST", began.Add(time.Second))
	child.Set(span.HTTPStatus, 503)
	child.Fail("503")
	if got := child.Traceparent(); !span.Valid(got) || got[3:35] != parent[3:35] || got[36:52] == parent[36:52] {
		t.Errorf("the traceparent is %q", got)
	}
	child.End(began.Add(2 * time.Second))
	s.Set(span.MessagingType, span.Process)
	s.Set(span.Held, true)
	s.End(began.Add(3 * time.Second))
	s.Set(span.Outcome, "late")

	spans := exported()
	if len(spans) != 2 {
		t.Fatalf("%d spans were exported", len(spans))
	}
	post, process := spans[0], spans[1]
	if got, want := fmt.Sprint(attributes(post)), "map[error.type:503 http.response.status_code:503 http.status_code:503]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(attributes(process)), "map[messaging.operation:deliver messaging.operation.type:process rounds.check.held:true]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if post.Status.Code != codes.Error || post.SpanKind != otel.SpanKindClient || process.SpanKind != otel.SpanKindConsumer || process.Status.Code != codes.Unset {
		t.Errorf("got %+v", spans)
	}
	if post.Parent.SpanID() != process.SpanContext.SpanID() || process.Parent.SpanID().String() != parent[36:52] || !process.Parent.IsRemote() {
		t.Errorf("the parents are %v and %v", post.Parent, process.Parent)
	}
	if !process.StartTime.Equal(began) || !process.EndTime.Equal(began.Add(3*time.Second)) {
		t.Errorf("it lasted from %v to %v", process.StartTime, process.EndTime)
	}
	about := process.Resource.String()
	for _, want := range []string{"service.name=pollers", "service.version=1.2.3", "service.instance.id=here", "deployment.environment.name=test"} {
		if !strings.Contains(about, want) {
			t.Errorf("the resource %s lacks %s", about, want)
		}
	}
}

func TestWithoutOptInThereAreNoOlderNames(t *testing.T) {
	r, exported := open(t, "messaging,http")
	s := r.Begin(span.Producer, "commit", time.Now(), "")
	s.Set(span.MessagingType, span.Send)
	s.Set(span.HTTPMethod, "GET")
	s.End(time.Now())
	if got, want := fmt.Sprint(attributes(exported()[0])), "map[http.request.method:GET messaging.operation.type:send]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheSamplerOfTheVariables(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0")
	r, exported := open(t, "")
	begin := func(parent string) bool {
		s := r.Begin(span.Internal, "check", time.Now(), parent)
		if s != nil {
			s.End(time.Now())
		}
		return s != nil
	}
	for parent, want := range map[string]bool{
		"": false, "nonsense": false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00": false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": true,
	} {
		if begin(parent) != want {
			t.Errorf("%q: want recorded %t", parent, want)
		}
	}
	if n := len(exported()); n != 1 {
		t.Errorf("%d spans were exported", n)
	}
}

type failing struct {
	trace.SpanExporter
	err error
}

func (f *failing) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return f.err }

func TestExportsThatFailAreCountedAndTold(t *testing.T) {
	var log strings.Builder
	registry := prometheus.NewRegistry()
	inner := &failing{err: &url.Error{Op: "Post", URL: "http://user:hidden@collector/v1/traces?token=hidden", Err: errors.New("connection refused")}}
	e := &exporter{SpanExporter: inner, counted: NewMetrics(registry), log: slog.New(slog.NewTextHandler(&log, nil))}
	export := func(err error) {
		t.Helper()
		inner.err = err
		if err := e.ExportSpans(t.Context(), make([]trace.ReadOnlySpan, 2)); err != nil {
			t.Error(err)
		}
	}
	export(inner.err)
	export(errors.New("traces export: failed to send to http://collector:4318/v1/traces?key=hidden: 401 Unauthorized (body: hidden)"))
	export(nil)
	if err := testutil.CollectAndCompare(registry, strings.NewReader(`
# HELP rounds_spans_total Spans of traces, by outcome: recorded (each span), exported (the collector has it), failed (it could not be exported).
# TYPE rounds_spans_total counter
rounds_spans_total{outcome="exported"} 2
rounds_spans_total{outcome="failed"} 4
rounds_spans_total{outcome="recorded"} 0
`)); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Count(text, "cannot be exported") != 1 || strings.Count(text, "exported again") != 1 || !strings.Contains(text, "connection refused") || strings.Contains(text, "hidden") {
		t.Errorf("the log says %s", text)
	}
	if got := harmless(errors.New("failed to send to http://collector:4318/v1/traces?key=hidden: 401 Unauthorized (body: hidden)")).Error(); got != "failed to send to the endpoint 401 Unauthorized" {
		t.Errorf("got %q", got)
	}
}
